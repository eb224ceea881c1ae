package sink

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"queen/stages"
)

// A fault in the code of one queue stops that queue for a minute. One in what serves all queues (discovery, leases, placement, the probe) would stop all of them, or end the
// broker's process. Here it ends the sink alone, as an abort does, and another one takes its place: each begins from the rows, so it makes no difference which
// process it runs in.

// Waits before a sink that fell begins anew (reference 10.1).
const (
	firstRestart = time.Second
	lastRestart  = 30 * time.Second
	steadyAfter  = time.Hour // a sink that ran so long has the first wait again
	fallLimit    = 30 * time.Second
)

// fallen is the end of a sink by a fault of its own code.
type fallen struct {
	part string
	err  error // a *stages.PanicError
}

func (f *fallen) Error() string { return f.part + ": " + f.err.Error() }
func (f *fallen) Unwrap() error { return f.err }

// guarded runs a part of the sink that serves all queues. A panic in it ends the sink.
func (s *Sink) guarded(part string, fn func()) {
	err := stages.Guard(func() error { fn(); return nil })
	if err == nil {
		return
	}
	fault := &fallen{part, err}
	s.fall.Do(func() { s.fault = fault; close(s.fell) })
	s.abort(fault) // the first one is the reason
}

// unit is what status says of the lives of a sink.
type unit struct {
	restarts int
	lastExit string
	backoff  time.Duration // how long it stands still now; 0 = it does not
}

// former is what a sink takes over from the one before it in its process: what was counted, and the last errors.
type former struct {
	counters *counters
	unit     unit
	done     map[string]*figures
	faults   map[string]*fault
}

// leaveBehind makes what the next sink takes over. Nothing of this one runs any more.
func (s *Sink) leaveBehind() *former {
	f := &former{counters: s.metrics.counters, done: map[string]*figures{}, faults: map[string]*fault{}}
	s.mu.Lock()
	f.unit = s.unit
	s.mu.Unlock()
	for _, q := range s.all() {
		q.status.mu.Lock()
		if done := q.status.done; done != nil { // somebody may still be shown this one
			again := *done
			again.bytes = slices.Clone(done.bytes)
			f.done[q.name] = &again
		}
		f.faults[q.name] = q.status.fault
		q.status.mu.Unlock()
	}
	return f
}

// Supervisor runs a sink, and another one in its place when a fault of its own code has ended it.
type Supervisor struct {
	o Options

	mu       sync.Mutex
	sink     *Sink
	draining bool
	drained  chan struct{} // closed by Drain
}

// NewSupervisor checks what it is given and opens nothing.
func NewSupervisor(o Options) (*Supervisor, error) {
	if o.Shared == nil && o.Config != nil {
		o.Shared = NewShared(SharedOptions{Memory: o.Config.MemoryBytes, Threads: o.Config.Threads})
	}
	s, err := New(o)
	if err != nil {
		return nil, err
	}
	return &Supervisor{o: o, sink: s, drained: make(chan struct{})}, nil
}

// Run runs sinks until Drain has finished, or until ctx ends; see Sink.Run. An error that is not of ctx says that no sink can go on in this process.
func (v *Supervisor) Run(ctx context.Context) error {
	wait := firstRestart
	for {
		s := v.current()
		err := s.runGuarded(ctx)
		fault, ok := err.(*fallen) // not errors.As: one inside of another error is that of a sink which has not ended
		if !ok {
			return err
		}
		if s.age() >= steadyAfter {
			wait = firstRestart
		}
		next, err := v.another(ctx, s, fault, wait)
		if next == nil {
			return err
		}
		wait = min(2*wait, lastRestart)
	}
}

// runGuarded runs a sink to its end. A part of one that fell may hold a lock which the others wait for: then there is no going on, and the error says so.
func (s *Sink) runGuarded(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-s.fell:
	}
	limit := time.NewTimer(fallLimit)
	defer limit.Stop()
	select {
	case err := <-ended:
		return err
	case <-limit.C:
		return fmt.Errorf("it fell (%w) and has not ended %v later, please report it: nothing is lost, the next start of this node goes on", s.fault, fallLimit)
	}
}

// another waits and returns the sink that takes the place of one that fell; none when a drain or the end of ctx comes first.
func (v *Supervisor) another(ctx context.Context, s *Sink, fault *fallen, wait time.Duration) (*Sink, error) {
	s.mu.Lock()
	s.phase, s.unit.lastExit, s.unit.backoff = phaseBackoff, fault.Error(), wait
	s.mu.Unlock()
	s.raise(nil, fell{fault, wait})
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-v.drained:
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.phase, s.unit.backoff = phaseStopped, 0
	s.mu.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.draining || ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	o := v.o
	o.former = s.leaveBehind()
	o.former.unit.restarts++
	next, err := New(o)
	if err != nil {
		return nil, fmt.Errorf("begin anew after a fault (%w): %w", fault, err)
	}
	v.sink = next
	return next, nil
}

// Drain drains the sink that runs; see Sink.Drain. One that fell is not begun anew.
func (v *Supervisor) Drain(ctx context.Context) error {
	v.mu.Lock()
	if !v.draining {
		v.draining = true
		close(v.drained)
	}
	s := v.sink
	v.mu.Unlock()
	return s.Drain(ctx)
}

func (v *Supervisor) current() *Sink {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sink
}

// Status returns the block `s3` of GET /status.
func (v *Supervisor) Status() any { return v.current().Status() }

// Registry returns the metrics of the sink that runs, in which those before it are counted.
func (v *Supervisor) Registry() prometheus.Gatherer { return gathererOf{v} }

type gathererOf struct{ v *Supervisor }

var _ prometheus.Gatherer = gathererOf{}

// Gather implements prometheus.Gatherer.
func (g gathererOf) Gather() ([]*dto.MetricFamily, error) { return g.v.current().Registry().Gather() }
