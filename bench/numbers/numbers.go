// Package numbers is the arithmetic of the benchmarks: medians, percentiles and how numbers are printed.
//
// It measures nothing and knows no unit but the ones it prints. Package measure takes the samples, package report shows them.
package numbers

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Median returns the middle of the values, the mean of the two middle ones when their number is even, and NaN when there is none.
// The values keep their order.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// Percentile returns the smallest of the sorted values that at least a share p of them (0 < p <= 1) does not exceed; the zero value
// when there is none.
func Percentile[T cmp.Ordered](sorted []T, p float64) T {
	if len(sorted) == 0 {
		var none T
		return none
	}
	at := int(math.Ceil(p*float64(len(sorted)))) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}

// Ratio is a/b, NaN when b is 0.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

// List prints values with the given number of decimals and spaces between them.
func List(values []float64, decimals int) string {
	var out []string
	for _, v := range values {
		out = append(out, fmt.Sprintf("%.*f", decimals, v))
	}
	return strings.Join(out, " ")
}

// Millis prints a duration in milliseconds.
func Millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// Count prints a whole number with commas between thousands.
func Count(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprint(v)
	}
	text := fmt.Sprintf("%.0f", v)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}
