// Package load pushes messages to a broker over HTTP with connections that stay open, and measures how long each push takes. It runs in a
// process of its own, so that its work is not in the broker's figures.
//
// Bodies are made once and only ids and partitions are written into them, since what the client costs is taken from the broker's cores.
// Every answer is read and counted: a push that was not stored whole is an error, never a fast push.
package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"queen/bench/numbers"
	"queen/bench/procfs"
)

// Options of a load.
type Options struct {
	Address     string // host:port of the broker
	Pid         int    // of the broker, for its processor time; 0 = not measured
	Connections int
	Batch       int           // messages a push
	Spread      int           // partitions a push, a divisor of Batch: 1 or as many as messages
	Partitions  int           // in all
	Payload     int           // bytes
	Rate        int           // messages a second over all connections; 0 = each connection pushes as soon as it is answered
	Warm        time.Duration // pushed before anything is measured
	Duration    time.Duration // measured; ctx may end it earlier
	Run         uint64        // numbers the transaction ids
	Queue       string        // what is pushed to
}

// Queue is what is pushed to where nothing else is said.
const Queue = "pushed"

// Validate reports every problem.
func (o Options) Validate() error {
	var errs []error
	if o.Queue == "" || o.Connections < 1 || o.Batch < 1 || o.Payload < 1 || o.Duration <= 0 {
		errs = append(errs, errors.New("load: queue, connections, batch, payload and duration must be set"))
	}
	if o.Spread < 1 || o.Batch%max(o.Spread, 1) != 0 || o.Partitions < o.Spread || o.Partitions > 10_000 {
		errs = append(errs, errors.New("load: spread must divide the batch, and there must be as many partitions, at most 10,000"))
	}
	return errors.Join(errs...)
}

// Result is what was measured.
type Result struct {
	Messages int64         `json:"messages"`
	Wall     time.Duration `json:"wall"`
	CPU      time.Duration `json:"cpu"` // of the broker
	P50      time.Duration `json:"p50"` // of a push; with a rate, from when it was due
	P99      time.Duration `json:"p99"`
	Max      time.Duration `json:"max"`
	Pushes   int           `json:"pushes"`
}

// PerCPU is messages a second of the broker's processor time.
func (r Result) PerCPU() float64 { return numbers.Ratio(float64(r.Messages), r.CPU.Seconds()) }

// PerSecond is messages a second.
func (r Result) PerSecond() float64 { return numbers.Ratio(float64(r.Messages), r.Wall.Seconds()) }

// phase tells the connections whether what they do is measured.
type phase struct {
	mu       sync.Mutex
	from, to time.Time // zero = not yet
	took     []time.Duration
}

// note takes a push that was due at one time and answered at another. Only what lies wholly inside the measured time counts.
func (p *phase) note(due, answered time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.from.IsZero() && !due.Before(p.from) && p.to.IsZero() {
		p.took = append(p.took, answered.Sub(due))
	}
}

func (p *phase) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.from = time.Now()
}

func (p *phase) end() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = time.Now()
	return p.to.Sub(p.from)
}

// Run pushes, and measures after the warm-up until the duration is over or ctx ends.
func Run(ctx context.Context, o Options) (Result, error) {
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	pushing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, pushing := errgroup.WithContext(pushing)
	var p phase
	var before time.Duration
	begin := func() (err error) {
		before, err = cpu(o.Pid)
		p.begin()
		return err
	}
	if o.Warm == 0 { // then the first push counts too
		if err := begin(); err != nil {
			return Result{}, err
		}
	}
	began := time.Now()
	for n := range o.Connections {
		group.Go(func() error { return connection(pushing, o, n, began, &p) })
	}
	if o.Warm > 0 {
		wait(ctx, pushing, o.Warm)
		if err := begin(); err != nil {
			return Result{}, err
		}
	}
	wait(ctx, pushing, o.Duration)
	r := Result{Wall: p.end()}
	after, err := cpu(o.Pid)
	stop()
	if err := errors.Join(err, group.Wait()); err != nil {
		return r, err
	}
	slices.Sort(p.took)
	r.CPU, r.Pushes = after-before, len(p.took)
	r.Messages = int64(r.Pushes) * int64(o.Batch)
	if r.Pushes == 0 {
		return r, fmt.Errorf("load: nothing was pushed within %s", r.Wall)
	}
	r.P50, r.P99, r.Max = numbers.Percentile(p.took, 0.5), numbers.Percentile(p.took, 0.99), p.took[len(p.took)-1]
	return r, nil
}

func cpu(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	return procfs.CPU(pid)
}

// wait waits until d is over or one of the contexts ends.
func wait(a, b context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.Done():
	case <-b.Done():
	}
}
