package encode

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"queen/encode/rows"
	"queen/internal/heaptest"
	"queen/stages"
)

// sized is a window of so many appends of so many records, in frames as long as the broker writes them: a record without a transaction id
// takes 19 bytes beside its payload there, and its message id as text in a line.
func sized(appends, records int, payload string) (*log, []stages.Append) {
	l := &log{}
	for i := range appends {
		all := make([]stages.Record, records)
		for j := range all {
			all[j] = stages.Record{TxID: []byte("0192e4a0-0000-7000-8000-000000000000"), Payload: []byte(payload)}
		}
		l.add(1, "customer-000001", stages.Micros(1791009457501942+i), int64(i*records), all...)
	}
	listed := l.listing().Appends
	for i := range listed {
		listed[i].Len = uint32(68 + records*(19+len(payload)))
	}
	return l, listed
}

// windows are those whose runs are hard to keep small, and the length of their longest line.
var windows = map[string]struct {
	appends, records int
	payload          string
	line             int64
}{
	"small records in small appends": {150_000, 1, "{}", 0},
	"small records in large appends": {6, 60_000, "{}", 0},
	"large records":                  {7, 1, `"` + string(bytes.Repeat([]byte("x"), 5<<20)) + `"`, 5<<20 + 1<<10},
	"large and small in one append":  {3, 4, `"` + string(bytes.Repeat([]byte("x"), 2<<20)) + `"`, 2<<20 + 1<<10},
}

// While nothing can be written, what is read ahead takes what rows.Memory says, and one record at most.
func TestReadAheadMemory(t *testing.T) {
	for name, w := range windows {
		t.Run(name, func(t *testing.T) {
			l, listed := sized(w.appends, w.records, w.payload)
			r := l.rows(4)
			r.Appends = listed
			synctest.Test(t, func(t *testing.T) { readAhead(t, r, w.line) })
			runtime.KeepAlive(l)
		})
	}
}

func readAhead(t *testing.T, r Rows, line int64) {
	f, _ := Lookup("jsonl", "none")
	release, done := make(chan struct{}), make(chan error, 1)
	before := heaptest.Live()
	go func() {
		_, err := f.Encode(t.Context(), &gateWriter{release}, r)
		done <- err
	}()
	synctest.Wait()
	if took, limit := heaptest.Live()-before, rows.Memory(r.Readers)+line+128<<10; took > limit || took < 1<<20 {
		t.Errorf("%d bytes are held, at most %d are promised", took, limit)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The buffers are made once: no run leaves any garbage.
func TestReadAheadGarbage(t *testing.T) {
	const readers = 2
	for name, w := range windows {
		l, listed := sized(w.appends, w.records, w.payload)
		r := l.rows(readers)
		r.Appends = listed
		f, _ := Lookup("jsonl", "none")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := f.Encode(t.Context(), io.Discard, r); err != nil {
			t.Fatal(name, err)
		}
		runtime.ReadMemStats(&after)
		perAppend := int64(256 * w.appends) // the bodies of the test and their iterators
		if took, limit := int64(after.TotalAlloc-before.TotalAlloc), rows.Memory(readers)+w.line+perAppend+256<<10; took > limit {
			t.Errorf("%s: %d bytes were allocated, expected at most %d", name, took, limit)
		}
	}
}

// However a window is cut into pieces, its lines are the same, and no piece is larger than a run unless it is one record.
func TestPieces(t *testing.T) {
	f, _ := Lookup("jsonl", "none")
	for name, w := range windows {
		l, listed := sized(w.appends, w.records, w.payload)
		want := sha256.New()
		for _, b := range l.bodies {
			for _, rec := range b.All {
				fmt.Fprintf(want, `{"partition":"customer-000001","offset":%d,"transactionId":"%s","ts":"%s","payload":%s}`+"\n",
					rec.Offset, rec.TxID, b.H.TS.AppendISO(nil), rec.Payload)
			}
		}
		for _, readers := range []int{1, 3} {
			r := l.rows(readers)
			r.Appends = listed
			var runs atomic.Int32
			r.Read = func(ctx context.Context, as []stages.Append, into func(int, stages.Body) error) error {
				runs.Add(1)
				return l.read(ctx, as, into)
			}
			got := &pieces{sum: sha256.New()}
			if _, err := f.Encode(t.Context(), got, r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if !bytes.Equal(got.sum.Sum(nil), want.Sum(nil)) {
				t.Errorf("%s, %d readers: the lines differ", name, readers)
			}
			if most := max(rows.Memory(0), w.line); got.longest > most {
				t.Errorf("%s, %d readers: a piece of %d bytes, expected at most %d", name, readers, got.longest, most)
			}
			if w.records == 1 && got.n != runs.Load() { // else readers would wait for each other
				t.Errorf("%s, %d readers: %d pieces of %d runs", name, readers, got.n, runs.Load())
			}
		}
	}
}

type pieces struct {
	sum     hash.Hash
	longest int64
	n       int32
}

func (p *pieces) Write(b []byte) (int, error) {
	p.longest = max(p.longest, int64(len(b)))
	p.n++
	return p.sum.Write(b)
}
