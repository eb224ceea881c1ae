package raftnode

import (
	"time"

	"queen/stages"
)

// The limits of the log clock (contract R4, design invariant 1).
const (
	leapLimit = 10 * time.Second // a wall clock further ahead than this is a leap
	leapProof = 60 * time.Second // how long a leap must last before it is believed
)

// Clock decides which time a leader proposes. It is pure: it reads no clock, and it is not safe for concurrent use.
//
// It remembers one point: where the log clock stood at a monotonic moment. Two lines rise from there, one at half the
// monotonic rate (the floor) and one at the full rate (steady). A proposal is the wall clock, but
//
//   - never below the floor, so that the log clock never runs slower than half the monotonic clock, however far the wall clock
//     went back;
//   - when the wall clock is more than 10 s above steady, it has leapt. A leap is believed once it has lasted for 60 s; until
//     then the log clock goes on along steady, so that a leap which is taken back leaves no trace. The first proposal of a
//     process believes its wall clock at once: there is no monotonic time to compare with.
//
// Every proposal becomes the point. So does an applied entry that lies above the floor (it came from another leader, or its
// commands were spread); one below it does not: the time an entry takes from proposal to apply must not slow the clock.
type Clock struct {
	last   stages.Micros // the point: the log clock
	lastAt time.Duration // and the monotonic moment

	begun   bool          // a proposal was made: from now on a leap has to last
	leaping bool          // the wall clock is ahead, and not believed yet
	leapAt  time.Duration // since when
	leapOff stages.Micros // wall minus monotonic at that moment: another value is another leap
}

// Applied notes that the log clock stands at now, at the monotonic moment mono.
func (c *Clock) Applied(now stages.Micros, mono time.Duration) {
	if now > c.floor(mono) {
		c.last, c.lastAt = now, mono
	}
}

// Propose returns the time that the next entry carries, given the wall clock and the monotonic clock (time since any fixed
// moment of this process).
func (c *Clock) Propose(wall stages.Micros, mono time.Duration) stages.Micros {
	p := c.choose(wall, mono)
	c.begun = true
	c.last, c.lastAt = p, max(mono, c.lastAt)
	return p
}

func (c *Clock) choose(wall stages.Micros, mono time.Duration) stages.Micros {
	steady := c.last + micros(max(0, mono-c.lastAt))
	if !c.begun || wall-steady <= micros(leapLimit) {
		c.leaping = false
		return max(wall, c.floor(mono))
	}
	off := wall - micros(mono)
	if !c.leaping || off-c.leapOff > micros(leapLimit) || c.leapOff-off > micros(leapLimit) {
		c.leaping, c.leapAt, c.leapOff = true, mono, off
	}
	if mono-c.leapAt < leapProof {
		return steady
	}
	c.leaping = false
	return wall
}

func (c *Clock) floor(mono time.Duration) stages.Micros {
	return c.last + micros(max(0, mono-c.lastAt)/2)
}

func micros(d time.Duration) stages.Micros { return stages.Micros(d / time.Microsecond) }
