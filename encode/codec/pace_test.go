package codec

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"
)

// long is n bytes of text, quickly.
func long(n int) []byte { return bytes.Repeat(text(1<<16), n>>16+1)[:n] }

// spy counts the writes of a compressor, and how many jobs were in flight at most.
type spy struct {
	bytes.Buffer
	sizes []int
	most  int
	fail  int // the write that fails, 0 = none
	pace  *Pace
}

var errSpy = errors.New("the bucket is gone")

func (s *spy) Write(b []byte) (int, error) {
	s.sizes = append(s.sizes, len(b))
	if s.pace != nil {
		s.pace.mu.Lock()
		s.most = max(s.most, s.pace.flying)
		s.pace.mu.Unlock()
	}
	if len(s.sizes) == s.fail {
		return 0, errSpy
	}
	return s.Buffer.Write(b)
}

// always are pushes that never pause.
func always() func() uint64 {
	var n atomic.Uint64
	return func() uint64 { return n.Add(1) }
}

func feed(w Writer, data []byte, size int) error {
	for piece := range slices.Chunk(data, size) {
		if _, err := w.Write(piece); err != nil {
			w.Abort()
			return err
		}
	}
	return w.Close()
}

// TestJobsAreSeen: what Pace assumes of the library: one write that begins the frame, and one for each job of zstdJob.
func TestJobsAreSeen(t *testing.T) {
	var out spy
	w, err := zstdCodec{spare: &spare{}}.Writer(&out)
	if err != nil {
		t.Fatal(err)
	}
	if err := feed(w, long(5*zstdJob+1), 1<<20); err != nil {
		t.Fatal(err)
	}
	if len(out.sizes) != 1+6+1 { // and the checksum
		t.Errorf("%d writes: %d", len(out.sizes), out.sizes)
	}
	for i, n := range out.sizes {
		if small := n < 100; small != (i == 0 || i >= 6) {
			t.Errorf("write %d is of %d bytes", i, n)
		}
	}
}

func two() int { return 2 } // processors

// TestPacedBytes: the same bytes with a pace and without, also in writes of any size, and nothing stays in flight.
func TestPacedBytes(t *testing.T) {
	for _, n := range []int{0, 1, zstdJob - 1, zstdJob, zstdJob + 1, 4*zstdJob + 77} {
		data := long(n)
		want := compress(t, zstdCodec{spare: &spare{}}, data, nil)
		for _, size := range []int{77_777, zstdJob, 3 * zstdJob} {
			p := NewPace(always(), two)
			got := spy{pace: p}
			w, err := zstdCodec{&spare{}, p}.Writer(&got)
			if err != nil {
				t.Fatal(err)
			}
			if err := feed(w, data, size); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%d bytes in writes of %d differ with a pace", n, size)
			}
			if p.flying != 0 {
				t.Errorf("%d bytes: %d jobs in flight at the end", n, p.flying)
			}
		}
	}
}

// TestPaceLeavesAProcessor: with pushes, of two processors one is used.
func TestPaceLeavesAProcessor(t *testing.T) {
	p := NewPace(always(), two)
	got := spy{pace: p}
	w, err := zstdCodec{&spare{}, p}.Writer(&got)
	if err != nil {
		t.Fatal(err)
	}
	if err := feed(w, long(12*zstdJob), 1<<20); err != nil {
		t.Fatal(err)
	}
	if got.most != 1 { // beside the one that is written
		t.Errorf("%d jobs in flight while there are pushes", got.most)
	}
}

// sink is a compressor that never ends a job.
type sink struct{}

func (sink) Write(b []byte) (int, error) { return len(b), nil }
func (sink) Close() error                { return nil }
func (sink) Abort()                      {}

// TestPaceWithoutPushes: a compressor takes all that it can get; so does one that has nothing in flight, whoever else has.
func TestPaceWithoutPushes(t *testing.T) {
	data := long(zstdJob)
	p := NewPace(func() uint64 { return 7 }, two)
	s := &paced{Writer: sink{}, p: p, w: io.Discard, job: zstdJob, seen: 7}
	for range 6 {
		if _, err := s.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if p.flying != 6 {
		t.Errorf("%d jobs in flight", p.flying)
	}
	p.pushes = always()
	other := &paced{Writer: sink{}, p: p, w: io.Discard, job: zstdJob}
	if _, err := other.Write(data); err != nil || other.flying != 1 {
		t.Errorf("%d jobs in flight, %v", other.flying, err)
	}
	s.Abort()
	if p.flying != 1 {
		t.Errorf("%d jobs in flight when a stream was given up", p.flying)
	}
}

// TestPaceOfAFailedStream: an error of what the object is written to ends it, also for who waits, and leaves nothing in flight.
func TestPaceOfAFailedStream(t *testing.T) {
	for fail := range 8 {
		p := NewPace(always(), two)
		w, err := zstdCodec{&spare{}, p}.Writer(&spy{fail: fail + 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := feed(w, long(6*zstdJob+1), 300_000); !errors.Is(err, errSpy) {
			t.Errorf("write %d fails: %v", fail+1, err)
		}
		if p.flying != 0 {
			t.Errorf("write %d fails: %d jobs in flight", fail+1, p.flying)
		}
	}
}
