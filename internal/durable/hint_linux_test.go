package durable_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/internal/durable"
)

// TestBeginWriting: a file of any kind is taken, also one for which the system knows nothing of it; a fault is told.
func TestBeginWriting(t *testing.T) {
	disk, err := vfs.Default.Create(filepath.Join(t.TempDir(), "file"), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := vfs.NewMem().Create("file", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	null, err := vfs.Default.OpenReadWrite("/dev/null", vfs.WriteCategoryUnspecified) // ESPIPE
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []vfs.File{disk, memory, null} {
		if _, err := f.Write([]byte("some bytes")); err != nil {
			t.Fatal(err)
		}
		if err := durable.BeginWriting(f, 0, 10); err != nil {
			t.Error(err)
		}
	}
	if err := durable.BeginWriting(descriptor{null}, 5, 10); !errors.Is(err, syscall.EBADF) || !strings.Contains(err.Error(), "10 bytes from byte 5") {
		t.Errorf("a file that is not open: %v", err)
	}
	for _, f := range []vfs.File{disk, memory, null} {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// descriptor is a file whose descriptor is not open.
type descriptor struct{ vfs.File }

func (descriptor) Fd() uintptr { return 1 << 20 }
