package placement_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/commit"
	"queen/commit/committest"
	"queen/sink/placement"
	"queen/stages"
)

// world is one store, and the nodes that share its queues. Nothing in it runs by itself.
type world struct {
	t     *testing.T
	kv    *committest.KV
	now   placement.Moment
	ttl   time.Duration
	names []string // of the queues
	nodes map[string]*member
	out   strings.Builder
	gone  map[string]placement.Moment // queues that nobody holds, since when
}

// member is one node: what sink is made of around a Book, without its pipelines.
type member struct {
	w         *world
	name      string
	lives     int
	jitter    float64
	book      *placement.Book
	leases    map[string]*commit.Lease
	presence  *commit.Presence
	buffered  map[string]int64
	looked    bool
	beats     placement.Moment // when the next one is due
	gaveBack  int
	claims    int
	decisions bool // print what Next says
}

func newWorld(t *testing.T, ttl time.Duration, queues int) *world {
	w := &world{t: t, ttl: ttl, nodes: map[string]*member{}, gone: map[string]placement.Moment{}}
	w.kv = committest.New(func() time.Time { return time.Unix(1_000_000, 0).Add(w.now) })
	for i := range queues {
		w.names = append(w.names, fmt.Sprintf("q%d", i+1))
	}
	return w
}

func (w *world) printf(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

// start begins a life of a node.
func (w *world) start(name string, jitter float64) *member {
	m := w.nodes[name]
	if m == nil {
		m = &member{name: name, buffered: map[string]int64{}}
	}
	life := *m
	life.w, life.jitter, life.lives, life.leases, life.beats, life.looked = w, jitter, m.lives+1, map[string]*commit.Lease{}, w.now, false
	life.book = placement.New(placement.Options{Instance: name, TTL: w.ttl, Jitter: func() float64 { return life.jitter }})
	store := &commit.Store{KV: w.kv, Now: w.kv.Now, Sink: "s", Instance: name, TTL: w.ttl, Backoff: commit.Backoff{Jitter: func() float64 { return 0 }}}
	life.presence = commit.NewPresence(store, fmt.Sprintf("%s%d", name, life.lives))
	for _, q := range w.names {
		life.leases[q] = commit.NewLease(store, commit.NewKeys("s", q), fmt.Sprintf("%s%d", name, life.lives))
		life.book.Want(q)
	}
	w.nodes[name] = &life
	return &life
}

func (m *member) size() placement.Size {
	n := len(m.holds())
	return placement.Size{Queues: len(m.w.names), Held: n, Load: n}
}

func (m *member) holds() (held []string) {
	for _, q := range m.w.names {
		if m.leases[q].Held() {
			held = append(held, q)
		}
	}
	return held
}

// beat writes the presence row.
func (m *member) beat() {
	rows, err := m.presence.Beat(m.w.t.Context())
	if err != nil {
		m.w.printf("%s: %v", m.name, err)
		return
	}
	var nodes []placement.Row
	for _, r := range rows {
		nodes = append(nodes, placement.Row{Node: commit.HolderOf(r), Version: r.Version, Left: -1})
	}
	m.book.Nodes(m.w.now, nodes)
	m.book.Here(m.w.now)
}

// refresh rewrites the leases.
func (m *member) refresh() {
	var leases []*commit.Lease
	for _, q := range m.holds() {
		leases = append(leases, m.leases[q])
	}
	lost, err := commit.Refresh(m.w.t.Context(), m.w.kv, leases)
	if err != nil {
		m.w.printf("%s: %v", m.name, err)
	}
	for _, q := range m.w.names {
		if slices.Contains(lost, m.leases[q]) {
			m.w.printf("%s lost %s", m.name, q)
			m.book.Want(q)
		}
	}
}

func seen(r stages.LiveRow) placement.Row {
	return placement.Row{Node: commit.HolderOf(r.Row), Version: r.Version, Left: r.Left}
}

// look reads what is due in applied state, which in this world is that of everybody.
func (m *member) look() (due []string) {
	presence, err := m.w.kv.Prefix(m.w.t.Context(), commit.PresencePrefix("s"))
	if err != nil {
		m.w.t.Fatal(err)
	}
	var nodes []placement.Row
	for _, r := range presence {
		nodes = append(nodes, seen(r))
	}
	m.book.Nodes(m.w.now, nodes)
	due = m.book.Due(m.w.now)
	for _, q := range due {
		rows, err := m.w.kv.Rows(m.w.t.Context(), []string{commit.NewKeys("s", q).Lease()})
		if err != nil {
			m.w.t.Fatal(err)
		}
		row := placement.Row{}
		if len(rows) == 1 {
			row = seen(rows[0])
		}
		m.book.Saw(m.w.now, q, row)
	}
	return due
}

// step does what the book says.
func (m *member) step() {
	w := m.w
	for _, q := range m.book.Claims(w.now, m.size()) {
		w.printf("%s claims %s", m.name, q)
		c, err := m.leases[q].Acquire(w.t.Context(), true)
		switch {
		case err != nil:
			w.t.Fatal(err)
		case !c.Held:
			w.printf("%s lost the race for %s to %s", m.name, q, c.Holder)
			m.book.Lost(w.now, q, c.Holder)
			continue
		}
		m.claims++
		m.book.Drop(q)
	}
	if queue, holder, ok := m.book.Settled(w.now); ok {
		w.printf("%s settled %s: %q has it", m.name, queue, holder)
	}
	if m.book.Excess(w.now, m.size()) {
		var held []placement.Held
		for _, q := range m.holds() {
			held = append(held, placement.Held{Queue: q, Buffered: m.buffered[q]})
		}
		q := placement.Least(held)
		w.printf("%s gives %s back", m.name, q)
		m.book.Give(w.now, q)
		m.release(q)
		m.book.Given(w.now, q)
		m.gaveBack++
	}
}

func (m *member) release(queues ...string) {
	var leases []*commit.Lease
	for _, q := range queues {
		leases = append(leases, m.leases[q])
	}
	if _, err := commit.Release(context.Background(), m.w.kv, leases); err != nil {
		m.w.t.Fatal(err)
	}
}

// stop is a clean one: all queues are released, then the presence row goes.
func (w *world) stop(name string) {
	m := w.nodes[name]
	m.release(m.holds()...)
	if err := m.presence.Leave(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	m.kill()
}

// kill ends a life without a word.
func (m *member) kill() { m.book = nil }

// run lets all nodes live for a while, each as sink does: beats and refreshes every third of a time to live, looks and decisions every 50 ms.
func (w *world) run(d time.Duration) {
	for end := w.now + d; w.now < end; w.now += 50 * time.Millisecond {
		for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
			m := w.nodes[name]
			if m.book == nil {
				continue
			}
			if w.now >= m.beats {
				m.beats = w.now + w.ttl/3
				m.beat()
				m.refresh()
			}
			m.look()
			m.step()
		}
	}
}

// until runs until cond holds, and fails after a limit. It returns how long that took.
func (w *world) until(limit time.Duration, what string, cond func() bool) time.Duration {
	w.t.Helper()
	begun := w.now
	for !cond() {
		if w.now-begun > limit {
			w.t.Fatalf("not within %v: %s; %s\n%s", limit, what, w.spread(), w.out.String())
		}
		w.run(50 * time.Millisecond)
	}
	return w.now - begun
}

// spread is how many queues each node that lives holds.
func (w *world) spread() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		if m := w.nodes[name]; m.book != nil {
			all = append(all, fmt.Sprintf("%s=%d", name, len(m.holds())))
		}
	}
	return strings.Join(all, " ")
}

// moves is how often a queue was claimed so far.
func (w *world) moves() (n int) {
	for _, m := range w.nodes {
		n += m.claims
	}
	return n
}
