package source_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"queen/source"
	"queen/stages"
)

const guard = 5 * time.Microsecond

// watched is a Discovery that is stepped by hand; started collects what it starts.
type watched struct {
	*source.Discovery
	log     *memLog
	started []stages.QueueID
}

func newWatched(t *testing.T, log *memLog) *watched {
	d, err := source.NewDiscovery(source.Options{Log: log, Guard: guard, Interval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return &watched{Discovery: d, log: log}
}

func (w *watched) watch(q stages.QueueID, from stages.Micros) *source.Feed {
	return w.Watch(q, from, func() { w.started = append(w.started, q) })
}

// look looks at the given safe time and returns what was started.
func (w *watched) look(t *testing.T, safe stages.Micros) []stages.QueueID {
	w.log.tick(safe)
	w.started = nil
	if err := w.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w.started
}

func TestDiscovery(t *testing.T) {
	log := newLog()
	log.push(1, 10, 1)
	log.push(2, 20, 1)
	w := newWatched(t, log)
	one, two, three := w.watch(1, 10), w.watch(2, 21), w.watch(3, stages.Beginning)
	step := func(safe stages.Micros, want ...stages.QueueID) {
		t.Helper()
		if got := w.look(t, safe); !slices.Equal(got, want) {
			t.Errorf("safe %d: started %v, want %v", safe, got, want)
		}
	}
	step(20, 1) // 10 lies below the ceiling 15; 2 stands above its record; 3 has none
	step(30)
	if through, ok := three.Through(); !ok || through != 25 {
		t.Errorf("idle: through %d %v", through, ok)
	}
	if _, ok := one.Through(); ok {
		t.Error("running, but idle")
	}
	if !one.Quiet(22) || one.Quiet(21) {
		t.Error("seen up to the first look")
	}
	log.push(2, 31, 1) // not below the ceiling yet, whatever a look says
	step(31)
	step(36) // the ceiling is 31: still not below it
	if through, ok := two.Through(); !ok || through != 31 {
		t.Errorf("due: through %d %v", through, ok)
	}
	step(37, 2)
	two.Done(32)
	one.Done(11)
	step(38)
	reads := log.reads
	step(60)
	step(70)
	if log.reads != reads {
		t.Errorf("%d reads while idle", log.reads-reads)
	}
	two.Start()
	two.Start()
	if !slices.Equal(w.started, []stages.QueueID{2}) {
		t.Errorf("started %v by hand", w.started)
	}
	two.Done(32)
	two.Close()
	log.push(2, 71, 1)
	step(90)
	two.Start()
	two.Done(0)
	if through, ok := two.Through(); ok || len(w.started) != 0 {
		t.Errorf("closed, but through %d, started %v", through, w.started)
	}
	if safe, ok := w.Safe(); !ok || safe != 90 {
		t.Errorf("safe %d %v", safe, ok)
	}
}

// A pipeline that failed left its records below the ceiling: it is started at the look after Done, and not before.
func TestDiscoveryStartsAgain(t *testing.T) {
	log := newLog()
	log.push(1, 10, 1)
	w := newWatched(t, log)
	f := w.watch(1, 0)
	for range 3 {
		if got := w.look(t, 100); !slices.Equal(got, []stages.QueueID{1}) {
			t.Errorf("started %v", got)
		}
		if got := w.look(t, 100); len(got) != 0 {
			t.Errorf("started %v while running", got)
		}
		f.Done(0)
	}
}

// Every look tells running pipelines to look too, and asks only for what no look has asked for.
func TestDiscoveryNudges(t *testing.T) {
	log := newLog()
	log.push(1, 10, 1)
	w := newWatched(t, log)
	f := w.watch(1, 0)
	w.look(t, 100)
	for _, safe := range []stages.Micros{110, 120} {
		w.look(t, safe)
	}
	<-f.Next()
	select {
	case <-f.Next():
		t.Error("two looks were kept")
	default:
	}
	if want := []stages.Micros{11, 101, 111}; !slices.Equal(log.since, want) {
		t.Errorf("asked for %v, want %v", log.since, want)
	}
}

func TestDiscoveryErrors(t *testing.T) {
	log, fault := newLog(), errors.New("fault")
	w := newWatched(t, log)
	w.watch(1, 0)
	log.fail(fault)
	if err := w.Look(t.Context()); !errors.Is(err, fault) {
		t.Error(err)
	}
	log.fail(nil)
	log.push(1, 10, 1)
	if got := w.look(t, 100); !slices.Equal(got, []stages.QueueID{1}) {
		t.Errorf("after a failed look: started %v", got)
	}
	for _, o := range []source.Options{
		{Interval: 1}, {Log: log}, {Log: log, Interval: 1, Guard: -1},
	} {
		if _, err := source.NewDiscovery(o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

// A newer feed of a queue takes the place of the old one.
func TestDiscoveryReplaces(t *testing.T) {
	log := newLog()
	log.push(1, 10, 1)
	w := newWatched(t, log)
	old := w.Watch(1, 0, func() { t.Error("the old feed was started") })
	w.watch(1, 0)
	old.Done(0)
	old.Start()
	old.Close()
	if got := w.look(t, 100); !slices.Equal(got, []stages.QueueID{1}) {
		t.Errorf("started %v", got)
	}
}

func TestDiscoveryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, fault := newLog(), errors.New("fault")
		var looked []error
		d, err := source.NewDiscovery(source.Options{
			Log: log, Interval: 2 * time.Second, Looked: func(err error) { looked = append(looked, err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { d.Run(ctx); close(ended) }()
		<-time.After(5 * time.Second)
		log.fail(fault)
		<-time.After(2 * time.Second)
		cancel()
		<-ended
		if len(looked) != 4 || looked[2] != nil || !errors.Is(looked[3], fault) {
			t.Errorf("looked %v", looked)
		}
	})
}
