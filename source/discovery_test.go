package source_test

import (
	"context"
	"errors"
	"slices"
	"strings"
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

// bucket is a window that is due at a weight of 100; every batch that it was filled with is text.
type bucket struct {
	from   stages.Micros
	weight int64
	got    strings.Builder
	err    error
}

var _ source.Filler = (*bucket)(nil)

func (b *bucket) From() stages.Micros { return b.from }
func (b *bucket) Open() bool          { return b.weight > 0 }
func (b *bucket) Fill(in stages.Batch) (bool, error) {
	b.got.WriteString(text(in))
	for _, m := range in.Marks {
		b.weight += m.Weight
	}
	b.from = max(b.from, in.Ceiling)
	return b.weight >= 100, b.err
}

func (b *bucket) take() string {
	defer b.got.Reset()
	return b.got.String()
}

// watch adds a queue that has no pipeline.
func (w *watched) watch(q stages.QueueID, from stages.Micros) (*source.Feed, *bucket) {
	b := &bucket{from: from}
	f := w.Watch(q, b, func() { w.started = append(w.started, q) })
	f.Done()
	return f, b
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
	log.push(1, 10, 100)
	log.push(2, 20, 40)
	w := newWatched(t, log)
	one, _ := w.watch(1, 10)
	two, second := w.watch(2, 15)
	three, third := w.watch(3, stages.Beginning)
	step := func(safe stages.Micros, want ...stages.QueueID) {
		t.Helper()
		if got := w.look(t, safe); !slices.Equal(got, want) {
			t.Errorf("safe %d: started %v, want %v", safe, got, want)
		}
	}
	filled := func(b *bucket, want string) {
		t.Helper()
		if got := b.take(); got != want {
			t.Errorf("filled with %s, want %s", got, want)
		}
	}
	step(20, 1) // 10 lies below the ceiling 15, and is enough
	filled(second, "[<15]")
	filled(third, "[<15]")
	step(30) // what 2 has is not enough; 3 was told up to where there is nothing, once for each ceiling that the look before could not know
	filled(second, "[20:40 <25]")
	filled(third, "[<25]")
	step(40) // time passes for a window that holds something, and nothing is read
	filled(second, "[<35]")
	filled(third, "")
	if through, ok := three.Through(); !ok || through != 35 {
		t.Errorf("idle: through %d %v", through, ok)
	}
	if _, ok := one.Through(); ok {
		t.Error("running, but quiet")
	}
	log.push(2, 41, 60) // not below the ceiling yet, whatever a look says
	step(41)
	step(46)
	if through, ok := two.Through(); !ok || through != 41 {
		t.Errorf("due: through %d %v", through, ok)
	}
	step(47, 2)
	filled(second, "[<36][<41][41:60 <42]")
	step(60) // it runs: nobody else fills it
	filled(second, "")
	if due, err := two.Fill(t.Context()); !due || err != nil {
		t.Error(due, err)
	}
	filled(second, "[<55]")
	second.weight = 0 // its pipeline committed the window
	two.Done()
	one.Done()
	step(61, 1)
	reads := log.reads
	step(80)
	step(90)
	if log.reads != reads {
		t.Errorf("%d reads while idle", log.reads-reads)
	}
	two.Close()
	log.push(2, 91, 100)
	step(100)
	two.Done()
	if through, ok := two.Through(); ok {
		t.Errorf("closed, but through %d", through)
	}
	if safe, ok := w.Safe(); !ok || safe != 100 {
		t.Errorf("safe %d %v", safe, ok)
	}
}

// A row reads a backlog in whole stamps up to some thousand appends and leaves the rest to its pipeline.
func TestDiscoveryLeavesABacklog(t *testing.T) {
	log := newLog()
	for i := range stages.Micros(5000) {
		log.push(1, 10+i/3, 0)
	}
	w := newWatched(t, log)
	f, b := w.watch(1, 0)
	if got := w.look(t, 1_000_000); !slices.Equal(got, []stages.QueueID{1}) {
		t.Errorf("started %v", got)
	}
	n := strings.Count(b.take(), ":")
	if n < 4096 || n%3 != 0 || n == 5000 || b.from != 10+stages.Micros(n)/3 {
		t.Errorf("%d marks, filled up to %d", n, b.from)
	}
	if due, err := f.Fill(t.Context()); due || err != nil {
		t.Error(due, err)
	}
	if rest := strings.Count(b.take(), ":"); n+rest != 5000 {
		t.Errorf("%d and %d marks", n, rest)
	}
}

// A look whose ceiling lies below what a pipeline has read meanwhile says nothing.
func TestDiscoveryBehindAPipeline(t *testing.T) {
	log := newLog()
	w := newWatched(t, log)
	_, b := w.watch(1, 0)
	log.push(1, 10, 1)
	b.from = 1000
	if got := w.look(t, 100); len(got) != 0 || b.take() != "" {
		t.Errorf("started %v", got)
	}
	if got := w.look(t, 2000); len(got) != 0 || b.take() != "[<1995]" {
		t.Errorf("started %v", got)
	}
}

// A pipeline that failed left its records below the ceiling: it is started at the look after Done, and not before.
func TestDiscoveryStartsAgain(t *testing.T) {
	log := newLog()
	log.push(1, 10, 100)
	w := newWatched(t, log)
	f, _ := w.watch(1, 0)
	for i := range stages.Micros(3) {
		if got := w.look(t, 100+2*i); !slices.Equal(got, []stages.QueueID{1}) {
			t.Errorf("started %v", got)
		}
		if got := w.look(t, 101+2*i); len(got) != 0 {
			t.Errorf("started %v while running", got)
		}
		f.Done()
	}
}

// Every look asks only for what no look has asked for.
func TestDiscoveryAsksOnce(t *testing.T) {
	log := newLog()
	log.push(1, 10, 1)
	w := newWatched(t, log)
	w.watch(1, 0)
	for _, safe := range []stages.Micros{100, 110, 120} {
		w.look(t, safe)
	}
	if want := []stages.Micros{11, 101, 111}; !slices.Equal(log.since, want) {
		t.Errorf("asked for %v, want %v", log.since, want)
	}
}

// What fails in the filling starts the pipeline, which meets the same and reports it.
func TestDiscoveryErrors(t *testing.T) {
	log, fault := newLog(), errors.New("fault")
	w := newWatched(t, log)
	f, b := w.watch(1, 0)
	log.tick(50)
	log.fail(fault)
	if err := w.Look(t.Context()); !errors.Is(err, fault) {
		t.Error(err)
	}
	if _, err := f.Fill(t.Context()); !errors.Is(err, fault) {
		t.Error(err)
	}
	log.fail(nil)
	log.push(1, 10, 1)
	b.err = fault
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
	log.push(1, 10, 100)
	w := newWatched(t, log)
	old := w.Watch(1, &bucket{}, func() { t.Error("the old feed was started") })
	w.watch(1, 0)
	old.Done()
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
