package api

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"queen/broker/command"
	"queen/broker/raftnode"
	"queen/broker/seal"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/stages"
)

// direct is a broker without raft: what is proposed is applied at once, to a real state machine in memory. Its clock moves one
// second a command, from 2026-10-02T10:00:00Z.
type direct struct {
	mu       sync.Mutex
	st       *state.State
	segments *segment.Store
	index    uint64
	clock    stages.Micros
	refusal  error // answers the next proposals when set
	stale    int   // so many pushes are answered as stale
	hushed   bool  // and nothing is applied with it
	damage   error // ends a read of bodies after its first frame
	key      *seal.Key
	proposed int
	report   raftnode.Status
}

var _ Broker = (*direct)(nil)

func (d *direct) Propose(_ context.Context, kind command.Kind, body []byte) (any, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.proposed++
	if d.refusal != nil {
		return nil, d.refusal
	}
	if d.stale > 0 && kind == command.KindPush {
		d.stale--
		if d.hushed { // as a state would be that answers before it shows anything
			return &state.PushResult{Stale: true}, nil
		}
		if _, err := d.apply(command.KindTick, nil); err != nil { // the entry of a stale push is applied too
			return nil, err
		}
		return &state.PushResult{Stale: true}, nil
	}
	return d.apply(kind, body)
}

func (d *direct) apply(kind command.Kind, body []byte) (any, error) {
	d.index++
	d.clock += 1_000_000
	entry := command.AppendCommand(command.AppendEntry(nil), command.Command{Kind: kind, Time: d.clock, Body: body})
	if len(entry) > command.MaxEntry {
		return nil, raftnode.ErrTooLarge
	}
	results, err := d.st.Apply(d.index, entry)
	if err != nil {
		return nil, err
	}
	return results[0], nil
}

func (d *direct) State() *state.State     { return d.st }
func (d *direct) Status() raftnode.Status { return d.report }
func (d *direct) Log(string) stages.Log   { return bodies{d} }

// bodies is a Log of which only Bodies is used here.
type bodies struct{ d *direct }

func (bodies) Safe() stages.Micros { panic("not used") }
func (bodies) Moved(context.Context, stages.Micros) ([]stages.QueueID, stages.Micros, error) {
	panic("not used")
}
func (bodies) Headers(context.Context, stages.QueueID, stages.Micros, stages.Micros) iter.Seq2[stages.Header, error] {
	panic("not used")
}
func (bodies) Listing(context.Context, stages.QueueID, string, uint64) (stages.Listing, error) {
	panic("not used")
}
func (bodies) Positions(context.Context, stages.QueueID, stages.Micros) ([]stages.Position, error) {
	panic("not used")
}
func (b bodies) Bodies(ctx context.Context, list *stages.Listing, appends []stages.Append, into func(int, stages.Body) error) error {
	return b.d.segments.Bodies(ctx, list, appends, seal.Opening(b.d.key, func(i int, body stages.Body) error {
		if i > 0 && b.d.damage != nil {
			return b.d.damage
		}
		return into(i, body)
	}))
}

// counting is a source of "random" bytes that is the same in each run.
type counting struct{ n uint64 }

func (c *counting) Read(p []byte) (int, error) {
	for i := 0; i < len(p); i += 8 {
		var b [8]byte
		c.n++
		binary.BigEndian.PutUint64(b[:], c.n)
		copy(p[i:], b[:])
	}
	return len(p), nil
}

// fixture is a handler in front of a fresh state.
type fixture struct {
	*direct
	h http.Handler
}

func newFixture(t testing.TB, change func(*Options)) *fixture {
	t.Helper()
	fs := vfs.NewMem()
	start := time.Date(2026, 10, 2, 10, 0, 0, 0, time.UTC)
	segments, err := segment.Open(segment.Options{FS: fs, Dir: "segments", Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	st, err := state.Open(state.Options{FS: fs, Dir: "state", Segments: segments, Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
		if err := segments.Close(); err != nil {
			t.Error(err)
		}
	})
	d := &direct{st: st, segments: segments, clock: stages.Micros(start.UnixMicro()) - 1_000_000}
	d.report = raftnode.Status{ID: "1", Role: "leader", Leader: "1", Ready: true, Term: 2, LastLog: 9, Commit: 8, Applied: 7, Waiting: 3}
	if _, err := d.apply(command.KindFound, []byte("0123456789abcdef")); err != nil {
		t.Fatal(err)
	}
	o := Options{
		Broker: d, MaxBody: 32 << 20, Rand: &counting{}, Log: zerolog.Nop(), Version: "2.0.0",
		Now: func() time.Time { return start },
	}
	if change != nil {
		change(&o)
	}
	d.key = o.Key
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{d, h}
}

// do sends one request through the handler.
func (f *fixture) do(method, target string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, bytes.NewReader(body))
	w := httptest.NewRecorder()
	f.h.ServeHTTP(w, r)
	return w
}

// ok sends a request that must be answered with the status.
func (f *fixture) ok(t testing.TB, status int, method, target, body string) string {
	t.Helper()
	w := f.do(method, target, []byte(body))
	if w.Code != status {
		t.Fatalf("%s %s %.200s: %d %s", method, target, body, w.Code, w.Body)
	}
	return w.Body.String()
}

// untouched fails when anything was proposed since the fixture began.
func (f *fixture) untouched(t testing.TB, what string) {
	t.Helper()
	if f.proposed != 0 {
		t.Errorf("%s: %d commands were proposed", what, f.proposed)
	}
}

func pushBody(payload []byte) []byte {
	return fmt.Appendf(nil, `{"items":[{"queue":"q","payload":%s}]}`, payload)
}
