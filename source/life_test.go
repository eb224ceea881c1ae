package source_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"queen/source"
	"queen/stages"
	"queen/window"
)

// An hour of a queue that is busy at times, with a pipeline that fails now and then: every record is in one window, there is never
// more than one pipeline, an idle stretch has none, and in the end nothing is left behind.
func TestLife(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { life(t, rand.New(rand.NewPCG(seed, 3))) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func life(t *testing.T, rng *rand.Rand) {
	const guard = 5 * time.Second
	log, start := newLog(), time.Now()
	clock := func() stages.Micros { return stages.Micros(0).Add(time.Since(start)) }
	ctx, cancel := context.WithCancel(t.Context())
	d, err := source.NewDiscovery(source.Options{Log: log, Guard: guard, Interval: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var windows []stages.Window
	running, fault, luck := 0, errors.New("fault"), rand.New(rand.NewPCG(rng.Uint64(), 4))
	q := &queue{log: log, id: 1, guard: guard}
	rules := window.Rules{Target: 200, MaxAge: time.Minute, Align: window.Hour, MaxAppends: 50}
	position, k := stages.Beginning, uint64(1)
	adopt := func() { // as after every failure: what was filled is forgotten
		if q.cutter, err = window.New(rules, position, k, nil); err != nil {
			t.Error(err)
		}
	}
	q.commit = func(w stages.Window) {
		<-time.After(time.Duration(luck.Int64N(int64(20 * time.Second)))) // the upload
		if luck.IntN(8) == 0 {
			panic(fault)
		}
		windows = append(windows, w)
		position, k = w.End, w.K+1
	}
	var pipelines sync.WaitGroup
	var wake func()
	live := func() {
		for q.live(ctx) != nil && ctx.Err() == nil {
			q.feed.Close()
			<-time.After(time.Second)
			adopt()
			q.feed = d.Watch(q.id, q.cutter, wake)
		}
		running--
		q.feed.Done()
	}
	wake = func() {
		if running++; running > 1 {
			t.Error("two pipelines")
		}
		pipelines.Go(live)
	}
	adopt()
	q.feed = d.Watch(q.id, q.cutter, wake)
	wake()
	looks := make(chan struct{})
	go func() { d.Run(ctx); close(looks) }()

	for time.Since(start) < time.Hour {
		for range rng.IntN(300) {
			<-time.After(time.Duration(rng.Int64N(int64(time.Second))))
			log.push(1, clock(), 1+rng.Int32N(50))
		}
		for range 40 { // quiet for ten minutes: the clock goes on
			<-time.After(15 * time.Second)
			log.tick(clock())
		}
		synctest.Wait()
		if through, ok := q.feed.Through(); running != 0 || !ok || clock().Sub(through) > guard+15*time.Second+2*time.Second {
			t.Errorf("after ten idle minutes: %d pipelines, through %d of %d, %v", running, through, clock(), ok)
		}
	}
	cancel()
	<-looks
	pipelines.Wait()
	checkWindows(t, log.appends[1], windows)
}

func checkWindows(t *testing.T, appends []stages.Header, windows []stages.Window) {
	end, k, n := stages.Beginning, uint64(1), 0
	for _, w := range windows {
		if w.Start != end || w.K != k {
			t.Errorf("window %+v comes after %d", w, end)
		}
		end, k = w.End, k+1
	}
	for _, h := range appends {
		if h.TS >= end {
			n++
		}
	}
	if n != 0 {
		t.Errorf("%d of %d appends are in no window", n, len(appends))
	}
}

// Ten thousand queues that are idle or fill cost rows, and no goroutine; a look in which nothing moved reads nothing.
func TestIdleQueues(t *testing.T) {
	log := newLog()
	d, err := source.NewDiscovery(source.Options{Log: log, Interval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for q := range stages.QueueID(10_000) {
		log.push(q, stages.Micros(q), 1)
		position := stages.Micros(q) + 1
		if q%2 == 0 {
			position-- // half of them hold a record in a window that is not due
		}
		cutter, err := window.New(window.Rules{Target: 100, MaxAge: time.Hour, Align: window.None}, position, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		f := d.Watch(q, cutter, func() { t.Error("started") })
		if due, err := f.Fill(t.Context()); due || err != nil {
			t.Fatal(due, err)
		}
		f.Done()
	}
	for i := range stages.Micros(3) {
		log.tick(20_000 + i)
		if err := d.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	log.tick(20_003)
	reads := log.reads
	if err := d.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := runtime.NumGoroutine(); after > before || log.reads != reads || reads > 40_000 {
		t.Errorf("%d goroutines, were %d; %d reads in a quiet look after %d", after, before, log.reads-reads, reads)
	}
}
