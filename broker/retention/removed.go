// Package retention says which records of a queue may go, and remembers which went. It is pure: options, positions of sinks and the log clock
// in, spans of stamps out. What that does to rows is in broker/state/retain.go, what it does to files in broker/state/reclaim.go, and who asks
// for it, and when, in broker/retain.go.
//
// A queue's log is in stamp order and retention goes by age, so what went is everything below one stamp. There is one exception: a window whose
// intent is open stays as it is, whatever retention, a delete or anybody says (design invariant 2). When the stamp moves over such a window,
// the window is kept, an island, until its pointer has moved. Whether the window itself was whole when its intent came does not matter: what
// had gone before is in its `lost`, and nothing goes while it is open, so each listing of it is the same.
//
// Read this file, then rules.go.
package retention

import (
	"cmp"
	"slices"

	"queen/stages"
)

// Span is the stamps with From <= ts < To.
type Span struct{ From, To stages.Micros }

// Empty says that no stamp is in it.
func (s Span) Empty() bool { return s.From >= s.To }

func (s Span) and(o Span) Span { return Span{max(s.From, o.From), min(s.To, o.To)} }

// Removed says what went of a queue: all stamps below Below that are in no span of Kept.
//
// Invariant: the spans of Kept are not empty, in order, apart from each other, and end at or below Below, which only rises.
type Removed struct {
	Below stages.Micros // 0: nothing ever went
	Kept  []Span
}

// Live returns the stamps that did not go, from <= ts < before, in order.
func (r Removed) Live(from, before stages.Micros) []Span {
	var live []Span
	wanted := Span{from, before}
	for _, k := range r.Kept {
		if x := k.and(wanted); !x.Empty() {
			live = append(live, x)
		}
	}
	if x := (Span{r.Below, before}).and(wanted); !x.Empty() {
		live = append(live, x)
	}
	return live
}

// Has says whether the records of a stamp are there.
func (r Removed) Has(ts stages.Micros) bool {
	return ts >= r.Below || holds(r.Kept, ts)
}

func holds(spans []Span, ts stages.Micros) bool {
	return slices.ContainsFunc(spans, func(s Span) bool { return s.From <= ts && ts < s.To })
}

// Go returns what goes, in order, when everything below a stamp is to go except what is frozen.
func (r Removed) Go(before stages.Micros, frozen []Span) []Span {
	return without(r.Live(stages.Beginning, before), frozen)
}

// Remove returns what has gone after that.
func (r Removed) Remove(before stages.Micros, frozen []Span) Removed {
	var kept []Span
	for _, k := range r.Kept {
		kept = append(kept, Span{max(k.From, before), k.To}) // what of an island lies beyond
	}
	for _, live := range r.Live(stages.Beginning, before) {
		for _, f := range frozen {
			if x := live.and(f); !x.Empty() {
				kept = append(kept, x)
			}
		}
	}
	out := Removed{Below: max(r.Below, before), Kept: union(kept)}
	return out
}

// without returns what of some spans, in order, is in none of others.
func without(spans, others []Span) []Span {
	for _, o := range union(others) {
		var rest []Span
		for _, s := range spans {
			for _, x := range []Span{{s.From, min(s.To, o.From)}, {max(s.From, o.To), s.To}} {
				if !x.Empty() {
					rest = append(rest, x)
				}
			}
		}
		spans = rest
	}
	return spans
}

// union sorts spans and joins those that touch.
func union(spans []Span) []Span {
	spans = slices.DeleteFunc(slices.Clone(spans), Span.Empty)
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	var out []Span
	for _, s := range spans {
		if n := len(out); n > 0 && s.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, s.To)
			continue
		}
		out = append(out, s)
	}
	return out
}
