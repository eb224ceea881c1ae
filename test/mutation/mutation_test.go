// Package mutation breaks the exactly-once argument on purpose. Each entry of the table changes one line of the real source through
// `go test -overlay` (the tree is not touched, the product has no hook) and names a test that is green without the change and must go red
// with it, for the reason that the entry gives.
//
// docs/guarantees.md explains the five invariants; this is the proof that their tests can fail. Its table is the one in table_test.go:
// `go test ./mutation -run Doc -update` writes it. Run everything with -v to see each line before and after, and what the test said.
package mutation

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutation is one weakening of the argument.
type mutation struct {
	invariant string // of docs/DESIGN.md section 3
	why       string // what is weakened, one clause
	file      string // from the root of the repository
	old, new  string // old occurs once in file
	pkg, test string // what must go red
	says      string // a piece of the message with which it must

	also   [][2]string // what else of file changes, old and new
	faults string      // of simulationTable
	orSays string      // the same loss seen from another side
}

func root() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(here)))
}

func TestEachInvariantCanBeBroken(t *testing.T) {
	for _, name := range []string{stamps, set, bytes, fence, pointer} {
		n := 0
		for _, m := range table {
			if m.invariant == name {
				n++
			}
		}
		if n < 3 {
			t.Errorf("invariant %s: %d mutations, want 3 or more", name, n)
		}
	}
	breakEach(t, table)
}

// breakEach sees the tests of a table green, and then each one red without its line.
func breakEach(t *testing.T, table []mutation) {
	t.Run("green", func(t *testing.T) { green(t, table) })
	for i, m := range table {
		t.Run(fmt.Sprintf("%02d %s: %s", i+1, m.invariant, strings.ReplaceAll(m.why, "/", " ")), func(t *testing.T) { red(t, m) })
	}
}

// green runs every test of a table on the source as it is, once.
func green(t *testing.T, table []mutation) {
	tests := map[string][]string{}
	for _, m := range table {
		if !slices.Contains(tests[m.pkg], m.test) {
			tests[m.pkg] = append(tests[m.pkg], m.test)
		}
	}
	for pkg, names := range tests {
		out, err := run(pkg, names, "")
		if err != nil {
			t.Errorf("%s is red without any change:\n%s", pkg, out)
		}
		for _, name := range names {
			if !strings.Contains(out, "--- PASS: "+name+" ") {
				t.Errorf("%s did not run %s", pkg, name)
			}
		}
	}
}

// red runs the test of one mutation on the source with that one line changed.
func red(t *testing.T, m mutation) {
	begun := time.Now()
	overlay, line := overlay(t, m)
	out, err := run(m.pkg, []string{m.test}, overlay)
	if err == nil {
		t.Fatalf("%s %s stays green with this:\n  %s:%d\n  - %s\n  + %s", m.pkg, m.test, m.file, line, m.old, m.new)
	}
	if !strings.Contains(out, "--- FAIL: "+m.test) {
		t.Fatalf("%s did not run to a failing %s:\n%s", m.pkg, m.test, head(out))
	}
	said := message(out, m.says)
	if said == "" {
		t.Fatalf("%s %s went red, and not with %q:\n%s", m.pkg, m.test, m.says, head(out))
	}
	t.Logf("\n  %s:%d\n  - %s\n  + %s\n  %s %s went red in %.1f s:\n  %s", m.file, line, strings.TrimSpace(m.old), strings.TrimSpace(m.new),
		m.pkg, m.test, time.Since(begun).Seconds(), said)
}

// overlay writes the changed file and the map that puts it in the place of the real one. line is where the change is.
func overlay(t *testing.T, m mutation) (name string, line int) {
	t.Helper()
	path := filepath.Join(root(), filepath.FromSlash(m.file))
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(source), m.old)
	if !ok || strings.Contains(after, m.old) {
		t.Fatalf("%s holds %q %d times, want once: bring the table up to date", m.file, m.old, strings.Count(string(source), m.old))
	}
	text := before + m.new + after
	for _, also := range m.also {
		if strings.Count(text, also[0]) != 1 {
			t.Fatalf("%s holds %q %d times, want once: bring the table up to date", m.file, also[0], strings.Count(text, also[0]))
		}
		text = strings.Replace(text, also[0], also[1], 1)
	}
	dir := t.TempDir()
	changed := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(changed, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, list, 0o644); err != nil {
		t.Fatal(err)
	}
	return name, strings.Count(before, "\n") + 1
}

// run runs tests of one package. With an overlay nothing is taken from a cache of results.
func run(pkg string, tests []string, overlay string) (string, error) {
	args := []string{"test", "-v", "-timeout", "60s", "-vet", "off", "-run", "^(" + strings.Join(tests, "|") + ")$"}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.Command("go", append(args, "./"+pkg)...)
	cmd.Dir = root()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// message is the line of a failing test that holds says.
func message(out, says string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, says) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// head keeps an output readable.
func head(out string) string { return out[:min(len(out), 4000)] }
