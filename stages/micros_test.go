package stages

import (
	"math"
	"testing"
	"time"
)

func TestISO(t *testing.T) {
	for _, c := range []struct {
		m    Micros
		want string
	}{
		{0, "1970-01-01T00:00:00.000000Z"},
		{-1, "1969-12-31T23:59:59.999999Z"},
		{1, "1970-01-01T00:00:00.000001Z"},
		{1791009457501942, "2026-10-03T06:37:37.501942Z"},
		{1709164800000000, "2024-02-29T00:00:00.000000Z"},
		{253402300799999999, "9999-12-31T23:59:59.999999Z"},
		{253402300800000000, "10000-01-01T00:00:00.000000Z"},
		{-62167219200000000, "0000-01-01T00:00:00.000000Z"},
		{-62167219200000001, "-0001-12-31T23:59:59.999999Z"},
		{Beginning, "-290308-12-21T19:59:05.224192Z"},
		{math.MaxInt64, "294247-01-10T04:00:54.775807Z"},
	} {
		if got := c.m.ISO(); got != c.want {
			t.Errorf("%d: %s, want %s", c.m, got, c.want)
		}
		m, err := ParseISO(c.want)
		if four := len(c.want) == isoSize; four != (err == nil) || four && m != c.m {
			t.Errorf("parse %s: %d %v", c.want, m, err)
		}
	}
}

func TestParseISORefuses(t *testing.T) {
	for _, s := range []string{
		"", "2026-10-03T06:37:37Z", "2026-10-03T06:37:37.50194Z", "2026-10-03T06:37:37.5019421Z", "2026-10-03t06:37:37.501942Z",
		"2026-10-03T06:37:37.501942z", "2026-10-03 06:37:37.501942Z", "2026-02-30T06:37:37.501942Z", "2026-13-03T06:37:37.501942Z",
		"2026-00-03T06:37:37.501942Z", "2026-10-03T24:00:00.000000Z", "2026-10-03T06:60:37.501942Z", "2026-10-03T06:37:60.501942Z",
		"2026-10-03T06:37:37.501942+", "+026-10-03T06:37:37.501942Z", "2026-10-03T06:37:37,501942Z", "2026-1a-03T06:37:37.501942Z",
	} {
		if m, err := ParseISO(s); err == nil {
			t.Errorf("%q was read as %d", s, m)
		}
	}
}

// What is read comes out the same, and ISO agrees with the time package.
func FuzzISO(f *testing.F) {
	f.Add("2026-10-03T06:37:37.501942Z", int64(0))
	f.Add("x", int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, s string, n int64) {
		if m, err := ParseISO(s); err == nil && m.ISO() != s {
			t.Errorf("%q came out as %q", s, m.ISO())
		}
		m := Micros(n)
		if got := m.ISO(); len(got) == isoSize {
			if want := m.Time().Format("2006-01-02T15:04:05.000000Z"); got != want {
				t.Errorf("%d: %s, want %s", n, got, want)
			}
			if back, err := ParseISO(got); err != nil || back != m {
				t.Errorf("%d: back %d %v", n, back, err)
			}
		}
	})
}

func TestAddSub(t *testing.T) {
	const most = Micros(math.MaxInt64)
	for _, c := range []struct {
		m    Micros
		d    time.Duration
		want Micros
	}{
		{10, time.Microsecond, 11},
		{10, -time.Microsecond, 9},
		{10, 1999 * time.Nanosecond, 11},
		{10, -1999 * time.Nanosecond, 9},
		{0, -5 * time.Second, -5_000_000},
		{Beginning, time.Hour, Beginning},
		{Beginning, -time.Hour, Beginning},
		{Beginning + 1, -time.Hour, Beginning},
		{most, time.Hour, most},
		{most - 1, time.Hour, most},
		{most, -time.Microsecond, most - 1},
	} {
		if got := c.m.Add(c.d); got != c.want {
			t.Errorf("%d + %v = %d, want %d", c.m, c.d, got, c.want)
		}
	}
	for _, c := range []struct {
		m, u Micros
		want time.Duration
	}{
		{11, 10, time.Microsecond},
		{10, 11, -time.Microsecond},
		{0, 0, 0},
		{0, Beginning, math.MaxInt64},
		{Beginning, 0, math.MinInt64},
		{Beginning, Beginning, 0},
		{most, Beginning, math.MaxInt64},
		{Beginning, most, math.MinInt64},
		{most, -1, math.MaxInt64},
		{math.MaxInt64 / 1000, 0, math.MaxInt64 / 1000 * 1000},
		{math.MaxInt64/1000 + 1, 0, math.MaxInt64},
		{-math.MaxInt64/1000 - 1, 0, math.MinInt64},
	} {
		if got := c.m.Sub(c.u); got != c.want {
			t.Errorf("%d - %d = %d, want %d", c.m, c.u, got, c.want)
		}
	}
}

func TestFloor(t *testing.T) {
	const hour, day = Micros(3_600_000_000), Micros(86_400_000_000)
	for _, c := range []struct {
		m    Micros
		unit time.Duration
		want Micros
	}{
		{0, time.Hour, 0},
		{1, time.Hour, 0},
		{hour - 1, time.Hour, 0},
		{hour, time.Hour, hour},
		{-1, time.Hour, -hour},
		{-hour, time.Hour, -hour},
		{-hour - 1, time.Hour, -2 * hour},
		{day + hour, 24 * time.Hour, day},
		{-1, 24 * time.Hour, -day},
		{Beginning, time.Hour, Beginning},
		{Beginning + 1, 24 * time.Hour, Beginning},
		{Beginning + day, 24 * time.Hour, Beginning + day - (day + (Beginning+day)%day)},
		{-7, time.Microsecond, -7},
		{Beginning, time.Microsecond, Beginning},
	} {
		if got := c.m.Floor(c.unit); got != c.want {
			t.Errorf("%d to %v: %d, want %d", c.m, c.unit, got, c.want)
		}
	}
}

func TestTime(t *testing.T) {
	for _, m := range []Micros{0, -1, 1791009457501942} {
		if got := MicrosOf(m.Time()); got != m {
			t.Errorf("%d: %d", m, got)
		}
	}
	if got := MicrosOf(time.Unix(0, -1)); got != -1 {
		t.Errorf("a nanosecond before the epoch: %d", got)
	}
}

func BenchmarkISO(b *testing.B) {
	dst, m := make([]byte, 0, 64), Micros(1791009457501942)
	for b.Loop() {
		dst = m.AppendISO(dst[:0])
		m += 1_000_003
	}
}
