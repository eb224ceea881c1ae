package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"queen/encode/rows"
	"queen/encode/rowstest"
	"queen/internal/rounds"
	"queen/stages"
)

// A group of more transaction ids than are held is written from a third reading, which begins within an append and goes on through the groups
// behind it.
func TestLongTransactionIDs(t *testing.T) {
	w := &window{}
	base := int64(0)
	for i, n := range []int{70_000, 50_000, 3} {
		records := same(n, "", "1")
		for j := range records {
			records[j].TxID = fmt.Appendf(nil, "%d-%d", i, j)
			if i == 1 && j > 40_000 {
				records[j].TxID = append(records[j].TxID, strings.Repeat("t", 800+j%100)...)
			}
		}
		w.add("p", stages.Micros(i+1), base, records...)
		base += int64(n)
	}
	reads := map[int]int{}
	for _, long := range []bool{true, false} {
		if !long {
			w.bodies[1].All = w.bodies[1].All[:40_000]
			w.bodies[1].H.Count = 40_000
			w.bodies = w.bodies[:2]
		}
		r := w.rows(1)
		var bodies atomic.Int32
		read := r.Read
		r.Read = func(ctx context.Context, as []stages.Append, into func(int, stages.Body) error) error {
			bodies.Add(int32(len(as)))
			return read(ctx, as, into)
		}
		object := write(t, snappy(), r)
		reads[len(w.bodies)] = int(bodies.Load())
		roundTrip(t, snappy(), w, object)
	}
	if reads[3] != 8 || reads[2] != 4 {
		t.Errorf("%d reads of 3 bodies, the last two of them thrice, and %d of 2", reads[3], reads[2])
	}
}

// Whatever producers send comes back to the byte, for any number of readers.
func TestRandomWindows(t *testing.T) {
	for seed := range uint64(rounds.Of(24, 4)) {
		r := rand.New(rand.NewPCG(seed, 7))
		w := random(r)
		f := List()[seed%2]
		object := write(t, f, w.rows(1+r.IntN(5)))
		roundTrip(t, f, w, object)
		if again := write(t, f, w.rows(1+r.IntN(5))); !bytes.Equal(object, again) {
			t.Errorf("seed %d: other bytes", seed)
		}
	}
}

var (
	oddNames    = []string{"", "\x00", "\x01\n\"\\", " ", "%2F", "-", "0", "A", "a", "a\u0301", "cust-1", "tenant=x", "zz", "é", "ключ", "注文", "🛒"}
	oddPayloads = []string{"", "null", `""`, "{\r\n \"a\":\r1\n}", `{"a":1,"a":2}`, "42.00", "-0", "1E+400", `"\u0000"`, `"\ud800"`, "\"\u2028\x7f\"", `[[[[]]]]`, "9007199254740993123"}
)

// random is a window of odd names, ids and payloads, of appends of one record and of many.
func random(r *rand.Rand) *window {
	w := &window{}
	for _, name := range oddNames {
		if r.IntN(3) == 0 || name == "" && r.IntN(2) == 0 {
			continue
		}
		ts, base := stages.Micros(r.Int64N(1<<50)-1<<49), r.Int64N(1<<40)
		for range r.IntN(30) {
			records := make([]stages.Record, 1+r.IntN(1+r.IntN(300)))
			for j := range records {
				rec := stages.Record{TxID: []byte(oddNames[r.IntN(len(oddNames))]), Payload: []byte(oddPayloads[r.IntN(len(oddPayloads))])}
				switch r.IntN(200) {
				case 0:
					rec.Payload = []byte(text(2 + r.IntN(1<<r.IntN(22))))
				case 1:
					rec.TxID = bytes.Repeat([]byte("x"), r.IntN(65_536))
				}
				records[j] = rec
			}
			w.add(name, ts, base, records...)
			ts, base = ts+1+stages.Micros(r.IntN(1000)), base+int64(len(records))
		}
	}
	return w
}

// failing fails at a byte.
type failing struct {
	left  int
	err   error // nil: it takes less than it was given, and says nothing
	panic bool
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left >= 0 {
		return len(p), nil
	}
	if f.panic {
		panic("in the writer")
	}
	return len(p) + f.left, f.err
}

// P42: whatever the writer says, at whatever byte, is what Encode returns: nothing is dropped on the way through the library.
func TestWriterErrors(t *testing.T) {
	w := &window{}
	for i := range 21 {
		w.add("p", stages.Micros(i+1), int64(5_000*i), same(5_000, "tx", "1")...)
	}
	boom := errors.New("boom")
	size := len(write(t, zstd(), w.rows(2)))
	places := []int{0, 1, 3, 4, 5, 1000, size / 2, size - 9, size - 8, size - 4, size - 1}
	for step := size / 11; step < size; step += size / 11 {
		places = append(places, step)
	}
	for _, at := range places {
		if _, err := zstd().Encode(t.Context(), &failing{left: at, err: boom}, w.rows(2)); !errors.Is(err, boom) {
			t.Errorf("byte %d of %d: %v", at, size, err)
		}
		if _, err := zstd().Encode(t.Context(), &failing{left: at}, w.rows(2)); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("short at byte %d of %d: %v", at, size, err)
		}
		var p *stages.PanicError
		if _, err := zstd().Encode(t.Context(), &failing{left: at, panic: true}, w.rows(2)); !errors.As(err, &p) && (err == nil || !strings.Contains(err.Error(), "in the writer")) {
			t.Errorf("a panic at byte %d of %d: %v", at, size, err)
		}
	}
	if _, err := zstd().Encode(t.Context(), &failing{left: size, err: boom}, w.rows(2)); err != nil {
		t.Errorf("behind the last byte: %v", err)
	}
}

// Records that were not listed, or are not what they were when they were read first, fail the window before its footer.
func TestRecordsAreCounted(t *testing.T) {
	fresh := func() *window {
		w := &window{}
		for i := range 3 {
			w.add("p", stages.Micros(i+1), int64(10*i), same(10, "tx", "1")...)
		}
		return w
	}
	whole := write(t, zstd(), fresh().rows(1))
	for name, change := range map[string]func(w *window, r *rows.Rows){
		"one more is listed":  func(_ *window, r *rows.Rows) { r.List.Records++ },
		"one less is listed":  func(_ *window, r *rows.Rows) { r.List.Records-- },
		"an append is listed": func(_ *window, r *rows.Rows) { r.Appends = r.Appends[:2] },
		"one is gone at the second reading": func(w *window, r *rows.Rows) {
			var n atomic.Int32
			read := r.Read
			r.Read = func(ctx context.Context, as []stages.Append, into func(int, stages.Body) error) error {
				if n.Add(1) == 1 {
					return read(ctx, as, into)
				}
				return read(ctx, as, func(i int, b stages.Body) error {
					h := b.Header()
					h.Count--
					return into(i, rowstest.Append{H: h, All: b.(rowstest.Append).All[:h.Count]})
				})
			}
		},
	} {
		w := fresh()
		r := w.rows(1)
		change(w, &r)
		var out bytes.Buffer
		if _, err := zstd().Encode(t.Context(), &out, r); !errors.Is(err, stages.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if bytes.HasSuffix(out.Bytes(), whole[len(whole)-4:]) && out.Len() > 4 {
			t.Errorf("%s: there is a footer", name)
		}
	}
}

// Rows out of order are refused before the first byte.
func TestOrderIsRefused(t *testing.T) {
	w := &window{}
	w.add("a", 1, 0, same(1, "t", "1")...)
	w.add("b", 1, 0, same(1, "t", "1")...)
	r := w.rows(1)
	r.Appends[0], r.Appends[1] = r.Appends[1], r.Appends[0]
	var out bytes.Buffer
	if _, err := zstd().Encode(t.Context(), &out, r); !errors.Is(err, rows.ErrOrder) || out.Len() != 0 {
		t.Errorf("%v after %d bytes", err, out.Len())
	}
}
