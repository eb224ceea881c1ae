package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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

// MustBeClean fails unless both checkers find no fault.
func MustBeClean(t testing.TB, lake, broker string, args ...string) {
	t.Helper()
	for _, v := range Check(t, lake, broker, args...) {
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
