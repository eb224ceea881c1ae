package raftnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"queen/broker/command"
	"queen/stages"
)

func TestOneWriteServesAllThatWait(t *testing.T) {
	const callers = 500
	s, m := newMemStore(), &tape{}
	n := open(t, m, on(s))
	release := s.hold()
	before := s.writes.Load()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			if _, err := n.Propose(t.Context(), command.KindPush, fmt.Appendf(nil, "body %d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	// The first write is held until every caller waits: what came meanwhile must share the next ones.
	waitFor(t, func() bool { return n.Status().Waiting == callers })
	release()
	wg.Wait()
	if writes := s.writes.Load() - before; writes > maxEntries+2 {
		t.Errorf("%d callers took %d writes", callers, writes)
	}
	if got := len(m.seen()); got != callers {
		t.Errorf("%d of %d commands applied", got, callers)
	}
	if w := n.Status().Waiting; w != 0 {
		t.Errorf("%d commands still counted as waiting", w)
	}
}

func TestNoAnswerBeforeTheWriteIsDone(t *testing.T) {
	s, m := newMemStore(), &tape{}
	n := open(t, m, on(s))
	release := s.hold()
	answers := make(chan error, 3)
	for i := range 3 {
		go func() {
			_, err := n.Propose(context.Background(), command.KindPush, fmt.Appendf(nil, "%d", i))
			answers <- err
		}()
	}
	waitFor(t, func() bool { return n.Status().Waiting == 3 })
	select {
	case err := <-answers:
		t.Fatalf("answered (%v) while the write was held", err)
	case <-time.After(200 * time.Millisecond):
	}
	if got := m.seen(); len(got) != 0 {
		t.Fatalf("applied %q while the write was held", got)
	}
	release()
	for range 3 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

func TestEndOfContext(t *testing.T) {
	s, m := newMemStore(), &tape{}
	n := open(t, m, on(s))
	release := s.hold()
	ctx, cancel := context.WithCancel(context.Background())
	answers := make(chan error, 64)
	propose := func(body string) {
		go func() { _, err := n.Propose(ctx, command.KindPush, []byte(body)); answers <- err }()
	}
	propose("in flight")
	waitFor(t, func() bool { return n.queued() == 0 && n.Status().Waiting == 1 })
	for range 40 { // one is in raft's hands, some fill what may be in flight, the rest waits in the queue
		propose("later")
	}
	waitFor(t, func() bool { return n.Status().Waiting == 41 })
	cancel()
	unclear, withdrawn := 0, 0
	for range 41 {
		switch err := <-answers; {
		case errors.Is(err, stages.ErrUnclear):
			unclear++
		case errors.Is(err, context.Canceled):
			withdrawn++
		default:
			t.Errorf("answer %v", err)
		}
	}
	release()
	waitFor(t, func() bool { return n.Status().Waiting == 0 })
	if applied := len(m.seen()); applied != unclear || unclear == 0 {
		t.Errorf("%d unclear and %d withdrawn, but %d applied", unclear, withdrawn, applied)
	}
}

func TestTooLargeIsRefusedBeforeRaft(t *testing.T) {
	n := open(t, &tape{}, on(newMemStore()))
	last := n.raft.LastIndex()
	body := make([]byte, command.MaxEntry-command.HeaderSize)
	if _, err := n.Propose(t.Context(), command.KindPush, body); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte too many: %v", err)
	}
	if n.raft.LastIndex() != last {
		t.Error("raft got an entry")
	}
	if _, err := n.Propose(t.Context(), command.KindPush, body[:len(body)-1]); err != nil {
		t.Errorf("the largest command: %v", err)
	}
}

func TestEntriesStayBelowTheGroupSize(t *testing.T) {
	s, m := newMemStore(), &tape{}
	n := open(t, m, on(s))
	release := s.hold()
	const size = 100 << 10
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			body := make([]byte, size)
			if i == 7 {
				body = make([]byte, 12<<20) // alone in its entry, and more than its share of what is in flight
			}
			if _, err := n.Propose(t.Context(), command.KindPush, body); err != nil {
				t.Error(err)
			}
		})
	}
	waitFor(t, func() bool { return n.Status().Waiting == 40 })
	release()
	wg.Wait()
	for i := uint64(1); i <= n.raft.LastIndex(); i++ {
		var e raft.Log
		if err := s.GetLog(i, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type != raft.LogCommand {
			continue
		}
		cs, err := command.Decode(e.Data)
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Data) > groupBytes && len(cs) != 1 {
			t.Errorf("entry %d has %d bytes and %d commands", i, len(e.Data), len(cs))
		}
	}
}

func TestMachineErrorStopsTheNode(t *testing.T) {
	s, m := newMemStore(), &tape{}
	n := open(t, m, on(s))
	if _, err := n.Propose(t.Context(), command.KindPush, []byte("good")); err != nil {
		t.Fatal(err)
	}
	bad := errors.New("does not decode")
	m.mu.Lock()
	m.fail = func(uint64) error { return bad }
	m.mu.Unlock()
	if _, err := n.Propose(t.Context(), command.KindPush, []byte("bad")); !errors.Is(err, stages.ErrUnclear) || !errors.Is(err, bad) {
		t.Errorf("the failing command: %v", err)
	}
	select {
	case err := <-n.fatal:
		if !errors.Is(err, bad) || !strings.Contains(err.Error(), "apply raft entry ") {
			t.Errorf("fatal: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("no fatal error")
	}
	m.mu.Lock()
	m.fail = nil
	m.mu.Unlock()
	if _, err := n.Propose(t.Context(), command.KindPush, []byte("after")); !errors.Is(err, ErrNoLeader) {
		t.Errorf("after the error: %v", err)
	}
	if got := m.seen(); !slices.Equal(got, []string{"good"}) {
		t.Errorf("applied %q", got)
	}
	if n.Status().Failure == "" || n.Leads() {
		t.Errorf("status %+v", n.Status())
	}
}

func TestBrokenDiskStopsTheNode(t *testing.T) {
	s := newMemStore()
	n := open(t, &tape{}, on(s))
	eio := errors.New("input/output error")
	s.fail.Store(&eio)
	if _, err := n.Propose(t.Context(), command.KindPush, []byte("x")); !errors.Is(err, stages.ErrUnclear) {
		t.Errorf("answer %v", err)
	}
	if err := <-n.fatal; !errors.Is(err, eio) {
		t.Errorf("fatal: %v", err)
	}
}

func TestTickWhenNothingIsProposed(t *testing.T) {
	m := &tape{}
	open(t, m, on(newMemStore()))
	waitFor(t, func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.kinds[command.KindTick] >= 2 })
	if first := m.Now(); first == 0 {
		t.Error("ticks did not move the clock")
	}
}

func TestOpenTime(t *testing.T) {
	for range 3 {
		start := time.Now()
		n := open(t, &tape{}, func(o *Options) { o.Dir = t.TempDir() })
		took := time.Since(start)
		t.Logf("ready after %s", took.Round(time.Millisecond))
		if took > 2*time.Second {
			t.Errorf("opening an empty folder took %s", took)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestValidate(t *testing.T) {
	err := Options{}.Validate()
	for _, want := range []string{"no folder", "no node id", "no clock", "no handler"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
