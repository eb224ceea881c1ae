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
	log    stages.Log
	id     stages.QueueID
	guard  time.Duration
	cutter *window.Cutter
	feed   *source.Feed
	commit func(stages.Window)
}

// live runs the pipeline as long as a window is due.
func (q *queue) live(ctx context.Context) error {
	for {
		due, err := q.feed.Fill(ctx)
		if err != nil || !due {
			return err
		}
		if err := q.run(ctx); err != nil {
			return err
		}
	}
}

// run is the pipeline: it ends when all windows that are due are committed, or with an error.
func (q *queue) run(ctx context.Context) error {
	headers := source.Headers{Log: q.log, Queue: q.id, From: q.cutter.From(), Guard: q.guard}
	run := stages.NewRun(ctx)
	stages.Source(run, "headers", headers.Generate).
		Via(stages.Via(run, "window", q.cutter, 1)).
		To(stages.Sink(run, "commit", func(_ context.Context, w stages.Window) error {
			q.commit(w)
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
	cutter, err := window.New(window.Rules{Target: 100, MaxAge: 20 * time.Microsecond, Align: window.None}, 0, 1, nil)
	if err != nil {
		panic(err)
	}
	ended := make(chan error)
	q := &queue{log: log, id: 1, guard: 5 * time.Microsecond, cutter: cutter, commit: func(w stages.Window) {
		fmt.Printf("window %d: %d <= ts < %d, %d bytes\n", w.K, w.Start, w.End, w.Weight)
	}}
	q.feed = d.Watch(q.id, cutter, func() {
		fmt.Println("started")
		go func() { ended <- q.live(ctx) }()
	})
	if err := q.live(ctx); err != nil { // a new queue counts as running
		panic(err)
	}
	q.feed.Done()
	look := func(safe stages.Micros) {
		log.tick(safe)
		if err := d.Look(ctx); err != nil { // a sink calls d.Run instead
			panic(err)
		}
	}

	look(10) // nothing there: no pipeline
	log.push(1, 11, 70)
	look(20) // it lies below the ceiling, 15, and is read; its window is not due
	log.push(1, 21, 70)
	look(30) // together they are over the target
	fmt.Println("ended:", <-ended)
	q.feed.Done()
	log.push(1, 31, 70)
	look(40)
	look(50) // not old enough
	look(60) // now it is
	fmt.Println("ended:", <-ended)
	q.feed.Done()
	// Output:
	// started
	// window 1: 0 <= ts < 25, 140 bytes
	// ended: <nil>
	// started
	// window 2: 25 <= ts < 55, 70 bytes
	// ended: <nil>
}
