package retention_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen/broker/retention"
	"queen/stages"
)

const second = stages.Micros(1_000_000)

func TestCutoff(t *testing.T) {
	const now = 10_000 * second
	at := func(s int64) stages.Micros { return stages.Micros(s) * second }
	sink := func(position, wait int64) []retention.Sink {
		return []retention.Sink{{Position: at(position), Wait: at(wait)}}
	}
	for name, tc := range map[string]struct {
		rules retention.Rules
		sinks []retention.Sink
		end   int64 // of the pointer that the queue is held for; 0 = not known
		want  int64
	}{
		"nothing is set":              {retention.Rules{}, nil, 0, 0},
		"by age":                      {retention.Rules{Seconds: 60}, nil, 0, 9940},
		"always":                      {retention.Rules{MaxWait: 70}, nil, 0, 9930},
		"the younger of both":         {retention.Rules{Seconds: 60, MaxWait: 70}, nil, 0, 9940},
		"longer than the clock":       {retention.Rules{Seconds: 20_000}, nil, 0, 0},
		"longer than any clock":       {retention.Rules{Seconds: 1 << 62}, nil, 0, 0},
		"a sink keeps up":             {retention.Rules{Seconds: 60}, sink(9950, 665), 0, 9940},
		"it waits for a sink":         {retention.Rules{Seconds: 60}, sink(9700, 665), 0, 9700},
		"as long as the sink says":    {retention.Rules{Seconds: 60}, sink(5000, 665), 0, 9275},
		"maxWaitTimeSeconds waits":    {retention.Rules{MaxWait: 60}, sink(5000, 665), 0, 9275},
		"held, the sink keeps up":     {retention.Rules{Seconds: 60, Hold: "a", HoldMax: 3600}, nil, 9999, 9939},
		"held for the sink":           {retention.Rules{Seconds: 60, Hold: "a", HoldMax: 3600}, nil, 8000, 7940},
		"held up to the cap":          {retention.Rules{Seconds: 60, Hold: "a", HoldMax: 3600}, nil, 5000, 6400},
		"held without a pointer":      {retention.Rules{Seconds: 60, Hold: "a", HoldMax: 3600}, nil, 0, 6400},
		"maxWaitTimeSeconds, held":    {retention.Rules{MaxWait: 60, Hold: "a", HoldMax: 3600}, nil, 5000, 9940},
		"the slowest of several":      {retention.Rules{Seconds: 60}, append(sink(9800, 665), sink(9700, 665)...), 0, 9700},
		"a wait that is over for one": {retention.Rules{Seconds: 60}, append(sink(0, 100), sink(9900, 665)...), 0, 9840},
	} {
		if got := tc.rules.Cutoff(now, tc.sinks, at(tc.end), tc.end != 0); got != at(tc.want) {
			t.Errorf("%s: %d s, want %d s", name, got/second, tc.want)
		}
	}
	earliest := []retention.Sink{{Position: stages.Beginning, Wait: 665 * second}}
	if got := (retention.Rules{Seconds: 60}).Cutoff(now, earliest, 0, false); got != at(9275) {
		t.Errorf("from the beginning: %d s", got/second)
	}
}

// TestRemoved: what is there and what goes, against a set of stamps.
func TestRemoved(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const top = 60
	for range 2000 {
		var r retention.Removed
		var there [top]bool
		for i := range there {
			there[i] = true
		}
		for range 6 {
			before := stages.Micros(rng.IntN(top))
			var frozen []retention.Span
			for range rng.IntN(3) {
				from := stages.Micros(rng.IntN(top))
				frozen = append(frozen, retention.Span{From: from, To: from + stages.Micros(rng.IntN(20))})
			}
			in := func(spans []retention.Span, ts int) (n int) {
				for _, s := range spans {
					if s.From <= stages.Micros(ts) && stages.Micros(ts) < s.To {
						n++
					}
				}
				return n
			}
			goes := r.Go(before, frozen)
			for ts := range top {
				want := there[ts] && stages.Micros(ts) < before && in(frozen, ts) == 0
				if n := in(goes, ts); n > 1 || n == 1 != want {
					t.Fatalf("%+v, before %d, frozen %v: %v go, %d of them at %d", r, before, frozen, goes, n, ts)
				}
				if want {
					there[ts] = false
				}
			}
			below := r.Below
			if r = r.Remove(before, frozen); r.Below < below {
				t.Fatalf("below went back from %d to %d", below, r.Below)
			}
			from := stages.Micros(rng.IntN(top))
			live := r.Live(from, top)
			for ts := range top {
				if r.Has(stages.Micros(ts)) != there[ts] || in(live, ts) == 1 != (there[ts] && stages.Micros(ts) >= from) {
					t.Fatalf("%+v: at %d there is %v, from %d on live is %v", r, ts, there[ts], from, live)
				}
			}
			last := stages.Micros(-1)
			for _, k := range r.Kept {
				if k.Empty() || k.From <= last || k.To > r.Below {
					t.Fatalf("%+v is out of order", r)
				}
				last = k.To
			}
		}
	}
}

func TestFrozen(t *testing.T) {
	open := retention.Span{From: 3, To: 9}
	if diff := cmp.Diff([]retention.Span{open}, retention.Frozen([]retention.Sink{{}, {Position: 3, Open: open}})); diff != "" {
		t.Error(diff)
	}
}
