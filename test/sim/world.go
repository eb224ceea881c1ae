package sim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"queen/broker/peer"
	"queen/internal/crashdisk"
	"queen/internal/crashwal"
	"queen/internal/fakes3"
	"queen/internal/pipenet"
)

const nodes = 3

// world is three nodes, a network, a bucket, and clients.
type world struct {
	t    *testing.T
	seed uint64
	net  pipenet.Net
	s3   *fakes3.Server
	node [nodes]*machine
	hist *history

	owners owners
	states states

	rngMu sync.Mutex
	rng   *rand.Rand // every choice of a fault

	countMu sync.Mutex
	counts  map[string]int
}

// machine is what of a node outlives its process: disks and a clock.
type machine struct {
	w    *world
	id   int
	disk *crashdisk.FS
	wal  *crashwal.FS
	hook *holder // of wal

	turn chan struct{} // holds one while nobody starts or stops it; no mutex: simulated time must go on for who waits

	mu     sync.Mutex
	offset time.Duration // of its wall clock
	life   *life         // nil: it is off
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), counts: map[string]int{},
		owners: owners{writes: map[string][]leaseWrite{}}, states: states{sum: map[uint64]seen{}}}
	w.s3 = fakes3.New(fakes3.Options{Bucket: "lake", Secret: secret})
	w.hist = newHistory(w)
	for i := range w.node {
		hook := &holder{}
		w.node[i] = &machine{w: w, id: i + 1, disk: crashdisk.New(), wal: crashwal.New(hook.event), hook: hook, turn: make(chan struct{}, 1)}
		w.node[i].turn <- struct{}{}
	}
	return w
}

// holder tells the events of a disk to whoever uses it.
type holder struct{ atomic.Pointer[life] }

func (h *holder) event(crashwal.Event) {
	if l := h.Load(); l != nil {
		l.event()
	}
}

// dice are for one fault.
func (w *world) dice() *rand.Rand { return rand.New(rand.NewPCG(w.seed, uint64(w.pick(1<<30)))) }

// pick returns a number from 0 to n-1.
func (w *world) pick(n int) int {
	w.rngMu.Lock()
	defer w.rngMu.Unlock()
	return w.rng.IntN(n)
}

// between returns a duration from a to b.
func (w *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.pick(int((b-a)/time.Millisecond)+1))*time.Millisecond
}

func (w *world) count(kind string) {
	w.countMu.Lock()
	defer w.countMu.Unlock()
	w.counts[kind]++
}

func (w *world) fail(format string, args ...any) {
	w.t.Errorf("seed %d: "+format, append([]any{w.seed}, args...)...)
}

// alone runs do while nothing else starts or stops the machine.
func (m *machine) alone(do func()) {
	<-m.turn
	defer func() { m.turn <- struct{}{} }()
	do()
}

func (m *machine) now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Add(m.offset)
}

func (m *machine) runs() *life {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.life
}

func memberOf(id int) peer.Member {
	return peer.Member{ID: fmt.Sprint(id), Raft: fmt.Sprintf("node-%d:7400", id), HTTP: fmt.Sprintf("node-%d:6632", id)}
}
