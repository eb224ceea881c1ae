package window

import "queen/stages"

// Status is the open window as people see it.
type Status struct {
	K       uint64        // number that it will have
	Start   stages.Micros // as it would be shown: its start, or the last boundary stepped over; Beginning when not known yet
	First   stages.Micros // stamp of its first append; meaningless when Appends is 0
	Weight  int64         // bytes: of all appends handed on and not cut yet
	Appends int64         // how many these are
	Ceiling stages.Micros // ceiling of the last batch
}

// Status says where the cutter stands.
func (c *Cutter) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Status{K: c.k, Start: c.start, First: c.open.first, Weight: c.open.weight, Appends: c.open.appends, Ceiling: c.ceiling}
	if s.Appends == 0 && len(c.held) > 0 {
		s.First = c.held[0].ts
	}
	for _, g := range c.held {
		s.Weight += g.weight
		s.Appends += g.appends
	}
	return s
}

// Open says that the cutter holds appends, or a window that is to be redone: time alone may make a window due.
func (c *Cutter) Open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open.appends > 0 || len(c.held) > 0 || c.redo != nil
}

// Wanted says that Drain would emit a window: one that is to be redone, or one that Force asked for.
func (c *Cutter) Wanted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.redo != nil || c.force != "" && c.open.appends > 0
}
