package segment

import (
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestLink: links that are made of a log while it grows give, laid out again, the log up to the tail that they were made for.
func TestLink(t *testing.T) {
	disk := vfs.NewMem()
	s, err := Open(Options{FS: disk, Dir: "/live", SealBytes: 2000, Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	m := newMaker(1, 300)
	stamp := 0
	grow := func(n int) {
		for range n {
			stamp++
			if _, _, err := s.Append(7, []Frame{m.frame(stamp)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for grow(60); !s.queues[7].open; {
		grow(1)
	}
	tail := s.View(7).Tail()
	want, err := headersOf(s.View(7).Headers(0, maxMicros))
	if err != nil || tail.Seg < 3 || !s.queues[7].open {
		t.Fatal(tail, err)
	}
	grow(1 + 25) // the last segment grows and is sealed
	if err := disk.MkdirAll("/links", 0o755); err != nil {
		t.Fatal(err)
	}
	links, err := s.Link(7, tail, nil, "/links")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range links {
		names = append(names, l.Name)
		info, err := disk.Stat("/links/" + l.Name)
		last := strings.HasSuffix(l.Name, segmentName(tail.Seg))
		if err != nil || info.Size() < l.Length || !last && info.Size() != l.Length || last && l.Length != tail.Len {
			t.Errorf("%+v: %v, %v", l, info, err)
		}
	}
	if len(links) != 2*int(tail.Seg) || !slices.Contains(names, "0000000000000007-00000001.idx") {
		t.Errorf("links %v for %+v", names, tail)
	}
	grow(25)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := disk.MkdirAll("/again", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Unlink(disk, "/links", names, "/again"); err != nil {
		t.Fatal(err)
	}
	again, err := Open(Options{FS: disk, Dir: "/again", SealBytes: 2000, Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.attach(7, tail); err != nil {
		t.Fatal(err)
	}
	got, err := headersOf(again.View(7).Headers(0, maxMicros))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %d headers, want %d", err, len(got), len(want))
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Unlink(disk, "/links", []string{"../FORMAT"}, "/again"); err == nil {
		t.Error("a name that leads out of the folder was taken")
	}
}
