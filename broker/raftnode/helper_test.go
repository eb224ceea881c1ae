package raftnode

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"queen/broker/command"
	"queen/stages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tape is a Machine that remembers what it applied; its clock is that of docs/formats.md section 2.
type tape struct {
	mu      sync.Mutex
	applied uint64
	now     stages.Micros
	bodies  []string
	stamps  []stages.Micros
	kinds   map[command.Kind]int
	fail    func(index uint64) error
}

func (m *tape) Apply(index uint64, entry []byte) ([]any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if index <= m.applied {
		return nil, nil
	}
	if m.fail != nil {
		if err := m.fail(index); err != nil {
			return nil, err
		}
	}
	commands, err := command.Decode(entry)
	if err != nil {
		return nil, err
	}
	var results []any
	for _, c := range commands {
		m.now = max(c.Time, m.now+1)
		if m.kinds == nil {
			m.kinds = map[command.Kind]int{}
		}
		m.kinds[c.Kind]++
		if c.Kind == command.KindPush {
			m.bodies = append(m.bodies, string(c.Body))
			m.stamps = append(m.stamps, m.now)
		}
		results = append(results, m.now)
	}
	m.applied = index
	return results, nil
}

func (m *tape) Applied() uint64 { m.mu.Lock(); defer m.mu.Unlock(); return m.applied }

func (m *tape) Now() stages.Micros { m.mu.Lock(); defer m.mu.Unlock(); return m.now }

func (m *tape) seen() []string { m.mu.Lock(); defer m.mu.Unlock(); return slices.Clone(m.bodies) }

// memStore is raft's in-memory store; it counts writes, and holds or fails them on demand.
type memStore struct {
	*raft.InmemStore
	writes atomic.Int64
	gate   atomic.Pointer[chan struct{}] // nil: open; else a write of commands waits for the close
	fail   atomic.Pointer[error]
	most   atomic.Int64 // bytes of entries in one write
}

func newMemStore() *memStore { return &memStore{InmemStore: raft.NewInmemStore()} }

func (s *memStore) StoreLogs(l []*raft.Log) error {
	if p := s.fail.Load(); p != nil {
		return *p
	}
	if gate := s.gate.Load(); gate != nil && l[0].Type == raft.LogCommand {
		<-*gate
	}
	s.writes.Add(1)
	size := int64(0)
	for _, e := range l {
		size += int64(len(e.Data))
	}
	s.most.Store(max(s.most.Load(), size)) // one goroutine writes
	return s.InmemStore.StoreLogs(l)
}

// hold makes writes wait until release is called.
func (s *memStore) hold() (release func()) {
	gate := make(chan struct{})
	s.gate.Store(&gate)
	return func() { close(gate) }
}

func (s *memStore) Close() error { return nil }

type rig struct {
	*Node
	fatal chan error
}

func open(t *testing.T, m Machine, change func(*Options)) *rig {
	t.Helper()
	r, err := tryOpen(m, change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func tryOpen(m Machine, change func(*Options)) (*rig, error) {
	fatal := make(chan error, 1)
	o := Options{Dir: "unused", NodeID: "1", Now: time.Now, Log: zerolog.Nop(), Fatal: func(err error) { fatal <- err }}
	change(&o)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	n, err := Open(ctx, o, m)
	return &rig{Node: n, fatal: fatal}, err
}

func on(s *memStore) func(*Options) {
	return func(o *Options) { o.OpenStore = func(string) (Store, error) { return s, nil } }
}

// waitFor polls a condition that no channel tells of; the deadline of the test bounds it.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatal("did not happen within 20 s")
		}
	}
}

// queued is how many commands wait in the queue.
func (p *rig) queued() int {
	p.prop.mu.Lock()
	defer p.prop.mu.Unlock()
	return len(p.prop.queue)
}
