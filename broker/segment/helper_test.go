package segment

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/stages"
)

const maxMicros = stages.Micros(math.MaxInt64)

// maker makes frames as a state machine would: stamps rise or stay, offsets of a partition rise without a gap.
type maker struct {
	rng        *rand.Rand
	partitions int
	now        stages.Micros
	next       map[stages.PartitionID]int64
	serial     uint64
}

func newMaker(seed uint64, partitions int) *maker {
	return &maker{rng: rand.New(rand.NewPCG(seed, 1)), partitions: partitions, now: 1000, next: make(map[stages.PartitionID]int64)}
}

func (m *maker) frame(payload int) Frame {
	p := stages.PartitionID(m.rng.IntN(m.partitions)*257 + 1)
	f := Frame{Partition: p, TS: m.now, Base: m.next[p], Count: int32(1 + m.rng.IntN(4)), Flags: uint32(m.rng.IntN(4))}
	for range f.Count {
		m.serial++
		msg := Message{Payload: bytes.Repeat([]byte{byte('a' + m.serial%26)}, m.rng.IntN(payload+1))}
		binary.BigEndian.PutUint64(msg.ID[8:], m.serial)
		if m.rng.IntN(2) == 0 {
			msg.TxID = fmt.Appendf(nil, "tx-%d", m.serial)
		}
		if m.rng.IntN(4) == 0 {
			msg.Trace = bytes.Repeat([]byte{7}, 16)
		}
		if m.rng.IntN(4) == 0 {
			msg.Producer = []byte("me")
		}
		f.Body = AppendMessage(f.Body, msg)
		f.Weight += int32(stages.RecordWeight(len(msg.TxID), 1, len(msg.Payload)))
	}
	m.next[p] += int64(f.Count)
	return f
}

// call makes the frames of one Append: one to three, of one or two stamps.
func (m *maker) call(payload int) []Frame {
	var fs []Frame
	for range 1 + m.rng.IntN(3) {
		fs = append(fs, m.frame(payload))
		m.now += stages.Micros(m.rng.IntN(2))
	}
	m.now += stages.Micros(m.rng.IntN(3))
	return fs
}

func open(t testing.TB, fsys vfs.FS, seal int64) *Store {
	t.Helper()
	s, err := Open(Options{FS: fsys, Dir: "data/segments", SealBytes: seal, Generation: 9})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// attach is a whole boot of one queue.
func (s *Store) attach(q stages.QueueID, to Tail) error {
	if err := s.Attach(q, to, nil); err != nil {
		return err
	}
	return s.Settle()
}

func mustAppend(t testing.TB, s *Store, q stages.QueueID, fs []Frame) Tail {
	t.Helper()
	refs, tail, err := s.Append(q, fs)
	if err != nil {
		t.Fatal(err)
	}
	if len(refs) != len(fs) {
		t.Fatalf("%d refs for %d frames", len(refs), len(fs))
	}
	return tail
}

func mustSync(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
}

func headersOf(it func(func(stages.Header, error) bool)) ([]stages.Header, error) {
	var hs []stages.Header
	for h, err := range it {
		if err != nil {
			return hs, err
		}
		hs = append(hs, h)
	}
	return hs, nil
}

var errWrong = errors.New("wrong content, silently")

// differs says how a header and the records of its body differ from the frame that was appended.
func differs(h stages.Header, f Frame) error {
	if h.TS != f.TS || h.Partition != f.Partition || h.Base != f.Base || h.Count != f.Count || h.Weight != f.Weight || h.Flags != f.Flags {
		return fmt.Errorf("%w: header %+v for %+v", errWrong, h, f)
	}
	return nil
}

func sameBody(b stages.Body, f Frame) error {
	offset := f.Base
	next := Messages(f.Body)
	var want []Message
	for m, err := range next {
		if err != nil {
			return err
		}
		want = append(want, m)
	}
	i := 0
	for r, err := range b.Records() {
		if err != nil {
			return err
		}
		if i >= len(want) || r.Offset != offset || !bytes.Equal(r.TxID, TxText(want[i], nil)) || !bytes.Equal(r.Payload, want[i].Payload) {
			return fmt.Errorf("%w: record %d of %+v", errWrong, i, b.Header())
		}
		i++
		offset++
	}
	if i != len(want) {
		return fmt.Errorf("%w: %d records of %d", errWrong, i, len(want))
	}
	return nil
}

// readAll reads a queue in every way and compares it with what was appended. The error wraps errWrong when something was
// served that is not so.
func readAll(v View, q stages.QueueID, want []Frame) error {
	hs, err := headersOf(v.Headers(stages.Beginning, maxMicros))
	if err != nil {
		return err
	}
	if len(hs) != len(want) {
		return fmt.Errorf("%w: %d headers of %d", errWrong, len(hs), len(want))
	}
	for i, h := range hs {
		if err := differs(h, want[i]); err != nil {
			return err
		}
	}
	after, err := headersOf(v.After(Tail{}))
	if err != nil {
		return err
	}
	if !slices.Equal(hs, after) {
		return fmt.Errorf("%w: After differs from Headers", errWrong)
	}
	list, err := v.List(context.Background(), stages.Beginning, maxMicros)
	if err != nil {
		return err
	}
	if err := sameListing(list, hs); err != nil {
		return err
	}
	seen := 0
	err = v.s.Bodies(context.Background(), &list, list.Appends, func(i int, b stages.Body) error {
		seen++
		if b.Header() != hs[i] {
			return fmt.Errorf("%w: body %d has header %+v, listed was %+v", errWrong, i, b.Header(), hs[i])
		}
		return sameBody(b, want[i])
	})
	if err != nil {
		return err
	}
	if seen != len(want) {
		return fmt.Errorf("%w: %d bodies of %d", errWrong, seen, len(want))
	}
	return findAll(v, want)
}

// sameListing says how a listing differs from the headers that it is of.
func sameListing(l stages.Listing, hs []stages.Header) error {
	picked := Pick(l.Queue, hs)
	if len(hs) == 0 {
		picked.Gen = l.Gen
	}
	if l.Queue != picked.Queue || l.Gen != picked.Gen || !slices.Equal(l.Appends, picked.Appends) || !slices.Equal(l.Parts, picked.Parts) {
		return fmt.Errorf("%w: listing %+v, its headers make %+v", errWrong, l, picked)
	}
	for i, a := range l.Appends {
		h := hs[i]
		if (stages.Ref{Gen: l.Gen, Seg: a.Seg, Off: a.Off, Len: a.Len}) != h.Ref || l.Parts[a.Part].ID != h.Partition {
			return fmt.Errorf("%w: append %d is %+v, its header %+v", errWrong, i, a, h)
		}
		l.Records -= int64(h.Count)
		l.Weight -= int64(h.Weight)
	}
	if n := len(hs); l.Records != 0 || l.Weight != 0 || n > 0 && (l.MinTS != hs[0].TS || l.MaxTS != hs[n-1].TS) {
		return fmt.Errorf("%w: a listing counted wrong", errWrong)
	}
	return nil
}

func findAll(v View, want []Frame) error {
	for _, f := range want {
		h, ok, err := v.Find(f.Partition, f.Base+int64(f.Count)-1)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: %d/%d not found", errWrong, f.Partition, f.Base)
		}
		if err := differs(h, f); err != nil {
			return err
		}
	}
	return nil
}

func mustRead(t testing.TB, s *Store, q stages.QueueID, want []Frame) {
	t.Helper()
	if err := readAll(s.View(q), q, want); err != nil {
		t.Fatal(err)
	}
}
