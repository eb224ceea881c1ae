package chaos

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// told is a test that says at its very end, behind the last lines of all processes, what failed: of a long output the end is read first.
type told struct {
	testing.TB

	mu       sync.Mutex
	failures []string
}

// tellAgain must be called before anything that logs when the test is cleaned up. what says which run it was.
func tellAgain(t testing.TB, what string) *told {
	t.Log(what)
	d := &told{TB: t}
	t.Cleanup(func() {
		if len(d.failures) > 0 {
			t.Logf("What failed, in short (%s):\n%s", what, strings.Join(d.failures, "\n"))
		}
	})
	return d
}

func (d *told) note(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures = append(d.failures, fmt.Sprintf("%.1000s", strings.TrimSuffix(text, "\n")))
}

func (d *told) Error(args ...any) {
	d.TB.Helper()
	d.note(fmt.Sprintln(args...))
	d.TB.Error(args...)
}

func (d *told) Errorf(format string, args ...any) {
	d.TB.Helper()
	d.note(fmt.Sprintf(format, args...))
	d.TB.Errorf(format, args...)
}

func (d *told) Fatal(args ...any) {
	d.TB.Helper()
	d.note(fmt.Sprintln(args...))
	d.TB.Fatal(args...)
}

func (d *told) Fatalf(format string, args ...any) {
	d.TB.Helper()
	d.note(fmt.Sprintf(format, args...))
	d.TB.Fatalf(format, args...)
}
