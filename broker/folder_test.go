package broker

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/internal/crashdisk"
)

var seedBytes = []byte("0123456789abcdef")

func TestFormatIsMadeOnceAndKept(t *testing.T) {
	disk := vfs.NewMem()
	if err := makeFolder(disk, "/data/q"); err != nil {
		t.Fatal(err)
	}
	made, err := seedOf(disk, "/data/q", bytes.NewReader(seedBytes), false)
	if err != nil || !bytes.Equal(made[:], seedBytes) {
		t.Fatalf("made %x, %v", made, err)
	}
	text, err := readFile(disk, "/data/q/FORMAT")
	if want := "queen data 1\nseed 30313233343536373839616263646566\n"; err != nil || text != want {
		t.Errorf("FORMAT is %q, %v, want %q", text, err, want)
	}
	again, err := seedOf(disk, "/data/q", strings.NewReader("another seed 123"), false)
	if err != nil || again != made {
		t.Errorf("read %x, %v, want %x", again, err, made)
	}
}

func TestFormatSurvivesPowerLoss(t *testing.T) {
	disk := crashdisk.New()
	if err := makeFolder(disk, "/data"); err != nil {
		t.Fatal(err)
	}
	made, err := seedOf(disk, "/data", bytes.NewReader(seedBytes), false)
	if err != nil {
		t.Fatal(err)
	}
	after := disk.CrashClone(vfs.CrashCloneCfg{})
	got, err := seedOf(after, "/data", strings.NewReader(""), false)
	if err != nil || got != made {
		t.Errorf("after the crash: %x, %v, want %x", got, err, made)
	}
}

func TestFormatRefusals(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"newer", "queen data 4\nseed 30313233343536373839616263646566\n", `data folder /d has the format "queen data 4", this binary reads "queen data 1", "queen data 2" and "queen data 3"`},
		{"empty", "", `data folder /d has the format ""`},
		{"no seed", "queen data 1\n", "FORMAT is damaged"},
		{"short seed", "queen data 1\nseed 3031\n", "FORMAT is damaged"},
		{"not hex", "queen data 1\nseed zz313233343536373839616263646566\n", "FORMAT is damaged"},
		{"more lines", "queen data 1\nseed 30313233343536373839616263646566\nx\n", "FORMAT is damaged"},
	}
	for _, tt := range tests {
		disk := vfs.NewMem()
		if err := disk.MkdirAll("/d", 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, disk, "/d/FORMAT", tt.text)
		if _, err := seedOf(disk, "/d", bytes.NewReader(seedBytes), false); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	disk := vfs.NewMem()
	if err := makeFolder(disk, "/d"); err != nil {
		t.Fatal(err)
	}
	if err := makeParts(disk, "/d", formatWhole, [16]byte(seedBytes)); err != nil {
		t.Fatal(err)
	}
	write(t, disk, "/d/raft/meta", "x")
	if _, err := seedOf(disk, "/d", bytes.NewReader(seedBytes), false); err == nil || !strings.Contains(err.Error(), "holds raft but no FORMAT") {
		t.Errorf("a folder without FORMAT: %v", err)
	}
}

func write(t *testing.T, disk vfs.FS, name, text string) {
	t.Helper()
	f, err := disk.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLockNamesTheFolder(t *testing.T) {
	dir := t.TempDir()
	first, err := takeLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := takeLock(dir); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("second lock: %v", err)
	}
	if err := first.release(); err != nil {
		t.Fatal(err)
	}
	again, err := takeLock(dir)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	if err := again.release(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "LOCK")); err != nil || info.Size() != 0 {
		t.Errorf("LOCK: %v, %v", info, err)
	}
}
