package sink

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"queen/commit/committest"
	"queen/config"
	"queen/internal/rounds"
	"queen/stages"
	"queen/upload"
)

// season is one random history of a queue and of the sinks that mirror it.
type season struct {
	*world
	rng    *rand.Rand
	change func(*config.Sink)
	cfg    *config.Sink
	most   int64         // appends that a window may hold
	caught stages.Micros // the ceiling when the first sink began: what lies below is backlog

	mu    sync.Mutex
	wrote map[uint64]stages.Micros // ends of the intents, by window
	late  []string                 // intents that end above safeTime - guard
}

func newSeason(w *world, seed uint64) *season {
	rng := rand.New(rand.NewPCG(seed, 5))
	pick := func(of ...time.Duration) time.Duration { return of[rng.IntN(len(of))] }
	target, memory := int64(1)<<(10+rng.IntN(9)), []int64{64 << 10, 64 << 20}[rng.IntN(2)]
	window, guard := pick(200*time.Millisecond, 2*time.Second, time.Minute, 20*time.Minute), pick(0, 300*time.Millisecond, 5*time.Second)
	align := []string{"hour", "day", "none"}[rng.IntN(3)]
	s := &season{world: w, rng: rng, wrote: map[uint64]stages.Micros{}}
	s.change = func(c *config.Sink) {
		c.TargetBytes, c.MaxWindow, c.SafeGuard, c.Align, c.MemoryBytes, c.DiscoveryInterval = target, window, guard, align, memory, 2*time.Second
	}
	s.cfg = settings("")
	s.change(s.cfg)
	w.mem.kv.Script(func(ops []stages.Op) committest.Fault {
		if op := ops[len(ops)-1]; op.Kind == stages.OpPut && strings.HasSuffix(op.Key, ":orders:intent") {
			s.intent(op.Value)
		}
		return committest.None
	})
	return s
}

// intent checks one as it is written. A burst of pushes puts the log's clock ahead of the test's by a few microseconds a push.
func (s *season) intent(value []byte) {
	in, err := stages.ParseIntent(value)
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit := stages.MicrosOf(time.Now()).Add(burst*4*time.Microsecond - s.cfg.SafeGuard); err != nil || in.End > limit {
		s.late = append(s.late, fmt.Sprintf("intent %d ends at %d, safe time less the guard is %d (%v)", in.K, in.End, limit, err))
	}
	if end, ok := s.wrote[in.K]; ok && end != in.End {
		s.late = append(s.late, fmt.Sprintf("window %d ended at %d, and was begun again with %d", in.K, end, in.End))
	}
	s.wrote[in.K] = in.End
}

// burst is the most that is pushed at once.
const burst = 300

func (s *season) push() {
	for range 1 + s.rng.IntN(burst-1) {
		s.mem.push("orders", fmt.Sprintf("p%d", s.rng.IntN(3)), 1+s.rng.IntN(3))
	}
}

// pause lets time pass, now and then hours of it.
func (s *season) pause() {
	most := []time.Duration{time.Second, 10 * time.Second, time.Minute, 70 * time.Minute}[s.rng.IntN(4)]
	elapse(time.Millisecond + time.Duration(s.rng.Int64N(int64(most))))
}

// live runs sinks one after the other, some of which drain and some of which die, and ends when all is in the bucket.
func (s *season) live() {
	for range s.rng.IntN(12) {
		s.push()
		s.pause()
	}
	s.push()
	elapse(time.Millisecond)
	s.caught = s.mem.Safe().Add(-s.cfg.SafeGuard)
	l := s.start(s.change)
	s.most = l.s.rules(3).MaxAppends
	for range 10 + s.rng.IntN(10) {
		switch s.rng.IntN(6) {
		case 0:
			l.stop()
			s.pause()
			l = s.start(s.change)
		case 1:
			l.gone()
			l = s.start(s.change)
		case 2, 3:
			s.push()
		default:
			s.pause()
		}
	}
	for n := 0; !s.complete(l, "orders") || s.passes(l) > 0 || l.row("orders")["bufferedBytes"] != int64(0); n++ {
		if elapse(10 * time.Second); n > 1000 {
			s.t.Fatalf("the rest is never written: %v", l.row("orders"))
		}
	}
	l.stop()
}

// checkWindows reads all manifests and says what of contract S5 and B7 does not hold.
func (s *season) checkWindows() (n int) {
	t := s.t
	end := stages.Beginning
	for k := uint64(1); ; k++ {
		text, ok := s.s3.Object(upload.ManifestKey("queen", stages.DefaultTenant, "orders", k))
		if !ok {
			break
		}
		m, err := upload.ParseManifest(text)
		if err != nil {
			t.Fatal(err)
		}
		n++
		var weight, appends, records int64
		s.mem.mu.Lock()
		for _, a := range s.mem.between(1, end, m.End) {
			weight, appends, records = weight+int64(a.h.Weight), appends+1, records+int64(a.h.Count)
			if a.h.TS < m.Start || unitOf(s.cfg.Align, a.h.TS) != unitOf(s.cfg.Align, m.Start) {
				t.Errorf("window %d from %d to %d holds a record of %d", k, m.Start, m.End, a.h.TS)
			}
		}
		s.mem.mu.Unlock()
		switch {
		case m.Start < end || m.End <= m.Start:
			t.Errorf("window %d from %d to %d comes after %d", k, m.Start, m.End, end)
		case records == 0 || records != m.Records:
			t.Errorf("window %d has %d records, between its ends are %d", k, m.Records, records)
		case s.wrote[k] != m.End:
			t.Errorf("window %d ends at %d, its intent at %d", k, m.End, s.wrote[k])
		}
		boundary := unitOf(s.cfg.Align, m.End) == m.End && s.cfg.Align != "none"
		full := weight >= s.cfg.TargetBytes || appends+1 > s.most
		if m.End < s.caught && !boundary && !full {
			t.Errorf("window %d of a backlog ends at %d, below %d, with %d appends of weight %d (B7)", k, m.End, s.caught, appends, weight)
		}
		end = m.End
	}
	if len(s.wrote) != n {
		t.Errorf("%d windows, and intents of %d", n, len(s.wrote))
	}
	return n
}

// unitOf is the beginning of the hour or day of a stamp.
func unitOf(align string, ts stages.Micros) stages.Micros {
	switch align {
	case "hour":
		return ts.Floor(time.Hour)
	case "day":
		return ts.Floor(24 * time.Hour)
	}
	return 0
}

// Whatever comes, and however sinks come and go: no window ends above safeTime - guard or holds records of two hours or days, windows tile over
// whole stamps, none is empty, each record is in one, and a backlog is never cut by age (contract S5, B7).
func TestClosingAnyhow(t *testing.T) {
	windows, seasons := 0, rounds.Of(16, 3)
	for seed := range uint64(seasons) {
		inWorld(t, func(w *world) {
			s := newSeason(w, seed)
			s.live()
			w.mem.kv.Script(nil)
			windows += s.checkWindows()
			w.report(s.late)
			w.exactly("orders")
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d windows", windows)
	if windows < 60*seasons {
		t.Error("these are few")
	}
}

// B7: a backlog that is old, and longer than what is read at once, is one window up to the ceiling, not a tiny one for each read.
func TestBacklogIsOneWindow(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 130 {
			for range 100 {
				w.mem.push("orders", "p", 1)
			}
			elapse(time.Minute)
		}
		l := w.start(func(c *config.Sink) { c.TargetBytes, c.MaxWindow = 1<<30, time.Minute })
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") > 0 })
		if k, n := l.k("orders"), l.row("orders")["records"]; k != 1 || n != int64(13_000) {
			t.Errorf("after window %d the lake has %d records, want 13000 in one", k, n)
		}
		l.stop()
	})
}

// A window whose list would take half of the memory is closed, at a whole stamp, and no other queue's: a filling window holds nothing that a close
// would give back.
func TestPressureClosesOneQueue(t *testing.T) {
	inWorld(t, func(w *world) {
		small := func(c *config.Sink) {
			c.Queues, c.MemoryBytes, c.TargetBytes, c.MaxWindow = []string{"large", "orders", "other"}, 64<<10, 1<<30, time.Hour
		}
		for range 900 {
			w.mem.push("orders", "p", 1)
			w.mem.push("other", "p", 1)
		}
		for range 3000 {
			w.mem.push("large", "p", 1)
		}
		l := w.start(small)
		w.until(time.Minute, "two windows", func() bool { return l.k("large") == 2 && w.passes(l) == 0 })
		for _, q := range []string{"orders", "other"} {
			if row := l.row(q); row["k"] != uint64(0) || row["bufferedBytes"] == int64(0) {
				t.Errorf("row %v", row)
			}
		}
		if n := w.logged("memory budget reached: closing this queue's window early"); n != 2 || w.logged(`"queue":"large","k":2,`) != 2 {
			t.Errorf("%d lines: %s", n, w.logs.String())
		}
		l.stop()
	})
}
