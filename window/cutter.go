package window

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"queen/stages"
)

// Rules say when a window closes (contract S5).
type Rules struct {
	Target     int64         // weight in bytes, at least 1: close where the records below reach it
	MaxAge     time.Duration // log clock from the stamp of the first record; 0 or less: close at every ceiling
	Align      Align         // boundaries that no window crosses
	MaxAppends int64         // appends a window may hold unless one stamp alone has more (contract B3); 0 = any number
}

// Align is the calendar unit that no window crosses, spelled as in QUEEN_S3_ALIGN and in an intent.
type Align string

// The alignments.
const (
	Hour Align = "hour"
	Day  Align = "day"
	None Align = "none"
)

// unit is the length of the alignment unit, 0 for none.
func (a Align) unit() time.Duration {
	switch a {
	case Hour:
		return time.Hour
	case Day:
		return 24 * time.Hour
	default:
		return 0
	}
}

// floor is the last boundary at or below t; without boundaries, t itself.
func (a Align) floor(t stages.Micros) stages.Micros {
	if u := a.unit(); u > 0 {
		return t.Floor(u)
	}
	return t
}

// Cutter is the window stage of one queue: Batches in, Windows out. It is pure: no clock, no I/O, no goroutine.
//
// A window fills without a pipeline (Fill) and is cut in one (Do). What is kept does not grow with the window: for the open window the sums
// over the appends strictly below the ceiling, and beside them
// one (stamp, weight, count) for each stamp at or above the ceiling. A source that never hands on more than it says in its ceiling leaves
// at most one such stamp, the one it is in the middle of. This works because every closing rule can be decided at the moment a new
// stamp turns up, from the sums below it.
//
// Invariants:
//
//  1. Windows tile: Start of a window is the End of the one before, k counts up by one, and no window is empty.
//  2. An end is never above the ceiling of the batch that closed it (a redo's end was below one when it was first decided).
//  3. A window never splits a stamp: its records are exactly those with Start <= ts < End.
//  4. Ceiling, then marks, only go up; a mark below an earlier ceiling is an error, for its window may be gone.
//  5. Which records share a window depends on the sequence of marks alone, not on how it was cut into batches, as long as only
//     size, boundary and MaxAppends close.
//
// For each stamp s at or below the ceiling, in order, and then for the ceiling itself:
//
//	a boundary b in (start, s]:  something open? close at b : step to the last boundary at or below s, in memory
//	open weight >= Target:       close at s       (below a boundary this comes first, so its reason is Size)
//	open + s over MaxAppends:    close at s
//	s below the ceiling:         s joins the open window
//	ceiling only:                age, pressure, drain: close at the ceiling
//
// Age waits while a stamp lies exactly at the ceiling: that is what a source shows in the middle of a look, and a backlog must
// not be cut by age before it has been read up to the ceiling (contract B7).
type Cutter struct {
	rules Rules

	mu       sync.Mutex // Do and Drain run on one goroutine; status and Force come from others
	k        uint64     // number of the next window
	position stages.Micros
	start    stages.Micros // position, or the last boundary stepped over; Beginning until the first stamp is known
	boundary stages.Micros // the first boundary above start; the last moment there is when there is none
	filter   stages.Micros // marks below it belong to windows of an earlier life
	redo     *stages.Intent
	force    stages.Reason // "" = none
	paused   bool          // Do closes nothing
	ceiling  stages.Micros
	open     sums    // appends below the ceiling
	held     []group // stamps at or above the ceiling, in order
}

// sums is what is kept of the open window.
type sums struct {
	first   stages.Micros // stamp of the first append; meaningless when there is none
	weight  int64
	appends int64
}

// group is one stamp that has not joined the open window yet.
type group struct {
	ts      stages.Micros
	weight  int64
	appends int64
}

var _ stages.Stage[stages.Batch, stages.Window] = (*Cutter)(nil)

// New returns the cutter of a queue whose position is given and whose next window is nextK. position is Beginning for a queue that is
// read from its start. redo, when not nil, is the intent that is open: it becomes the first window, whatever the rules say.
func New(rules Rules, position stages.Micros, nextK uint64, redo *stages.Intent) (*Cutter, error) {
	switch {
	case rules.Target < 1:
		return nil, fmt.Errorf("window: target %d: want at least 1 byte", rules.Target)
	case rules.Align != Hour && rules.Align != Day && rules.Align != None:
		return nil, fmt.Errorf("window: align %q: want hour, day or none", rules.Align)
	case rules.MaxAppends < 0:
		return nil, fmt.Errorf("window: at most %d appends: want 0 or more", rules.MaxAppends)
	case nextK < 1:
		return nil, fmt.Errorf("window: k counts from 1")
	case redo != nil && redo.K != nextK:
		return nil, fmt.Errorf("window: the intent to redo is of window %d, the next window is %d", redo.K, nextK)
	case redo != nil && redo.End <= position:
		return nil, fmt.Errorf("window: the intent to redo ends at %d, the position is %d", redo.End, position)
	}
	c := &Cutter{rules: rules, k: nextK, position: position, ceiling: stages.Beginning, filter: position}
	c.startAt(position)
	if redo != nil {
		c.redo, c.filter = redo, redo.End
	}
	return c, nil
}

// From is the stamp from which the source has to read: the position, or the end of the window that is redone, or the ceiling up to which
// it has been filled.
func (c *Cutter) From() stages.Micros {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.filter, c.ceiling)
}

// Fill takes a batch like Do, but closes nothing: due says that Do, with whatever batch, will emit a window. So a window can fill without
// a pipeline behind it.
func (c *Cutter) Fill(in stages.Batch) (due bool, err error) {
	if err := c.take(in); err != nil {
		return false, err
	}
	c.mu.Lock()
	if due = c.redo != nil; !due {
		_, due = c.decide()
	}
	c.mu.Unlock()
	c.trim()
	return due, nil
}

// Do takes the marks of a batch and emits every window that they and the batch's ceiling close.
func (c *Cutter) Do(_ context.Context, in stages.Batch, emit func(stages.Window) error) error {
	if err := c.take(in); err != nil {
		return err
	}
	for !c.isPaused() {
		w, ok := c.next()
		if !ok {
			break
		}
		if err := emit(w); err != nil {
			return err
		}
	}
	c.trim()
	return nil
}

// Pause makes Do close nothing, as Fill does, until it is taken back: what is due then is closed by the next batch. Drain does not mind it.
func (c *Cutter) Pause(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = on
}

func (c *Cutter) isPaused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paused
}

// Drain emits at most one window, and only one that is to be redone or that Force asked for. What stays open is filled further, or cut by the
// next pipeline, whose source begins at From: stamps at or above the ceiling, which may have come in part, are forgotten here and read again.
func (c *Cutter) Drain(_ context.Context, emit func(stages.Window) error) error {
	c.mu.Lock()
	wanted := c.force != "" || c.redo != nil
	c.mu.Unlock()
	if wanted {
		if w, ok := c.next(); ok {
			if err := emit(w); err != nil {
				return err
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = slices.DeleteFunc(c.held, func(g group) bool { return g.ts >= c.ceiling })
	return nil
}

// Force asks for a close at the ceiling, with that reason (Pressure or Drain), at the next batch or at the drain. The next close of any
// reason fulfils it; so does finding nothing open.
func (c *Cutter) Force(why stages.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.force = why
}

// take adds the marks of a batch to the held stamps and raises the ceiling.
func (c *Cutter) take(in stages.Batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	low := c.ceiling
	if n := len(c.held); n > 0 {
		low = max(low, c.held[n-1].ts)
	}
	for _, m := range in.Marks {
		if m.TS < low {
			return fmt.Errorf("window %d: a mark at %d came after %d", c.k, m.TS, low)
		}
		low = m.TS
		if m.TS < c.filter {
			continue
		}
		if n := len(c.held); n > 0 && c.held[n-1].ts == m.TS {
			c.held[n-1].weight += m.Weight
			c.held[n-1].appends++
			continue
		}
		c.held = append(c.held, group{ts: m.TS, weight: m.Weight, appends: 1})
	}
	if in.Ceiling < c.ceiling {
		return fmt.Errorf("window %d: the ceiling went back from %d to %d", c.k, c.ceiling, in.Ceiling)
	}
	c.ceiling = in.Ceiling
	return nil
}

// next returns the next window that is due, if there is one.
func (c *Cutter) next() (stages.Window, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.redo != nil {
		return c.again(), true
	}
	x, ok := c.decide()
	if !ok {
		return stages.Window{}, false
	}
	return c.close(x), true
}

// cut is where the open window has to close, and why.
type cut struct {
	end stages.Micros
	why stages.Reason
}

// decide lets held stamps join the open window up to the first close that is due, and says which that is. Asked again, it says the same.
func (c *Cutter) decide() (cut, bool) {
	taken := 0
	defer func() { c.held = c.held[taken:] }()
	for _, g := range c.held {
		if g.ts > c.ceiling {
			break
		}
		if x, ok := c.before(g); ok {
			return x, true
		}
		if g.ts == c.ceiling {
			break
		}
		c.join(g)
		taken++
	}
	return c.atCeiling(len(c.held) > taken && c.held[taken].ts == c.ceiling)
}

// trim gives back the room that a batch's stamps took while they were looked at.
func (c *Cutter) trim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = slices.Clone(c.held)
}

// again is the window of the open intent.
func (c *Cutter) again() stages.Window {
	w := stages.Window{K: c.k, Start: c.position, Shown: c.redo.Start, End: c.redo.End, Why: stages.Redo}
	c.position, c.redo = w.End, nil
	c.startAt(w.End)
	c.k++
	return w
}

// before says whether the open window has to close before stamp g joins it, and steps over boundaries below g if nothing is open.
func (c *Cutter) before(g group) (cut, bool) {
	if c.open.appends == 0 {
		c.step(g.ts)
		return cut{}, false
	}
	if x, ok := c.bySize(g.ts); ok {
		return x, true
	}
	if limit := c.rules.MaxAppends; limit > 0 && c.open.appends+g.appends > limit {
		return cut{g.ts, stages.Pressure}, true
	}
	return cut{}, false
}

// atCeiling tries the rules that close at the ceiling. reading says that the source stands in the middle of the stamp there.
func (c *Cutter) atCeiling(reading bool) (cut, bool) {
	if c.open.appends == 0 {
		if c.start != stages.Beginning {
			c.step(c.ceiling)
		}
		if !reading {
			c.force = ""
		}
		return cut{}, false
	}
	if x, ok := c.bySize(c.ceiling); ok {
		return x, true
	}
	switch limit := c.rules.MaxAppends; {
	case !reading && c.ceiling.Sub(c.open.first) >= c.rules.MaxAge:
		return cut{c.ceiling, stages.Age}, true
	case limit > 0 && c.open.appends >= limit:
		return cut{c.ceiling, stages.Pressure}, true
	case c.force != "":
		return cut{c.ceiling, c.force}, true
	default:
		return cut{}, false
	}
}

// bySize closes the open window at limit if it weighs enough, or at the boundary if limit is at or past it.
func (c *Cutter) bySize(limit stages.Micros) (cut, bool) {
	switch {
	case c.open.weight >= c.rules.Target:
		return cut{min(limit, c.boundary), stages.Size}, true
	case limit >= c.boundary:
		return cut{c.boundary, stages.Boundary}, true
	default:
		return cut{}, false
	}
}

// startAt sets the start of the empty window, and with it the boundary that it must not cross.
func (c *Cutter) startAt(t stages.Micros) {
	c.start, c.boundary = t, math.MaxInt64
	if u := c.rules.Align.unit(); u > 0 && t != stages.Beginning {
		c.boundary = t.Floor(u).Add(u)
	}
}

// step moves the start of an empty window to the last boundary at or below t: the stretch between holds nothing, so it needs neither
// an object nor a row. A queue that starts at the beginning starts at its first stamp.
func (c *Cutter) step(t stages.Micros) {
	if c.start == stages.Beginning || t >= c.boundary {
		c.startAt(c.rules.Align.floor(t))
	}
}

// join adds a stamp to the open window.
func (c *Cutter) join(g group) {
	if c.open.appends == 0 {
		c.open.first = g.ts
	}
	c.open.weight += g.weight
	c.open.appends += g.appends
}

// close returns the open window, ended at a cut, and opens the next one there.
func (c *Cutter) close(x cut) stages.Window {
	w := stages.Window{K: c.k, Start: c.position, Shown: c.start, End: x.end, Weight: c.open.weight, Appends: c.open.appends, Why: x.why}
	c.k++
	c.position = x.end
	c.startAt(x.end)
	c.open, c.force = sums{}, ""
	return w
}
