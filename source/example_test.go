package source_test

import (
	"context"
	"fmt"
	"time"

	"queen/source"
	"queen/stages"
	"queen/window"
)

// queue is what a sink keeps of one queue: where it stands, and how its pipeline runs.
type queue struct {
	log      stages.Log
	id       stages.QueueID
	guard    time.Duration
	rules    window.Rules
	position stages.Micros
	k        uint64
	feed     *source.Feed
	drain    chan struct{}
	commit   func(stages.Window)
}

// run is the pipeline: it ends when nothing is left to do, when it is told to drain, or with an error.
func (q *queue) run(ctx context.Context) error {
	cutter, err := window.New(q.rules, q.position, q.k, nil)
	if err != nil {
		return err
	}
	headers := source.Headers{
		Log: q.log, Queue: q.id, From: cutter.From(), Guard: q.guard, Next: q.feed.Next(), Drain: q.drain,
		Idle: func(ceiling stages.Micros) bool { return q.feed.Quiet(ceiling) && cutter.Idle(ceiling) },
	}
	run := stages.NewRun(ctx)
	stages.Source(run, "headers", headers.Generate).
		Via(stages.Via(run, "window", cutter, 1)).
		To(stages.Sink(run, "commit", func(_ context.Context, w stages.Window) error {
			q.commit(w)
			q.position, q.k = w.End, w.K+1
			return nil
		}))
	return run.Wait()
}

func ExampleDiscovery() {
	ctx, log := context.Background(), newLog()
	d, err := source.NewDiscovery(source.Options{Log: log, Guard: 5 * time.Microsecond, Interval: time.Second})
	if err != nil {
		panic(err)
	}
	committed, ended := make(chan struct{}), make(chan error)
	q := &queue{
		log: log, id: 1, guard: 5 * time.Microsecond, rules: window.Rules{Target: 100, MaxAge: 20 * time.Microsecond, Align: window.None},
		position: 0, k: 1, drain: make(chan struct{}),
		commit: func(w stages.Window) {
			fmt.Printf("window %d: %d <= ts < %d, %d bytes\n", w.K, w.Start, w.End, w.Weight)
			committed <- struct{}{}
		},
	}
	q.feed = d.Watch(q.id, q.position, func() {
		fmt.Println("started")
		go func() { ended <- q.run(ctx) }()
	})
	look := func(safe stages.Micros) {
		log.tick(safe)
		if err := d.Look(ctx); err != nil { // a sink calls d.Run instead
			panic(err)
		}
	}

	look(10) // nothing there: no pipeline
	log.push(1, 11, 70)
	log.push(1, 12, 70)
	look(20) // both lie below the ceiling, 15; together they are over the target
	<-committed
	for safe := stages.Micros(30); ; safe += 10 { // nothing more comes: the pipeline ends at one of the next looks
		look(safe)
		select {
		case err := <-ended:
			fmt.Println("ended:", err)
			q.feed.Done(q.position)
			return
		default:
		}
	}
	// Output:
	// started
	// window 1: 0 <= ts < 15, 140 bytes
	// ended: <nil>
}
