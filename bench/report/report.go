// Package report prints the results of the benchmarks and keeps them: a table for people, JSON lines for programs.
//
// It judges nothing: package measure says whether a target was met. A line without its command, machine and commit cannot be made.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"queen/bench/machine"
)

// Verdict says how a line stands to its target.
type Verdict string

// The verdicts.
const (
	Met    Verdict = "met"
	Missed Verdict = "NOT MET"
	Small  Verdict = "met, small" // at a size below the one that the target is stated for: it says little
	Shown  Verdict = "shown"      // there is no target
)

// Of judges a line; stated says that it was measured at the size that the target is stated for, or at a larger one.
func Of(met, stated bool) Verdict {
	switch {
	case !met:
		return Missed
	case !stated:
		return Small
	}
	return Met
}

// Line is one result.
type Line struct {
	What     string   `json:"what"`     // backfill, 100 records an append, 10 partitions
	Target   string   `json:"target"`   // as the contract states it; "-" when there is none
	Measured string   `json:"measured"` // the median, with its unit
	Ratio    string   `json:"ratio"`    // to what the target compares with; "-" when there is nothing to compare
	Met      Verdict  `json:"met"`
	Notes    []string `json:"notes"`   // the single runs, and what else is worth knowing
	Command  string   `json:"command"` // makes this line again
	Load     string   `json:"load"`    // load averages when the line was done
}

// Report is all lines of one run.
type Report struct {
	Machine machine.Machine
	Began   time.Time
	Title   string // the sizes of this run
	lines   []Line
}

// Add takes a line. One without a command is a mistake of the caller's.
func (r *Report) Add(l Line) error {
	if l.What == "" || l.Command == "" || l.Measured == "" || l.Target == "" || l.Ratio == "" || l.Met == "" {
		return fmt.Errorf("report: a line is not complete: %+v", l)
	}
	r.lines = append(r.lines, l)
	return nil
}

// Lines are the lines so far.
func (r *Report) Lines() []Line { return r.lines }

// Write prints the table, then each line with its runs, its command and where it was measured.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "queen bench, %s, %s\n%s\n\n", r.Began.UTC().Format("2006-01-02 15:04 UTC"), r.Title, r.Machine)
	rows := [][]string{{"what", "target", "measured", "ratio", "met"}}
	for _, l := range r.lines {
		rows = append(rows, []string{l.What, l.Target, l.Measured, l.Ratio, string(l.Met)})
	}
	table(&b, rows)
	b.WriteString("\nEach line again, with its runs, its command and its machine\n")
	for _, l := range r.lines {
		fmt.Fprintf(&b, "\n%s: %s; target %s, ratio %s: %s\n", l.What, l.Measured, l.Target, l.Ratio, l.Met)
		for _, n := range l.Notes {
			fmt.Fprintf(&b, "    %s\n", n)
		}
		fmt.Fprintf(&b, "    $ %s\n    %s, load %s\n", l.Command, r.Machine, l.Load)
	}
	_, err := io.WriteString(w, b.String())
	return err
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
}

// WriteJSON prints one JSON object a line.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, l := range r.lines {
		if err := e.Encode(record{Line: l, Began: r.Began.UTC().Format(time.RFC3339), Machine: r.Machine}); err != nil {
			return err
		}
	}
	return nil
}

// Save writes <date>-<commit>.txt and .jsonl into dir and returns the path of the first. An earlier run of the same day and commit is
// not overwritten: the name gets a number.
func (r *Report) Save(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	name := r.Began.UTC().Format("2006-01-02") + "-" + r.Machine.Commit
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
