package raftnode

import (
	"testing"
	"time"

	"queen/stages"
)

// A step applies (when apply is set) and then proposes. Times are milliseconds after T = 1,000,000 s; mono counts from 0.
type clockStep struct {
	mono  int64 // ms
	apply int64 // log clock applied at this moment, ms after T; -1 = nothing
	wall  int64 // ms after T
	want  int64
}

func TestClock(t *testing.T) {
	const T = stages.Micros(1_000_000_000_000)
	ms := func(n int64) stages.Micros { return T + stages.Micros(n)*1000 }
	const hour = 3_600_000
	tests := []struct {
		name  string
		steps []clockStep
	}{
		{"follows the wall clock", []clockStep{
			{0, -1, 0, 0}, {500, 0, 500, 500}, {1000, 500, 1000, 1000}, {1001, -1, 1001, 1001}}},
		{"the first proposal of a process believes its wall clock", []clockStep{
			{0, 0, hour, hour}, {500, hour, hour + 500, hour + 500}}},
		{"a folder from the future: half the monotonic time", []clockStep{
			{0, hour, 0, hour}, {1000, -1, 1000, hour + 500}, {1000, hour + 500, 1000, hour + 500}, {3000, -1, 3000, hour + 1500}}},
		{"a step back runs at half speed until the wall clock is there", []clockStep{
			{0, 0, 0, 0}, {1000, 1000, 1000, 1000},
			{2000, -1, -5000, 1500}, {2000, 1500, -5000, 1500}, {10_000, -1, 3000, 5500},
			{10_000, 5500, 3000, 5500}, {20_000, -1, 13_000, 13_000}}},
		{"ten seconds ahead is no leap", []clockStep{
			{0, 0, 0, 0}, {1000, 0, 11_000, 11_000}}},
		{"a leap taken back leaves no trace", []clockStep{
			{0, 0, 0, 0}, {1000, 0, hour, 1000}, {2000, 1000, hour + 1000, 2000}, {30_000, 2000, hour + 29_000, 30_000},
			{31_000, 30_000, 31_000, 31_000}, {32_000, 31_000, 32_000, 32_000}}},
		{"a leap is believed after 60 s of it", []clockStep{
			{0, 0, 0, 0}, {1000, 0, hour, 1000}, {60_999, 1000, hour + 59_999, 60_999}, {61_000, 60_999, hour + 60_000, hour + 60_000},
			{62_000, hour + 60_000, hour + 61_000, hour + 61_000}}},
		{"another leap starts the 60 s again", []clockStep{
			{0, 0, 0, 0}, {1000, 0, hour, 1000}, {50_000, 1000, 2*hour + 49_000, 50_000}, {70_000, 50_000, 2*hour + 69_000, 70_000},
			{110_000, 70_000, 2*hour + 109_000, 2*hour + 109_000}}},
		{"a leap that went in between starts the 60 s again", []clockStep{
			{0, 0, 0, 0}, {1000, 0, hour, 1000}, {2000, 1000, 2000, 2000}, {3000, 2000, hour + 2000, 3000},
			{62_000, 3000, hour + 61_000, 62_000}, {63_000, 62_000, hour + 62_000, hour + 62_000}}},
		{"forty seconds without a leader are no leap", []clockStep{
			{0, 0, 0, 0}, {40_000, -1, 40_000, 40_000}, {80_000, -1, 80_000, 80_000}}},
		{"a monotonic clock that seems to go back counts as standing", []clockStep{
			{1000, 0, 0, 0}, {0, -1, -100, 0}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c Clock
			for i, s := range tt.steps {
				mono := time.Duration(s.mono) * time.Millisecond
				if s.apply >= 0 {
					c.Applied(ms(s.apply), mono)
				}
				if got := c.Propose(ms(s.wall), mono); got != ms(s.want) {
					t.Fatalf("step %d: proposed T%+d ms, want T%+d ms", i, int64(got-T)/1000, s.want)
				}
			}
		})
	}
}

// Under load an entry is applied some time after it was proposed, and others are proposed meanwhile. That must slow neither
// the floor (wall clock far behind) nor the steady line (a leap that is not believed yet).
func TestClockUnderLoad(t *testing.T) {
	const start = stages.Micros(1 << 50)
	for _, tt := range []struct {
		name string
		step time.Duration // of the wall clock after the first second
		rate float64
	}{{"behind", -time.Hour, 0.5}, {"leapt", time.Hour, 1}, {"right", 0, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			var c Clock
			c.Applied(start, 0)
			c.Propose(start, 0)
			const every, inFlight, for50s = time.Millisecond, 8, 50_000
			proposed := []stages.Micros{start}
			now := start
			for i := 1; i <= for50s; i++ {
				mono := time.Duration(i) * every
				wall := start + micros(mono)
				if mono >= time.Second {
					wall += micros(tt.step)
				}
				if i > inFlight {
					now = max(proposed[i-inFlight], now+1)
					c.Applied(now, mono)
				}
				proposed = append(proposed, c.Propose(wall, mono))
			}
			total := float64(proposed[for50s]-start) / float64(micros(for50s*every))
			if total < tt.rate-0.001 || total > tt.rate+0.02 {
				t.Errorf("the log clock ran at %.4f of the monotonic rate, want %.1f", total, tt.rate)
			}
		})
	}
}

// Whatever the wall clock does, and however late entries are applied, a proposal never lies below half the monotonic time.
func FuzzClock(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 250, 128, 7})
	f.Fuzz(func(t *testing.T, jumps []byte) {
		var c Clock
		start := stages.Micros(1 << 50)
		c.Applied(start, 0)
		c.Propose(start, 0)
		now, before, mono := start, start, time.Duration(0)
		for _, j := range jumps {
			mono += time.Duration(j) * 10 * time.Millisecond
			now = max(before, now+1) // the entry before this one is applied only now
			c.Applied(now, mono)
			wall := start + micros(mono) + stages.Micros(int8(j))*stages.Micros(j)*1_000_000
			before = c.Propose(wall, mono)
			if floor := start + micros(mono/2); before < floor {
				t.Fatalf("proposed %d, below half the monotonic time (%d)", before, floor)
			}
		}
	})
}
