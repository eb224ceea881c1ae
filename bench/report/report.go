// Package report prints the results of the benchmarks and keeps them: a table for people, JSON lines for programs.
//
// It compares a value with its limit and knows neither: package measure has both. What the contract asks for and is not here, it says
// (package contract). A line without its command, machine and commit cannot be made.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"queen/bench/contract"
	"queen/bench/machine"
)

// Verdict says how a line stands to its target: one of those below, or by how much it falls short.
type Verdict string

// The verdicts. A line that falls short says "short by 4.2 %", at whatever size it was measured.
const (
	Pass    Verdict = "PASS"
	Small   Verdict = "PASS, small" // at a size below the one that the target is stated for: it says little
	Shown   Verdict = "reported"    // there is no target
	Nothing Verdict = "NO FIGURE"   // what was measured makes no number
)

// AtLeast judges a value that must reach a limit above 0; stated says that it was measured at the size that the target is stated for, or at a
// larger one.
func AtLeast(value, limit float64, stated bool) Verdict {
	return judge(value >= limit, (limit-value)/limit, stated)
}

// AtMost judges a value that must not be above a limit above 0.
func AtMost(value, limit float64, stated bool) Verdict {
	return judge(value <= limit, (value-limit)/limit, stated)
}

func judge(met bool, short float64, stated bool) Verdict {
	switch {
	case math.IsNaN(short) || math.IsInf(short, 0):
		return Nothing
	case !met:
		return Verdict(fmt.Sprintf("short by %.1f %%", 100*short))
	case !stated:
		return Small
	}
	return Pass
}

// Line is one result.
type Line struct {
	Row      string   `json:"row"`      // the number of the contract that it is of
	What     string   `json:"what"`     // backfill, 100 records an append, 10 partitions
	Target   string   `json:"target"`   // as the contract states it; "-" when there is none
	Measured string   `json:"measured"` // the median, with its unit
	Ratio    string   `json:"ratio"`    // to what the target compares with; "-" when there is nothing to compare
	Result   Verdict  `json:"result"`
	Notes    []string `json:"notes"`   // the single runs, and what else is worth knowing
	Command  string   `json:"command"` // makes this line again
	Load     string   `json:"load"`    // load averages when the line was done
}

// Report is all lines of one run.
type Report struct {
	Machine machine.Machine
	Began   time.Time
	Title   string   // the sizes of this run
	Load    string   // load averages when it began
	Taken   []string // the measurements that were asked for
	Failed  []string // those of them that ended with an error
	lines   []Line
}

// Add takes a line. One without a command, or of no number that the contract asks for and that can be measured, is a mistake of the caller's.
func (r *Report) Add(l Line) error {
	if l.What == "" || l.Command == "" || l.Measured == "" || l.Target == "" || l.Ratio == "" || l.Result == "" {
		return fmt.Errorf("report: a line is not complete: %+v", l)
	}
	if row, ok := contract.Find(l.Row); !ok || row.Needs != "" {
		return fmt.Errorf("report: line %q is of row %q, which is not measured", l.What, l.Row)
	}
	r.lines = append(r.lines, l)
	return nil
}

// Lines are the lines so far.
func (r *Report) Lines() []Line { return r.lines }

// Gap is a number of the contract that is not in the report, and why.
type Gap struct {
	Row contract.Row
	Why string
}

// Gaps are the rows of the contract without a line of their own that is judged (or, where the contract asks for no more, reported), and
// why each is not there. No row is left out silently.
func (r *Report) Gaps() []Gap {
	have := map[string]bool{}
	for _, l := range r.lines {
		row, _ := contract.Find(l.Row)
		have[l.Row] = have[l.Row] || l.Result != Shown || row.Must == "reported"
	}
	var out []Gap
	for _, row := range contract.Rows() {
		switch {
		case have[row.ID]:
		case row.Needs != "":
			out = append(out, Gap{row, "not measured yet: needs " + row.Needs})
		case !slices.Contains(r.Taken, row.Kind):
			out = append(out, Gap{row, "not in this run: -only " + row.Kind})
		case slices.Contains(r.Failed, row.Kind):
			out = append(out, Gap{row, "FAILED: the measurement ended before it"})
		default:
			out = append(out, Gap{row, "not in this run: the flags leave it out"})
		}
	}
	return out
}

// quietLoad is the load average above which a machine is not quiet.
const quietLoad = 0.5

// Warning says what is wrong with the machine; nothing when it was quiet, or its load is not known.
func (r *Report) Warning() string {
	first, _, _ := strings.Cut(r.Load, " ")
	if v, err := strconv.ParseFloat(first, 64); err != nil || v <= quietLoad {
		return ""
	}
	return fmt.Sprintf("WARNING: the load average was %s at the start: something else runs here, and no figure below is worth quoting", first)
}

// Write prints the table, then each line with its runs, its command and where it was measured.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "queen bench, %s, %s\n%s, load average at start %s\n", r.Began.UTC().Format("2006-01-02 15:04 UTC"), r.Title, r.Machine, r.Load)
	if warning := r.Warning(); warning != "" {
		b.WriteString(warning + "\n")
	}
	b.WriteByte('\n')
	lines := r.sorted()
	rows := [][]string{{"what", "target", "measured", "ratio", "result"}}
	for _, l := range lines {
		rows = append(rows, []string{l.What, l.Target, l.Measured, l.Ratio, string(l.Result)})
	}
	for _, a := range r.Gaps() {
		rows = append(rows, []string{a.Row.What, a.Row.Must, "-", "-", a.Why})
	}
	table(&b, rows)
	b.WriteString("\nEach line again, with its runs, its command and its machine\n")
	for _, l := range lines {
		fmt.Fprintf(&b, "\n%s: %s; target %s, ratio %s: %s\n", l.What, l.Measured, l.Target, l.Ratio, l.Result)
		for _, n := range l.Notes {
			fmt.Fprintf(&b, "    %s\n", n)
		}
		fmt.Fprintf(&b, "    $ %s\n    %s, load %s\n", l.Command, r.Machine, l.Load)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// sorted are the lines in the order of the contract; those of one row keep their order.
func (r *Report) sorted() []Line {
	order := map[string]int{}
	for i, row := range contract.Rows() {
		order[row.ID] = i
	}
	return slices.SortedStableFunc(slices.Values(r.lines), func(a, b Line) int { return order[a.Row] - order[b.Row] })
}

// table pads columns to the width of their longest cell.
func table(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for n, row := range rows {
		for i, cell := range row {
			if i == len(row)-1 {
				b.WriteString(cell)
				break
			}
			fmt.Fprintf(b, "%-*s  ", widths[i], cell)
		}
		b.WriteByte('\n')
		if n == 0 {
			for i, width := range widths {
				b.WriteString(strings.Repeat("-", width))
				if i < len(widths)-1 {
					b.WriteString("  ")
				}
			}
			b.WriteByte('\n')
		}
	}
}

// record is a line of the JSON file: a line and where it was measured.
type record struct {
	Line
	Began   string          `json:"began"`
	Machine machine.Machine `json:"machine"`
	AtStart string          `json:"loadAtStart"`
}

// WriteJSON prints one JSON object a line.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, l := range r.lines {
		if err := e.Encode(record{Line: l, Began: r.Began.UTC().Format(time.RFC3339), Machine: r.Machine, AtStart: r.Load}); err != nil {
			return err
		}
	}
	return nil
}

// Save writes <date>-<machine>-<commit>.txt and .jsonl into dir and returns the path of the first. An earlier run of the same day and commit is
// not overwritten: the name gets a number.
func (r *Report) Save(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	name := r.Began.UTC().Format("2006-01-02") + "-" + r.Machine.Slug() + "-" + r.Machine.Commit
	for n := 1; ; n++ {
		path := filepath.Join(dir, name)
		if n > 1 {
			path = fmt.Sprintf("%s.%d", path, n)
		}
		text, err := os.OpenFile(path+".txt", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return path + ".txt", errors.Join(r.Write(text), text.Close(), r.saveJSON(path+".jsonl"))
	}
}

func (r *Report) saveJSON(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(r.WriteJSON(f), f.Close())
}
