package snapshot

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/internal/durable"
	"queen/stages"
)

func example() *Manifest {
	return &Manifest{
		Seed: [16]byte([]byte("0123456789abcdef")), Applied: 4711, Term: 3, MembersAt: 1, Members: []byte{0x81, 0xa7},
		Files: []File{
			{Path: "FORMAT", Length: 51, Summed: true, Sum: 0xabc},
			{Path: "segments/0000000000000001-00000001.idx", Length: 136},
			{Path: "segments/0000000000000001-00000001.seg", Length: 67108990},
			{Path: "state/000008.sst", Length: 12345},
			{Path: "state/MANIFEST-000009", Length: 0, Summed: true},
		},
	}
}

// exampleText is the example of docs/formats.md section 6.2.
const exampleText = `queen snapshot 1
seed 30313233343536373839616263646566
applied 4711
term 3
members 1 81a7
file 51 00000abc FORMAT
file 136 - segments/0000000000000001-00000001.idx
file 67108990 - segments/0000000000000001-00000001.seg
file 12345 - state/000008.sst
file 0 00000000 state/MANIFEST-000009
end 6f336d41
`

func TestManifest(t *testing.T) {
	if got := string(example().encode()); got != exampleText {
		t.Errorf("encodes to\n%s\nwant\n%s", got, exampleText)
	}
	m, err := decode([]byte(exampleText))
	if err != nil || m.Applied != 4711 || m.Term != 3 || len(m.Files) != 5 || m.Files[2].Length != 67108990 || m.Files[0].Sum != 0xabc {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestManifestDamage: a text that is cut anywhere, or in which one bit differs, is refused.
func TestManifestDamage(t *testing.T) {
	for i := range exampleText {
		if _, err := decode([]byte(exampleText[:i])); err == nil {
			t.Errorf("cut at byte %d: accepted", i)
		}
		for bit := range 8 {
			text := []byte(exampleText)
			text[i] ^= 1 << bit
			if _, err := decode(text); err == nil {
				t.Errorf("bit %d of byte %d: accepted", bit, i)
			}
		}
	}
	_, err := decode([]byte(strings.Replace(exampleText, "snapshot 1", "snapshot 2", 1)))
	if err == nil || !strings.Contains(err.Error(), `version "queen snapshot 2" is not known`) {
		t.Errorf("another version: %v", err)
	}
}

// FuzzManifest: whatever is accepted, with its checksum put right, is what would be written.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(exampleText))
	f.Add([]byte("queen snapshot 1\nseed \napplied -1\nterm 1\nmembers 1 \nfile 1 - ../x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if i := bytes.LastIndex(text, []byte("end ")); i >= 0 {
			text = append(bytes.Clone(text[:i]), endOf(text[:i])...)
		}
		m, err := decode(text)
		if err != nil {
			return
		}
		if !bytes.Equal(m.encode(), text) {
			t.Errorf("accepted, and encodes to %q, was %q", m.encode(), text)
		}
		for _, file := range m.Files {
			if strings.Contains("/"+file.Path+"/", "/../") || strings.HasPrefix(file.Path, "/") {
				t.Errorf("a path that leads out: %q", file.Path)
			}
		}
	})
}

// TestPinned: what the state has written anew since, or has removed, is kept by the snapshot alone.
func TestPinned(t *testing.T) {
	disk := vfs.NewMem()
	want, gone := int64(12345+136+67108990), true
	check := func(what string) {
		n, err := example().Pinned(disk, "/state", func(queue stages.QueueID, seg uint32) bool { return gone && queue == 1 && seg == 1 })
		if n != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", what, n, err, want)
		}
	}
	check("no folder")
	if err := disk.MkdirAll("/state", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, length := range map[string]int64{"other.sst": 0, "000008.sst": 12345} {
		if err := durable.WriteFile(disk, "/state", name, []byte("x")); err != nil {
			t.Fatal(err)
		}
		want -= length
		check("with " + name)
	}
	want, gone = 0, false
	check("with the segment")
}
