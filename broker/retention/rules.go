package retention

import (
	"math"

	"queen/stages"
)

const (
	second = stages.Micros(1_000_000)

	// holdSlack is how far below the pointer of the sink that it waits for a held queue keeps its records (reference: the floor of the hold).
	holdSlack = 60 * second

	// Forever is a cut-off above every stamp: of a queue that was deleted.
	Forever = stages.Micros(math.MaxInt64)
)

// Rules is what the options of a queue say.
type Rules struct {
	Seconds int64  // records older than that go; 0 = none
	MaxWait int64  // the same, and the hold does not matter; 0 = none
	Hold    string // name of the sink that Seconds waits for; "" = none
	HoldMax int64  // for how long it waits at most
}

// Any says whether anything ever goes.
func (r Rules) Any() bool { return r.Seconds > 0 || r.MaxWait > 0 }

// Sink is where a sink that has adopted the queue stands, read off its rows.
type Sink struct {
	Name     string
	Position stages.Micros // everything below is in the lake, or was not wanted; stages.Beginning: nothing is
	Open     Span          // the window whose intent is open, from Position on; empty: there is none
	Wait     stages.Micros // retention of every kind waits for it so long (contract S10)
}

// Cutoff returns the stamp below which records go. end is the tEnd of the pointer of the sink that the queue is held for, if that is known.
func (r Rules) Cutoff(now stages.Micros, sinks []Sink, end stages.Micros, known bool) stages.Micros {
	cutoff := stages.Micros(0)
	if r.Seconds > 0 {
		cutoff = ago(now, r.Seconds)
		if r.Hold != "" {
			floor := ago(now, r.HoldMax)
			if known {
				floor = max(floor, end-holdSlack)
			}
			cutoff = min(cutoff, floor)
		}
	}
	if r.MaxWait > 0 {
		cutoff = max(cutoff, ago(now, r.MaxWait))
	}
	return await(cutoff, sinks)
}

// await lowers a cut-off to where the sinks stand, by the wait of each at most.
func await(cutoff stages.Micros, sinks []Sink) stages.Micros {
	least := cutoff
	for _, s := range sinks {
		least = min(least, max(s.Position, cutoff-s.Wait))
	}
	return max(least, 0)
}

// Frozen returns what must not go: the open windows of all sinks.
func Frozen(sinks []Sink) []Span {
	var frozen []Span
	for _, s := range sinks {
		if !s.Open.Empty() {
			frozen = append(frozen, s.Open)
		}
	}
	return frozen
}

// ago is the stamp so many seconds before now, 0 when that is before the epoch.
func ago(now stages.Micros, seconds int64) stages.Micros {
	if seconds > int64(now/second) {
		return 0
	}
	return now - stages.Micros(seconds)*second
}
