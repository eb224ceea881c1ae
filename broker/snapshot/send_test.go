package snapshot

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/internal/durable"
)

// written makes a snapshot's folder with some content, and what Send gives of it.
func written(t *testing.T) (Found, []byte) {
	t.Helper()
	disk := vfs.NewMem()
	m := &Manifest{Seed: [16]byte([]byte("0123456789abcdef")), Applied: 4711, Term: 3, MembersAt: 1, Members: []byte{0x81}}
	for _, f := range []struct {
		path, text string
		summed     bool
	}{{"FORMAT", "queen data 3\n", true}, {"segments/a.seg", strings.Repeat("x", 5000), false}, {"state/000001.sst", "", false}, {"state/MANIFEST-1", "m", true}} {
		dir := "/from/" + folderName(4711)
		if folder, _, in := strings.Cut(f.path, "/"); in {
			dir += "/" + folder
		}
		if err := disk.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		one := File{Path: f.path, Length: int64(len(f.text)), Summed: f.summed}
		if f.summed {
			one.Sum = sum([]byte(f.text))
		}
		m.Files = append(m.Files, one)
		if err := durable.WriteFile(disk, dir, f.path[strings.LastIndex(f.path, "/")+1:], []byte(f.text+"and what was appended since")); err != nil {
			t.Fatal(err)
		}
	}
	found := Found{Dir: "/from/" + folderName(4711), Name: folderName(4711), Index: 4711, Manifest: m}
	r, err := Send(disk, found)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil || int64(len(text)) != StreamSize(m) {
		t.Fatalf("%d bytes, %v, StreamSize says %d", len(text), err, StreamSize(m))
	}
	return found, text
}

func receive(t *testing.T, disk vfs.FS, text []byte, piece int) error {
	t.Helper()
	in, err := Receive(disk, "/to/snapshots", [16]byte([]byte("0123456789abcdef")), 4711, 3)
	if err != nil {
		t.Fatal(err)
	}
	for len(text) > 0 && err == nil {
		n := min(piece, len(text))
		_, err = in.Write(text[:n])
		text = text[n:]
	}
	if err != nil {
		if err := in.Drop(); err != nil {
			t.Fatal(err)
		}
		return err
	}
	if _, err = in.Whole(); err == nil {
		err = in.Keep()
	}
	return err
}

// TestSendAndReceive: what comes in is what was sent, in pieces of any size, and it checks out.
func TestSendAndReceive(t *testing.T) {
	_, text := written(t)
	for _, piece := range []int{1, 3, 100, 1 << 20} {
		disk := vfs.NewMem()
		if err := receive(t, disk, text, piece); err != nil {
			t.Fatal(err)
		}
		found, err := Find(disk, "/to/snapshots", [16]byte([]byte("0123456789abcdef")))
		if err != nil || len(found) != 1 || found[0].Fault != nil {
			t.Fatalf("%+v, %v", found, err)
		}
		r, err := Send(disk, found[0])
		if err != nil {
			t.Fatal(err)
		}
		again, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(again, text) {
			t.Errorf("sent again it is another: %v", err)
		}
	}
}

// TestReceiveDamage: a stream that is cut anywhere, or in which a bit differs, adds no snapshot and leaves the one that was there.
func TestReceiveDamage(t *testing.T) {
	_, text := written(t)
	disk := vfs.NewMem()
	if err := receive(t, disk, text, 1<<20); err != nil {
		t.Fatal(err)
	}
	step := max(1, len(text)/300)
	for i := 0; i < len(text); i += step {
		if receive(t, disk, text[:i], 1<<20) == nil {
			t.Errorf("cut at byte %d: taken", i)
		}
		bad := bytes.Clone(text)
		bad[i] ^= 1 << (i % 8)
		if receive(t, disk, bad, 1<<20) == nil {
			t.Errorf("a bit of byte %d differs: taken", i)
		}
	}
	if receive(t, disk, append(bytes.Clone(text), 0), 1<<20) == nil {
		t.Error("a byte too many: taken")
	}
	found, err := Find(disk, "/to/snapshots", [16]byte{})
	if err != nil || len(found) != 1 || found[0].Fault != nil {
		t.Errorf("the one that was there: %+v, %v", found, err)
	}
}
