package sink

import (
	"context"
	"time"

	"queen/commit"
	"queen/stages"
)

// refresh rewrites the lease rows of all queues that this node owns, every third of their time to live, until ctx ends. It goes on while
// the sink drains.
func (s *Sink) refresh(ctx context.Context) {
	tick := time.NewTicker(max(100*time.Millisecond, s.cfg.LeaseTTL/3))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.refreshOnce(ctx)
		}
	}
}

func (s *Sink) refreshOnce(ctx context.Context) {
	all := s.all()
	leases := make([]*commit.Lease, 0, len(all))
	for _, q := range all {
		if q.lease.Held() {
			leases = append(leases, q.lease)
		}
	}
	// A batch that hangs must not eat the time of the next one.
	try, cancel := context.WithTimeout(ctx, max(time.Second, s.cfg.LeaseTTL/3))
	defer cancel()
	lost, err := commit.Refresh(try, s.o.KV, leases)
	if err != nil && ctx.Err() == nil {
		s.raise(nil, waiting{"refresh", err})
	}
	gone := map[*commit.Lease]bool{}
	for _, l := range lost {
		gone[l] = true
	}
	for _, q := range all {
		if gone[q.lease] {
			q.lostLease(q.lease.Lost())
		}
	}
}

// lostLease ends what runs for a queue whose lease is gone.
func (q *queue) lostLease(cause error) {
	q.s.place.moved.Store(true)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pass != nil {
		q.pass.cancel(cause)
		return
	}
	q.outdate() // who is live without a pass looks again before it rests; anyone else is started. It finds the lease lost and decides
	q.start()
}

// guardLease cancels a pass at the moment when its lease is older than its time to live by our own clock, so that no request to the store
// leaves after it. The fence protects the rows; this keeps a stalled node from sending at all. The returned function ends it.
func (q *queue) guardLease(ctx context.Context, cancel context.CancelCauseFunc) func() {
	done := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(done)
		q.s.guarded("lease of "+q.name, func() {
			for {
				timer := time.NewTimer(q.lease.Deadline().Sub(q.s.o.Now()))
				select {
				case <-timer.C:
					if err := q.lease.Check(); err != nil {
						cancel(err)
						return
					}
				case <-stop:
					timer.Stop()
					return
				case <-ctx.Done():
					timer.Stop()
					return
				}
			}
		})
	}()
	return func() {
		close(stop)
		<-done
	}
}

// kvBudget is how long one batch may take. A batch that takes longer has no clear answer, and the rows are read.
const kvBudget = 10 * time.Second

// timed is the store with a time limit for each batch, so that a hanging one does not hold a lease's turn for ever.
type timed struct{ stages.KV }

var _ stages.KV = timed{}

// Batch implements stages.KV.
func (k timed) Batch(ctx context.Context, ops []stages.Op) ([]stages.Result, *stages.Lost, error) {
	ctx, cancel := context.WithTimeout(ctx, kvBudget)
	defer cancel()
	return k.KV.Batch(ctx, ops)
}

// tryRelease gives leases back as well as it can; what is left runs out by itself.
func (s *Sink) tryRelease(ctx context.Context, queues []*queue) {
	var leases []*commit.Lease
	for _, q := range queues {
		leases = append(leases, q.lease)
		q.disown()
	}
	left, err := commit.Release(ctx, s.o.KV, leases)
	s.place.moved.Store(true)
	if err != nil {
		s.raise(nil, notReleased{left, err})
	}
}
