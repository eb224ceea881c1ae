//go:build linux

package segment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/stages"
)

// onDisk is a store on the file system of this machine, with the frames of some calls.
func onDisk(t *testing.T, seal int64, calls, payload int) (*Store, []Frame) {
	t.Helper()
	s, err := Open(Options{FS: vfs.Default, Dir: t.TempDir(), SealBytes: seal, Generation: 9})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if n := len(s.maps.open); n != 0 {
			t.Errorf("%d segments are mapped behind Close", n)
		}
	})
	m := newMaker(2, 20)
	var all []Frame
	for range calls {
		fs := m.call(payload)
		all = append(all, fs...)
		mustAppend(t, s, 1, fs)
	}
	return s, all
}

// asWindow is all that a store holds of queue 1, as a window.
func asWindow(t *testing.T, s *Store) stages.Listing {
	t.Helper()
	list, err := s.View(1).List(t.Context(), stages.Beginning, maxMicros)
	if err != nil {
		t.Fatal(err)
	}
	list.K = 1
	return list
}

// text reads appends and writes down all that a reader sees of them.
func text(s *Store, list *stages.Listing, appends []stages.Append) (string, error) {
	var b strings.Builder
	err := s.Bodies(context.Background(), list, appends, func(i int, body stages.Body) error {
		fmt.Fprintf(&b, "%d %+v\n", i, body.Header())
		for r, err := range body.Records() {
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%d %s %s\n", r.Offset, r.TxID, r.Payload)
		}
		return nil
	})
	return b.String(), err
}

func mapped(s *Store) int {
	s.maps.mu.Lock()
	defer s.maps.mu.Unlock()
	return len(s.maps.open)
}

// A window whose segments are mapped, the same appends picked and read, and what memory gives: they are the same, in any order.
func TestMappedIsRead(t *testing.T) {
	s, all := onDisk(t, 30_000, 900, 60)
	mustRead(t, s, 1, all)
	byPart := func(a, b stages.Append) int { return int(a.Part) - int(b.Part) }
	window := asWindow(t, s)
	slices.SortStableFunc(window.Appends, byPart)
	picked := window
	picked.K = 0
	want, err := text(s, &picked, window.Appends)
	if err != nil || mapped(s) != 0 {
		t.Fatalf("picked: %v, %d segments mapped", err, mapped(s))
	}
	got, err := text(s, &window, window.Appends)
	if err != nil || got != want {
		t.Fatalf("mapped differs from read: %v, %d bytes, %d", err, len(got), len(want))
	}
	if n, all := mapped(s), int(s.View(1).Tail().Seg); n != all || n < 5 {
		t.Errorf("%d segments mapped of %d", n, all)
	}
	for n := range 70 { // groups of any size
		part := window.Appends[n : 2*n]
		want, err := text(s, &picked, part)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := text(s, &window, part); err != nil || got != want {
			t.Fatalf("%d appends: %v", n, err)
		}
	}
	memory, m := open(t, vfs.NewMem(), 30_000), newMaker(2, 20)
	for range 900 {
		mustAppend(t, memory, 1, m.call(60))
	}
	window = asWindow(t, memory)
	slices.SortStableFunc(window.Appends, byPart)
	if got, err := text(memory, &window, window.Appends); err != nil || got != want || mapped(memory) != 0 || !memory.maps.none {
		t.Errorf("in memory: %v, %d bytes of %d, %d segments mapped", err, len(got), len(want), mapped(memory))
	}
}

// The open segment is mapped as it is, and again when more of it is wanted, by a reader beside one that still has the shorter mapping.
func TestOpenSegmentGrows(t *testing.T) {
	s, all := onDisk(t, 0, 50, 60)
	m := newMaker(3, 5)
	m.now = all[len(all)-1].TS + 1
	first := asWindow(t, s)
	rounds := 0
	err := s.Bodies(t.Context(), &first, first.Appends, func(int, stages.Body) error {
		if rounds++; rounds > 10 {
			return nil
		}
		for range 100 {
			fs := m.call(60)
			all = append(all, fs...)
			mustAppend(t, s, 1, fs)
		}
		window := asWindow(t, s)
		n := 0
		err := s.Bodies(t.Context(), &window, window.Appends, func(i int, b stages.Body) error {
			n++
			return errors.Join(differs(b.Header(), all[i]), sameBody(b, all[i]))
		})
		if err != nil || n != len(all) || mapped(s) != 1 {
			return fmt.Errorf("%d appends of %d, %d mapped: %w", n, len(all), mapped(s), err)
		}
		return nil
	})
	if err != nil || rounds != len(first.Appends) {
		t.Errorf("%d appends of %d: %v", rounds, len(first.Appends), err)
	}
}

// One flipped bit in a mapped file is found and named, never served.
func TestMappedDamage(t *testing.T) {
	s, _ := onDisk(t, 30_000, 100, 60)
	window := asWindow(t, s)
	if _, err := text(s, &window, window.Appends); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(s.queueDir(1), segmentName(1))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for off := int64(segmentHeaderLen); off < 30_000; off += 97 {
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, off); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 4
		if _, err := f.WriteAt(b, off); err != nil {
			t.Fatal(err)
		}
		if _, err := text(s, &window, window.Appends); !errors.Is(err, stages.ErrDamaged) || !strings.Contains(err.Error(), name) {
			t.Fatalf("byte %d: %v", off, err)
		}
		b[0] ^= 4
		if _, err := f.WriteAt(b, off); err != nil {
			t.Fatal(err)
		}
	}
}

// large is a store with one sealed segment of three frames of 400 KB, and its window.
func large(t *testing.T) (s *Store, window stages.Listing, file string) {
	t.Helper()
	s, _ = onDisk(t, 1_000_000, 0, 0)
	for i := range int64(3) {
		body := AppendMessage(nil, Message{Payload: bytes.Repeat([]byte{'x'}, 400_000)})
		mustAppend(t, s, 1, []Frame{{Partition: 1, TS: stages.Micros(i), Base: i, Count: 1, Weight: 1, Body: body}})
	}
	return s, asWindow(t, s), filepath.Join(s.queueDir(1), segmentName(1))
}

// A page that can't be read is an error that names the file and the place, not the end of the process: before the frame is verified, and
// while the receiver copies from it.
func TestMappedFault(t *testing.T) {
	for name, at := range map[string]int64{"all": 0, "the second frame": 600_000, "the last page": 1_196_000} {
		t.Run(name, func(t *testing.T) {
			s, window, file := large(t)
			n := 0
			err := s.Bodies(t.Context(), &window, window.Appends, func(i int, b stages.Body) error {
				if n++; n > 1 {
					return nil
				}
				return os.Truncate(file, at)
			})
			if !errors.Is(err, stages.ErrDamaged) || !strings.Contains(err.Error(), file+" at byte ") {
				t.Errorf("%v", err)
			}
			// Now it is known to be short: it is not mapped again by another store.
			s.maps.close()
			s.maps.shut, s.maps.open = false, make(map[mapKey]*mapping)
			if _, err := text(s, &window, window.Appends); !errors.Is(err, stages.ErrDamaged) || !strings.Contains(err.Error(), "early") || mapped(s) != 0 {
				t.Errorf("read: %v", err)
			}
		})
	}
	s, window, file := large(t)
	err := s.Bodies(t.Context(), &window, window.Appends, func(i int, b stages.Body) error {
		for r, err := range b.Records() {
			if err != nil {
				return err
			}
			if err := os.Truncate(file, 4096); err != nil {
				return err
			}
			t.Error("copied ", len(bytes.Clone(r.Payload)))
		}
		return nil
	})
	if !errors.Is(err, stages.ErrDamaged) || !strings.Contains(err.Error(), file+" at byte ") {
		t.Errorf("in the receiver: %v", err)
	}
}

// A panic of the receiver stays one, with the place where it began, and so does a fault that is none of ours.
func TestMappedPanics(t *testing.T) {
	s, window, _ := large(t)
	var none *stages.Header
	for name, into := range map[string]func(int, stages.Body) error{
		"of its own": func(int, stages.Body) error { panic("in the receiver") },
		"nil":        func(int, stages.Body) error { none.Count = 1; return nil },
	} {
		err := stages.Guard(func() error { return s.Bodies(t.Context(), &window, window.Appends, into) })
		var p *stages.PanicError
		if !errors.As(err, &p) || !strings.Contains(string(p.Stack), "TestMappedPanics.func") {
			t.Errorf("%s: %v", name, err)
		}
		for _, m := range s.maps.open {
			if m.refs != 0 {
				t.Errorf("%s: %d uses of a mapping are left", name, m.refs)
			}
		}
	}
}

// Close does not take a mapping from a reader: the reader comes to its end, and then the mapping goes.
func TestCloseBesideMappedReader(t *testing.T) {
	s, window, _ := large(t)
	var x *mapping
	n := 0
	err := s.Bodies(t.Context(), &window, window.Appends, func(_ int, b stages.Body) error {
		if n == 0 {
			for _, x = range s.maps.open {
			}
			if err := s.Close(); err != nil {
				return err
			}
		}
		for r, err := range b.Records() {
			if err != nil || len(bytes.Clone(r.Payload)) != 400_000 {
				return errors.Join(err, errors.New("a short payload"))
			}
		}
		n++
		return nil
	})
	if err != nil || n != 3 {
		t.Errorf("%d appends, %v", n, err)
	}
	if x == nil || x.data != nil || x.refs != 0 {
		t.Errorf("still mapped: %+v", x)
	}
	if _, err := text(s, &window, window.Appends); err == nil {
		t.Error("read from a closed store")
	}
}

// However many segments are read, only so many stay mapped; and a call that wants very many reads them.
func TestMapsAreBounded(t *testing.T) {
	s, all := onDisk(t, 200, 600, 30)
	window := asWindow(t, s)
	segments := len(s.View(1).sealed)
	if segments < maxMaps+50 {
		t.Fatalf("only %d segments", segments)
	}
	want, err := text(s, &window, window.Appends)
	if err != nil || mapped(s) != 0 || len(all) != len(window.Appends) {
		t.Errorf("all in one call: %v, %d mapped", err, mapped(s))
	}
	var got strings.Builder
	for i := range window.Appends {
		one, err := text(s, &window, window.Appends[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString(one)
	}
	if n := mapped(s); n != maxMaps || len(got.String()) == 0 || len(got.String()) > len(want) {
		t.Errorf("%d mapped", n)
	}
}

// Readers map, use and push out the same segments beside each other and beside the writer.
func TestMappedReadersBesideTheWriter(t *testing.T) {
	s, all := onDisk(t, 2_000, 100, 60)
	read := func() error {
		list, err := s.View(1).List(context.Background(), stages.Beginning, maxMicros)
		if err != nil {
			return err
		}
		list.K = 1
		_, err = text(s, &list, list.Appends)
		return err
	}
	push := func() error {
		s.maps.mu.Lock()
		defer s.maps.mu.Unlock()
		for _, x := range s.maps.open {
			s.maps.drop(x)
			break
		}
		return nil
	}
	stop := repeat(t, read, read, read, push)
	m := newMaker(3, 5)
	m.now = all[len(all)-1].TS + 1
	for range 300 {
		mustAppend(t, s, 1, m.call(50))
	}
	stop()
}
