package window

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"queen/stages"
)

// Transcripts in testdata/transcripts: one cutter a "rules", fed by "batch".
//
//	rules target=<bytes> age=<duration> align=<hour|day|none> [max-appends=<n>] [position=<t>] [k=<n>]
//	      [redo=(<tStart>,<tEnd>)]
//	batch ceiling=<t>            marks below it, as <t>:<weight>[x<count>], any number a line
//	force why=<reason>
//	drain
//
// A <t> is microseconds, "begin", or hours:minutes[:seconds] of the day after the epoch, with "d+" in front for later days. The
// answer lists the windows and then what is open.
func TestCutter(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		var c *Cutter
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			var err error
			emit := func(w stages.Window) error {
				fmt.Fprintf(&out, "window %d: %s <= ts < %s shown %s weight %d (%s)\n",
					w.K, show(w.Start), show(w.End), show(w.Shown), w.Weight, w.Why)
				return nil
			}
			switch d.Cmd {
			case "rules":
				c, err = newCutter(t, d)
				if err == nil {
					return fmt.Sprintf("reads from %s\n", show(c.From()))
				}
			case "batch":
				err = c.Do(t.Context(), parseBatch(t, d), emit)
			case "force":
				var why string
				d.ScanArgs(t, "why", &why)
				c.Force(stages.Reason(why))
			case "drain":
				err = c.Drain(t.Context(), emit)
			default:
				d.Fatalf(t, "unknown command")
			}
			if err != nil {
				return out.String() + "error: " + err.Error() + "\n"
			}
			return out.String() + state(c)
		})
	})
}

func state(c *Cutter) string {
	s := c.Status()
	if s.Appends == 0 {
		if c.Open() {
			return "not idle\n"
		}
		return fmt.Sprintf("empty: k %d from %s\n", s.K, show(s.Start))
	}
	return fmt.Sprintf("open: k %d from %s first %s weight %d appends %d\n", s.K, show(s.Start), show(s.First), s.Weight, s.Appends)
}

func newCutter(t *testing.T, d *datadriven.TestData) (*Cutter, error) {
	var age, align, position string
	rules, k := Rules{}, uint64(1)
	d.ScanArgs(t, "target", &rules.Target)
	d.ScanArgs(t, "age", &age)
	d.ScanArgs(t, "align", &align)
	d.MaybeScanArgs(t, "max-appends", &rules.MaxAppends)
	d.MaybeScanArgs(t, "k", &k)
	rules.Align = Align(align)
	var err error
	if rules.MaxAge, err = time.ParseDuration(age); err != nil {
		t.Fatal(err)
	}
	at := stages.Beginning
	if d.MaybeScanArgs(t, "position", &position) {
		at = parseTime(t, position)
	}
	var redo *stages.Intent
	if arg, ok := d.Arg("redo"); ok {
		redo = &stages.Intent{K: k, Start: parseTime(t, arg.Vals[0]), End: parseTime(t, arg.Vals[1])}
		d.MaybeScanArgs(t, "redo-k", &redo.K)
	}
	return New(rules, at, k, redo)
}

func parseBatch(t *testing.T, d *datadriven.TestData) stages.Batch {
	var ceiling string
	d.ScanArgs(t, "ceiling", &ceiling)
	b := stages.Batch{Ceiling: parseTime(t, ceiling)}
	for _, field := range strings.Fields(d.Input) {
		field, times, _ := strings.Cut(field, "x")
		i := strings.LastIndexByte(field, ':')
		weight, err := strconv.ParseInt(field[i+1:], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		n := 1
		if times != "" {
			if n, err = strconv.Atoi(times); err != nil {
				t.Fatal(err)
			}
		}
		for range n {
			b.Marks = append(b.Marks, stages.Mark{TS: parseTime(t, field[:i]), Weight: weight})
		}
	}
	return b
}

func parseTime(t *testing.T, s string) stages.Micros {
	if s == "begin" {
		return stages.Beginning
	}
	if day, clock, ok := strings.Cut(s, "d+"); ok {
		n, err := strconv.Atoi(day)
		if err != nil {
			t.Fatal(err)
		}
		return parseTime(t, clock).Add(time.Duration(n) * 24 * time.Hour)
	}
	if h, rest, ok := strings.Cut(s, ":"); ok {
		d, err := time.ParseDuration(h + "h" + strings.Replace(rest, ":", "m", 1) + map[bool]string{true: "s", false: "m"}[strings.Contains(rest, ":")])
		if err != nil {
			t.Fatal(err)
		}
		return stages.Micros(0).Add(d)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return stages.Micros(n)
}

// show writes small stamps as numbers and others as days and hours.
func show(m stages.Micros) string {
	switch {
	case m == stages.Beginning:
		return "begin"
	case m > -1e7 && m < 1e7:
		return strconv.FormatInt(int64(m), 10)
	}
	iso := m.ISO()
	clock := strings.TrimSuffix(strings.TrimSuffix(iso[11:26], ".000000"), ":00")
	if day := m.Floor(24*time.Hour).Sub(0) / (24 * time.Hour); day != 0 {
		return fmt.Sprintf("%dd+%s", day, clock)
	}
	return clock
}

func TestNewRefuses(t *testing.T) {
	good := Rules{Target: 1, Align: None}
	for name, c := range map[string]struct {
		rules    Rules
		position stages.Micros
		k        uint64
		redo     *stages.Intent
	}{
		"target":       {Rules{Target: 0, Align: None}, 0, 1, nil},
		"align":        {Rules{Target: 1, Align: "week"}, 0, 1, nil},
		"appends":      {Rules{Target: 1, Align: Hour, MaxAppends: -1}, 0, 1, nil},
		"k":            {good, 0, 0, nil},
		"redo k":       {good, 0, 2, &stages.Intent{K: 1, End: 5}},
		"redo is past": {good, 5, 2, &stages.Intent{K: 2, End: 5}},
	} {
		if _, err := New(c.rules, c.position, c.k, c.redo); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// An emit that fails ends Do with that error.
func TestEmitError(t *testing.T) {
	stop := errors.New("stop")
	c, err := New(Rules{Target: 1, Align: None}, 0, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	marks := []stages.Mark{{TS: 1, Weight: 1}, {TS: 2, Weight: 1}}
	n := 0
	err = c.Do(context.Background(), stages.Batch{Marks: marks, Ceiling: 9}, func(stages.Window) error { n++; return stop })
	if err != stop || n != 1 {
		t.Errorf("%v after %d windows", err, n)
	}
}
