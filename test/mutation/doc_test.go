package mutation

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/guarantees.md")

// docTable is a table of docs/guarantees.md and the marks around it.
type docTable struct {
	begin, end, first string
	rows              []mutation
}

func docTables() []docTable {
	return []docTable{
		{"<!-- mutations -->\n", "<!-- end of mutations -->\n", "invariant", table},
		{"<!-- placement -->\n", "<!-- end of placement -->\n", "rule", placementTable},
		{"<!-- cluster -->\n", "<!-- end of cluster -->\n", "part", clusterTable},
		{"<!-- simulation -->\n", "<!-- end of simulation -->\n", "simulation", simulationTable},
		{"<!-- client -->\n", "<!-- end of client -->\n", "fault", clientTable},
		{"<!-- seal -->\n", "<!-- end of seal -->\n", "rule", sealTable},
		{"<!-- fault lines -->\n", "<!-- end of fault lines -->\n", "entry", slices.Concat(faultTable, sequenceTable)},
	}
}

// render is a table of docs/guarantees.md.
func render(d docTable) string {
	code := func(s string) string {
		s = strings.Join(strings.Fields(strings.NewReplacer("\n", " ", "|", `\|`).Replace(s)), " ")
		if s == "" {
			return "nothing"
		}
		return "`" + s + "`"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s | what is weakened | the change | goes red, saying |\n|---|---|---|---|---|\n", d.first)
	for i, m := range d.rows {
		says := ""
		if m.says != "" {
			says = fmt.Sprintf(": %q", strings.TrimSpace(m.says))
		}
		if m.orSays != "" {
			says += fmt.Sprintf(" or %q", m.orSays)
		}
		change := code(m.old) + " becomes " + code(m.new)
		for _, also := range m.also {
			change += ", " + code(also[0]) + " becomes " + code(also[1])
		}
		fmt.Fprintf(&b, "| %d | %s | %s | `%s`: %s | `%s %s`%s |\n", i+1, m.invariant, m.why, m.file, change, m.pkg, m.test, says)
	}
	return b.String()
}

// TestDocTable: the tables in the document are those that are run.
func TestDocTable(t *testing.T) {
	name := filepath.Join(root(), "docs", "guarantees.md")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	for _, d := range docTables() {
		before, rest, ok := strings.Cut(doc, d.begin)
		_, after, ok2 := strings.Cut(rest, d.end)
		if !ok || !ok2 {
			t.Fatalf("%s has no place for the table of each %s", name, d.first)
		}
		doc = before + d.begin + render(d) + d.end + after
	}
	if doc == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s: its tables are not those of this package: run with -update", name)
	}
	if err := os.WriteFile(name, []byte(doc), 0o644); err != nil {
		t.Fatal(err)
	}
}

var (
	docTest = regexp.MustCompile("`([a-z0-9/]+) (Test[A-Za-z0-9]+)`")
	docFile = regexp.MustCompile("`([a-z0-9_/]+\\.go)`")
)

// TestDocNames: what the document names exists. A claim whose test was renamed away has no test.
func TestDocNames(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(), "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := docTest.FindAllStringSubmatch(string(text), -1)
	files := docFile.FindAllStringSubmatch(string(text), -1)
	if len(tests) < 50 || len(files) < 15 {
		t.Fatalf("only %d tests and %d files found in the document", len(tests), len(files))
	}
	if all := strings.Count(string(text), "Test"); all != len(tests) {
		t.Errorf("%d tests are written as folder and name, and the word stands there %d times", len(tests), all)
	}
	for _, m := range tests {
		if !declared(t, m[1], m[2]) {
			t.Errorf("there is no %s in %s", m[2], m[1])
		}
	}
	for _, m := range files {
		if _, err := os.Stat(filepath.Join(root(), filepath.FromSlash(m[1]))); err != nil {
			t.Error(err)
		}
	}
}

// declared says whether a test file of the folder declares the test.
func declared(t *testing.T, dir, test string) bool {
	names, err := filepath.Glob(filepath.Join(root(), filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}
