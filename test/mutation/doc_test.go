package mutation

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/guarantees.md")

const (
	tableBegin = "<!-- mutations -->\n"
	tableEnd   = "<!-- end of mutations -->\n"
)

// render is the table of docs/guarantees.md.
func render() string {
	code := func(s string) string {
		s = strings.Join(strings.Fields(strings.NewReplacer("\n", " ", "|", `\|`).Replace(s)), " ")
		if s == "" {
			return "nothing"
		}
		return "`" + s + "`"
	}
	var b strings.Builder
	b.WriteString("| | invariant | what is weakened | the change | goes red, saying |\n|---|---|---|---|---|\n")
	for i, m := range table {
		fmt.Fprintf(&b, "| %d | %s | %s | `%s`: %s becomes %s | `%s %s`: \"%s\" |\n",
			i+1, m.invariant, m.why, m.file, code(m.old), code(m.new), m.pkg, m.test, m.says)
	}
	return b.String()
}

// TestDocTable: the table in the document is the one that is run.
func TestDocTable(t *testing.T) {
	name := filepath.Join(root(), "docs", "guarantees.md")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegin)
	have, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", name)
	}
	if have == render() {
		return
	}
	if !*update {
		t.Fatalf("%s: the table is not that of table_test.go: run with -update", name)
	}
	if err := os.WriteFile(name, []byte(before+tableBegin+render()+tableEnd+after), 0o644); err != nil {
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
