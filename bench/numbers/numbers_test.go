package numbers

import (
	"math"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{
		{[]float64{3}, 3}, {[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}, {[]float64{9, 1, 1}, 1},
	} {
		before := append([]float64(nil), c.in...)
		if got := Median(c.in); got != c.want {
			t.Errorf("median of %v is %v, not %v", c.in, got, c.want)
		}
		for i := range before {
			if before[i] != c.in[i] {
				t.Errorf("%v was reordered to %v", before, c.in)
			}
		}
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("the median of nothing is a number")
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	for _, c := range []struct {
		in   []int
		p    float64
		want int
	}{
		{hundred, 0.5, 50}, {hundred, 0.99, 99}, {hundred, 1, 100}, {hundred, 0.001, 1}, {[]int{7}, 0.99, 7}, {[]int{1, 2}, 0.99, 2},
		{[]int{1, 2}, 0.5, 1}, {nil, 0.5, 0},
	} {
		if got := Percentile(c.in, c.p); got != c.want {
			t.Errorf("percentile %v of %d values is %d, not %d", c.p, len(c.in), got, c.want)
		}
	}
}

func TestPrinting(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Count(0), "0"}, {Count(999), "999"}, {Count(1000), "1,000"}, {Count(-1234567), "-1,234,567"}, {Count(math.NaN()), "NaN"},
		{Millis(1500 * time.Microsecond), "1.5 ms"}, {List([]float64{1, 0.256}, 2), "1.00 0.26"},
	} {
		if c.got != c.want {
			t.Errorf("%q, not %q", c.got, c.want)
		}
	}
	if !math.IsNaN(Ratio(1, 0)) || Ratio(1, 2) != 0.5 {
		t.Error("ratio")
	}
}
