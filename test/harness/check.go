package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Verdict is what one checker said of a lake.
type Verdict struct {
	Name   string
	Clean  bool
	Output string
}

// Check runs both checkers on a lake: `queen lake verify` and the one in Python. broker may be empty.
func Check(t testing.TB, lake, broker string, args ...string) []Verdict {
	t.Helper()
	b, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	against := []string{}
	if broker != "" {
		against = []string{"--broker", broker}
	}
	own := append(append([]string{"lake", "verify"}, against...), append(args, lake)...)
	other := append([]string{filepath.Join(b.Root, "test", "lakecheck", "check.py"), lake}, append(against, args...)...)
	return []Verdict{verdict(t, "queen lake verify", b.Queen, own), verdict(t, "check.py", b.Python, other)}
}

func verdict(t testing.TB, name, program string, args []string) Verdict {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	code := cmd.ProcessState.ExitCode()
	if err != nil && code != 1 {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return Verdict{Name: name, Clean: code == 0, Output: string(out)}
}

// underWay says whether all that a checker found may be an upload of a sink that runs: an hour may have turned, which ends a window.
func (v Verdict) underWay() bool {
	lines := strings.Split(strings.TrimSpace(v.Output), "\n")
	for _, fault := range lines[:len(lines)-1] { // the last one counts
		if !strings.Contains(fault, "is named by no manifest") && !strings.Contains(fault, "no manifest names this object") {
			return false
		}
	}
	return !v.Clean
}

// MustBeClean fails unless both checkers find no fault. With a broker, whose sink may run, what may be an upload under way is looked at again.
func MustBeClean(t testing.TB, lake, broker string, args ...string) {
	t.Helper()
	verdicts := Check(t, lake, broker, args...)
	for range 10 {
		if broker == "" || !slices.ContainsFunc(verdicts, Verdict.underWay) {
			break
		}
		<-time.After(time.Second)
		verdicts = Check(t, lake, broker, args...)
	}
	for _, v := range verdicts {
		lines := strings.Split(strings.TrimSpace(v.Output), "\n")
		if !v.Clean {
			t.Errorf("%s finds faults:\n%s", v.Name, strings.Join(lines[:min(40, len(lines))], "\n"))
			continue
		}
		t.Logf("%s: %s", v.Name, lines[len(lines)-1])
	}
}

// Keys returns every object of a lake with the sha256 of its bytes, in key order.
func Keys(t testing.TB, lake string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(lake, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".sgwtmp" {
			return fs.SkipDir // where the gateway keeps the parts of uploads that were never completed: no objects
		}
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(lake, path)
		sum := sha256.Sum256(data)
		out[filepath.ToSlash(rel)] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// CopyDir copies a folder with its files.
func CopyDir(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(fmt.Errorf("copy %s: %w", from, err))
	}
}
