package mutation

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// seen are changes that were made by hand, once, and turned red a test that takes too long for the tables.
var seen = map[string]string{
	"test/e2e TestTwoProcessesOneObject": "zstd with a concurrency that the cores decide",
	"test/e2e TestRetentionOverrun":      "what was lost is in no manifest, in two, one offset short, or in the lake too; an open window that is not frozen",
	"test/e2e TestBucketFaults":          "a 200 with an error document for a success, a failed window that is never tried again or keeps its memory, a region that is not read, a pointer without its manifest",
	"sink TestIdle":                      "an open window that is looked at only when its queue has something new",
	"sink TestBacklogIsOneWindow":        "age that closes a window in the middle of a backlog",
	"test/e2e TestRedoAcrossSettings":    "a redo that takes format, compression, layout, alignment and prefix of today",
}

// changesOf are the rows of the document's tables that a test goes red with, and what was seen by hand.
func changesOf(test string) (all []string) {
	for _, d := range docTables() {
		for i, m := range d.rows {
			if m.faults != "" { // one test for everything: that it went red says nothing of this fault
				continue
			}
			if m.pkg+" "+m.test == test {
				all = append(all, fmt.Sprintf("%s %d", d.first, i+1))
			}
		}
	}
	if by := seen[test]; by != "" {
		all = append(all, "by hand: "+by)
	}
	return all
}

// renderEntries is the document's table of faults.
func renderEntries() string {
	var b strings.Builder
	b.WriteString("| | the fault | covered by | seen to fail with |\n|---|---|---|---|\n")
	for _, e := range entries {
		var tests, changes []string
		for _, test := range e.tests {
			tests = append(tests, "`"+test+"`")
			changes = append(changes, changesOf(test)...)
		}
		slices.Sort(changes)
		changes = slices.Compact(changes)
		if len(tests) == 0 {
			tests = []string{"not covered: " + e.gap}
		}
		if len(changes) == 0 {
			changes = []string{noChange}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", e.id, e.what, strings.Join(tests, ", "), strings.Join(changes[:min(6, len(changes))], ", "))
	}
	return b.String()
}

// noChange stands where no test of an entry has a change that turns it red.
const noChange = "no change on record"

const beginEntries, endEntries = "<!-- faults -->\n", "<!-- end of faults -->\n"

// TestDocFaults: the table of faults is that of this package, and no number is left out. That its tests exist is TestDocNames.
func TestDocFaults(t *testing.T) {
	var ids []string
	for _, of := range []struct {
		letter string
		most   int
	}{{"P", 61}, {"C", 12}, {"H", 11}} {
		for i := range of.most {
			ids = append(ids, fmt.Sprint(of.letter, i+1))
		}
	}
	if !slices.EqualFunc(entries, ids, func(e entry, id string) bool { return e.id == id && (len(e.tests) == 0) == (e.gap != "") }) {
		t.Error("the entries are not P1 to P61, C1 to C12 and H1 to H11, each with tests or with what is missing")
	}
	name := filepath.Join(root(), "docs", "guarantees.md")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), beginEntries)
	_, after, ok2 := strings.Cut(rest, endEntries)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table of faults", name)
	}
	table := renderEntries()
	if strings.Contains(table, noChange) {
		t.Errorf("an entry has tests that nothing here has turned red:\n%s", table)
	}
	doc := before + beginEntries + table + endEntries + after
	if doc == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s: its table of faults is not that of this package: run with -update", name)
	}
	if err := os.WriteFile(name, []byte(doc), 0o644); err != nil {
		t.Fatal(err)
	}
}
