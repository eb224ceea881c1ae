// Package profile sums a processor profile up: how much each package took, and which of our lines the time is spent under.
//
// It reads the text that `go tool pprof -top` prints, so it needs the go tool and no library. What it is given is a profile of a whole
// process; package measure says of which stretch of its life.
package profile

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Entry is one row of a summary.
type Entry struct {
	Name  string
	Share float64 // of all samples, 0 to 1
}

// Row is one row of pprof's table.
type Row struct {
	Flat float64 // percent
	Cum  float64 // percent
	Name string  // function, and with -lines file:line behind it
}

// ParseTop reads the table of `go tool pprof -top`.
func ParseTop(text string) ([]Row, error) {
	_, table, ok := strings.Cut(text, "flat%")
	if !ok {
		return nil, fmt.Errorf("pprof: no table in %.200q", text)
	}
	_, table, _ = strings.Cut(table, "\n")
	var rows []Row
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 6 {
			continue
		}
		flat, err1 := strconv.ParseFloat(strings.TrimSuffix(f[1], "%"), 64)
		cum, err2 := strconv.ParseFloat(strings.TrimSuffix(f[4], "%"), 64)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("pprof: %q is no row", strings.TrimSpace(line))
		}
		rows = append(rows, Row{Flat: flat, Cum: cum, Name: strings.Join(f[5:], " ")})
	}
	return rows, nil
}

// Package is the import path of a function as a profile names it.
func Package(function string) string {
	path, rest := "", function
	if i := strings.LastIndexByte(function, '/'); i >= 0 && !strings.ContainsAny(function[:i], "([") {
		path, rest = function[:i+1], function[i+1:]
	} else if i := strings.IndexAny(function, "(["); i >= 0 { // a slash only in what a generic is made of, or in a receiver
		if j := strings.LastIndexByte(function[:i], '/'); j >= 0 {
			path, rest = function[:j+1], function[j+1:]
		}
	}
	name, _, _ := strings.Cut(rest, ".")
	return path + name
}

// ByPackage adds the flat shares of each package up, the largest first, and keeps the first n.
func ByPackage(rows []Row, n int) []Entry {
	sums := map[string]float64{}
	for _, r := range rows {
		name := Package(r.Name)
		if name == "runtime" {
			name += ": " + work(r.Name)
		}
		sums[name] += r.Flat / 100
	}
	var out []Entry
	for name, share := range sums {
		out = append(out, Entry{name, share})
	}
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name)) })
	return out[:min(n, len(out))]
}

// work says what a function of the runtime is for, as far as its name tells.
func work(function string) string {
	name := strings.ToLower(strings.TrimPrefix(function, "runtime."))
	for _, kind := range []struct{ what, parts string }{
		{"copying and clearing", "memmove memclr memequal"},
		{"allocation", "mallocgc nextfree mcache mcentral mheap newobject makeslice growslice"},
		{"collector", "gcbg gcdrain gcmark gcassist scan greyobject findobject mark sweep wbbuf heapbits barrier typepointers spanof"},
		{"scheduling", "futex findrunnable schedule steal lock note park usleep osyield procyield netpoll epoll mcall ready runq wake casgstatus execute gosched"},
		{"maps and hashes", "map hash"},
	} {
		for _, part := range strings.Fields(kind.parts) {
			if strings.Contains(name, part) {
				return kind.what
			}
		}
	}
	return "other"
}

// Packages sums a profile up by package: who burned the time itself.
func Packages(ctx context.Context, file string, n int) ([]Entry, error) {
	text, err := top(ctx, "-nodecount=100000", "-nodefraction=0", "-edgefraction=0", file)
	if err != nil {
		return nil, err
	}
	rows, err := ParseTop(text)
	if err != nil {
		return nil, err
	}
	return ByPackage(rows, n), nil
}

// Lines sums a profile up by lines of our own code: what a library or the runtime does is charged to the line of ours that called it.
// What no code of ours called (the collector, mostly) is in none.
func Lines(ctx context.Context, file string, n int) ([]Entry, error) {
	text, err := top(ctx, "-lines", "-show=^queen/", "-nodecount="+strconv.Itoa(n), file)
	if err != nil {
		return nil, err
	}
	rows, err := ParseTop(text)
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, r := range rows {
		out = append(out, Entry{r.Name, r.Flat / 100})
	}
	return out, nil
}

func top(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"tool", "pprof", "-top"}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return string(out), nil
}
