package sink

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"queen/commit"
	"queen/sink/placement"
	"queen/stages"
)

// watchPeriod is how often placement looks at what this node has applied.
const watchPeriod = 250 * time.Millisecond

// place is what the sink knows of the other nodes. Its lock is a leaf: under it nobody waits and no other lock is taken.
type place struct {
	presence *commit.Presence // of the goroutine that beats
	nudged   chan struct{}
	quick    bool           // rows are looked at in own applied state
	moved    atomic.Bool    // what is held has changed: size is to be counted anew. Set after the change
	size     placement.Size // as counted last; of the goroutine that watches, as is what follows
	counted  int            // queues held, as counted into the process's load

	mu   sync.Mutex
	book *placement.Book
}

func (s *Sink) newPlace(quick bool) error {
	incarnation := make([]byte, 8)
	if _, err := io.ReadFull(s.o.Rand, incarnation); err != nil {
		return fmt.Errorf("sink: incarnation of the presence row: %w", err)
	}
	s.place.presence = commit.NewPresence(s.store, hex.EncodeToString(incarnation))
	s.place.nudged, s.place.quick = make(chan struct{}, 1), quick
	o := placement.Options{Instance: s.cfg.Instance, TTL: commit.WholeTTL(s.cfg.LeaseTTL), Jitter: s.random}
	if !quick {
		o.Look = o.TTL / 3
	}
	s.place.book = placement.New(o)
	return nil
}

// moment is now, as placement counts.
func (s *Sink) moment() placement.Moment { return s.age() }

// want notes that a queue is to be claimed here when its turn comes.
func (s *Sink) want(queue string) {
	s.place.mu.Lock()
	s.place.book.Want(queue)
	s.place.mu.Unlock()
	s.place.nudge()
}

// unwant forgets a queue that is held here, or is not to be claimed any more.
func (s *Sink) unwant(queue string) {
	s.place.moved.Store(true)
	s.place.mu.Lock()
	defer s.place.mu.Unlock()
	s.place.book.Drop(queue)
}

// outrun notes that another node was quicker.
func (s *Sink) outrun(queue, holder string) {
	now := s.moment()
	s.place.mu.Lock()
	s.place.book.Lost(now, queue, holder)
	s.place.mu.Unlock()
	s.place.nudge()
}

func (p *place) nudge() {
	select {
	case p.nudged <- struct{}{}:
	default:
	}
}

// beat writes this node's presence row every third of its time to live and reads those of the others, until ctx ends. After a failure it tries
// again after 1 s, doubling up to that period, and the nodes are those that were read last.
func (s *Sink) beat(ctx context.Context) {
	period := max(100*time.Millisecond, s.cfg.LeaseTTL/3)
	for n := 0; ; {
		wait := period
		if err := s.beatOnce(ctx); err == nil {
			n = 0
		} else if ctx.Err() == nil {
			s.raise(nil, waiting{"presence", err})
			wait = min(period, time.Second<<min(n, 12))
			n++
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

func (s *Sink) beatOnce(ctx context.Context) error {
	try, cancel := context.WithTimeout(ctx, max(time.Second, s.cfg.LeaseTTL/3))
	defer cancel()
	rows, err := s.place.presence.Beat(try)
	if err != nil {
		return err
	}
	nodes := make([]placement.Row, 0, len(rows))
	for _, r := range rows {
		nodes = append(nodes, placementRow(stages.LiveRow{Row: r, Left: -1}))
	}
	now := s.moment()
	s.place.mu.Lock()
	s.place.book.Nodes(now, nodes)
	s.place.book.Here(now)
	s.place.mu.Unlock()
	s.place.moved.Store(true) // in case somebody forgot
	s.place.nudge()
	return nil
}

func placementRow(r stages.LiveRow) placement.Row {
	return placement.Row{Node: commit.HolderOf(r.Row), Version: r.Version, Left: r.Left}
}

// tryLeave deletes the presence row once all queues are given back; if it cannot, the row runs out by itself.
func (s *Sink) tryLeave(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	if err := s.place.presence.Leave(ctx); err != nil {
		s.raise(nil, waiting{"presence", err})
	}
}

// watch looks at what other nodes hold and does what follows, until ctx ends.
func (s *Sink) watch(ctx context.Context) {
	defer func() { s.load(0) }()
	for {
		now := s.moment()
		if err := s.look(ctx, now); err != nil && ctx.Err() == nil {
			s.raise(nil, waiting{"placement", err})
		}
		timer := time.NewTimer(max(time.Millisecond, s.decide(now)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.place.nudged:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// look reads the rows that are due.
func (s *Sink) look(ctx context.Context, now placement.Moment) error {
	p := &s.place
	if p.quick {
		rows, err := s.o.Applied.Prefix(ctx, commit.PresencePrefix(s.cfg.Name))
		if err != nil {
			return fmt.Errorf("presence rows: %w", err)
		}
		nodes := make([]placement.Row, 0, len(rows))
		for _, r := range rows {
			nodes = append(nodes, placementRow(r))
		}
		p.mu.Lock()
		p.book.Nodes(now, nodes)
		p.mu.Unlock()
	}
	p.mu.Lock()
	due := p.book.Due(now)
	p.mu.Unlock()
	if len(due) == 0 {
		return nil
	}
	keys := make([]string, len(due))
	for i, queue := range due {
		keys[i] = commit.NewKeys(s.cfg.Name, stages.Esc(queue)).Lease()
	}
	rows, err := s.o.Applied.Rows(ctx, keys)
	if err != nil {
		return fmt.Errorf("lease rows: %w", err)
	}
	found := make(map[string]placement.Row, len(rows))
	for _, r := range rows {
		found[r.Key] = placementRow(r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, queue := range due {
		p.book.Saw(now, queue, found[keys[i]])
	}
	return nil
}

// decide does what the book says, and returns how long nothing will follow.
func (s *Sink) decide(now placement.Moment) time.Duration {
	p, size := &s.place, s.size()
	p.mu.Lock()
	calls, give := p.book.Claims(now, size), p.book.Excess(now, size)
	changes := p.book.Changes()
	gave, taker, done := p.book.Settled(now)
	leaving, since := p.book.Giving(now)
	e := excess{held: size.Held, share: p.book.Share(size.Queues), nodes: p.book.NodeCount(), queues: size.Queues}
	p.mu.Unlock()
	for _, c := range changes {
		if q := s.row(c.Queue); q != nil && q.show(c.Holder) {
			p.mu.Lock()
			p.book.Told(c)
			p.mu.Unlock()
		}
	}
	for _, name := range calls {
		if q := s.row(name); q != nil {
			q.call()
		}
	}
	if q := s.row(gave); done && q != nil {
		s.raise(q, settled{taker})
	}
	if q := s.row(leaving); q != nil && since >= s.cfg.ShutdownGrace {
		q.cutOff()
	}
	if give {
		s.giveOne(now, e)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.book.Next(now, size, watchPeriod)
}

// size counts the queues, unless nothing has changed since that was done.
func (s *Sink) size() placement.Size {
	p := &s.place
	if p.moved.Swap(false) {
		s.mu.Lock()
		size := placement.Size{Queues: len(s.queues)}
		for _, q := range s.queues {
			if q.lease.Held() {
				size.Held++
			}
		}
		s.mu.Unlock()
		p.size = size
	}
	p.size.Load = s.load(p.size.Held)
	return p.size
}

// row is the row of a queue, nil when there is none.
func (s *Sink) row(name string) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues[name]
}

// load counts the queues held by this sink into those of all sinks of the process, which it returns.
func (s *Sink) load(held int) int {
	all := s.shared.load.Add(int64(held - s.place.counted))
	s.place.counted = held
	return int(all)
}

// placement is the block of status.
func (s *Sink) placement(queues, held int) map[string]any {
	now := s.moment()
	s.place.mu.Lock()
	defer s.place.mu.Unlock()
	giving, _ := s.place.book.Giving(now)
	return map[string]any{"nodes": s.place.book.NodeCount(), "queues": queues, "share": s.place.book.Share(queues), "held": held,
		"givingBack": text(giving)}
}

// throughLog stands in for applied rows that nobody shows.
type throughLog struct{ kv stages.KV }

var _ stages.Applied = throughLog{}

// readAtOnce is how many rows one batch asks for.
const readAtOnce = 256

// Rows implements stages.Applied.
func (t throughLog) Rows(ctx context.Context, keys []string) (rows []stages.LiveRow, err error) {
	for len(keys) > 0 {
		n := min(len(keys), readAtOnce)
		results, _, err := t.kv.Batch(ctx, []stages.Op{{Kind: stages.OpGetMany, Keys: keys[:n]}})
		if err != nil || len(results) != 1 {
			return nil, cmp.Or(err, errors.New("the answer does not fit the batch"))
		}
		for _, r := range results[0].Rows {
			rows = append(rows, stages.LiveRow{Row: r, Left: -1})
		}
		keys = keys[n:]
	}
	return rows, nil
}

// Prefix implements stages.Applied. Presence rows come with each beat.
func (throughLog) Prefix(context.Context, string) ([]stages.LiveRow, error) { return nil, nil }
