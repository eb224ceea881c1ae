package stages

import (
	"fmt"
	"math"
	"time"
)

// isoSize is the length of YYYY-MM-DDTHH:MM:SS.ffffffZ.
const isoSize = len("2006-01-02T15:04:05.000000Z")

const microsPerDay = int64(24 * time.Hour / time.Microsecond)

// MicrosOf returns t rounded down to a microsecond.
func MicrosOf(t time.Time) Micros { return Micros(t.UnixMicro()) }

// Time returns the moment as a time.Time in UTC.
func (m Micros) Time() time.Time { return time.UnixMicro(int64(m)).UTC() }

// ISO returns the moment as YYYY-MM-DDTHH:MM:SS.ffffffZ: UTC, always six digits. Years outside 0 to 9999 come out with a sign or
// more digits, which ParseISO refuses.
func (m Micros) ISO() string { return string(m.AppendISO(make([]byte, 0, isoSize))) }

// AppendISO appends what ISO returns.
func (m Micros) AppendISO(dst []byte) []byte {
	day := floorDiv(int64(m), microsPerDay)
	of := int64(m) - day*microsPerDay // in [0, a day), also where day*microsPerDay wrapped around
	year, month, date := time.Unix(day*86400, 0).UTC().Date()
	if year < 0 || year > 9999 {
		dst = fmt.Appendf(dst, "%05d", year)
	} else {
		dst = digits(dst, year, 4)
	}
	dst = digits(append(dst, '-'), int(month), 2)
	dst = digits(append(dst, '-'), date, 2)
	second := int(of / 1e6)
	dst = digits(append(dst, 'T'), second/3600, 2)
	dst = digits(append(dst, ':'), second/60%60, 2)
	dst = digits(append(dst, ':'), second%60, 2)
	dst = digits(append(dst, '.'), int(of%1e6), 6)
	return append(dst, 'Z')
}

// digits appends v, which is not negative, as exactly n decimal digits.
func digits(dst []byte, v, n int) []byte {
	at := len(dst)
	dst = append(dst, "000000"[:n]...)
	for i := at + n - 1; i >= at; i-- {
		dst[i] = byte('0' + v%10)
		v /= 10
	}
	return dst
}

// ParseISO reads exactly what ISO writes for the years 0 to 9999, and nothing else.
func ParseISO(s string) (Micros, error) {
	const shape = "dddd-dd-ddTdd:dd:dd.ddddddZ"
	if len(s) != len(shape) {
		return 0, fmt.Errorf("time %.40q: want YYYY-MM-DDTHH:MM:SS.ffffffZ", s)
	}
	var f [7]int // year, month, day, hour, minute, second, microsecond
	field := 0
	for i := range len(shape) {
		switch {
		case shape[i] != 'd' && s[i] == shape[i]:
			field++
		case shape[i] == 'd' && s[i] >= '0' && s[i] <= '9':
			f[field] = f[field]*10 + int(s[i]-'0')
		default:
			return 0, fmt.Errorf("time %.40q: want YYYY-MM-DDTHH:MM:SS.ffffffZ", s)
		}
	}
	t := time.Date(f[0], time.Month(f[1]), f[2], f[3], f[4], f[5], f[6]*1000, time.UTC)
	m := MicrosOf(t)
	if m.ISO() != s { // the 30th of February, hour 24, second 60
		return 0, fmt.Errorf("time %q: no such moment", s)
	}
	return m, nil
}

// Add returns m + d, d in whole microseconds (rounded toward zero). Beginning stays Beginning, and no sum leaves the range.
func (m Micros) Add(d time.Duration) Micros {
	if m == Beginning {
		return Beginning
	}
	n := Micros(d / time.Microsecond)
	switch sum := m + n; {
	case n > 0 && sum < m:
		return math.MaxInt64
	case n < 0 && sum > m:
		return Beginning
	default:
		return sum
	}
}

// Sub returns m - u, at most the longest and at least the shortest Duration (292 years).
func (m Micros) Sub(u Micros) time.Duration {
	const most = math.MaxInt64 / int64(time.Microsecond)
	d := int64(m) - int64(u)
	switch {
	case m >= u && (d < 0 || d > most):
		return math.MaxInt64
	case m < u && (d >= 0 || d < -most):
		return math.MinInt64
	default:
		return time.Duration(d) * time.Microsecond
	}
}

// Floor returns the last multiple of unit, counted from the epoch, that is not above m: down also for moments before the epoch. unit
// is at least a microsecond. What would fall below the range is Beginning.
func (m Micros) Floor(unit time.Duration) Micros {
	u := int64(unit / time.Microsecond)
	n := floorDiv(int64(m), u)
	if n < math.MinInt64/u {
		return Beginning
	}
	return Micros(n * u)
}

// floorDiv is a / b rounded down; b is positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
