package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"queen/internal/logline"
	"queen/internal/processors"
	"queen/node"
)

// TestEnds: however a node ends, and whatever of it hangs as it does on a disk that does not answer, the process ends: within its
// limit, or with the next signal.
func TestEnds(t *testing.T) {
	const grace = 90 * time.Second
	term, eio := os.Signal(syscall.SIGTERM), errors.New("sync: input/output error")
	canceled := func(hang <-chan struct{}) func(context.Context) error { // as Open does
		return func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	}
	ready := func(<-chan struct{}) func(context.Context) error {
		return func(context.Context) error { return nil }
	}
	hangs := func(hang <-chan struct{}) func(context.Context) error {
		return func(context.Context) error { <-hang; return nil }
	}
	broken := func(<-chan struct{}) func(context.Context) error {
		return func(context.Context) error { return eio }
	}
	drains := func(<-chan struct{}) func(context.Context) error { // for five seconds, or until it is cut short
		return func(ctx context.Context) error {
			select {
			case <-time.After(5 * time.Second):
			case <-ctx.Done():
			}
			return nil
		}
	}
	type again struct{}
	for _, c := range []struct {
		name        string
		open, close func(hang <-chan struct{}) func(context.Context) error
		events      []any // signals, fatal errors and restarts, a second apart
		code        int
		after       time.Duration
		lines       string // the last words of each line
	}{
		{"stop", ready, ready, []any{term}, exitOK, time.Second, "a second signal ends it at once"},
		{"stop that fails", ready, broken, []any{term}, exitFailed, time.Second, "ends it at once|stop: " + eio.Error()},
		{"stop that hangs", ready, hangs, []any{term}, exitFailed, time.Second + grace, "ends it at once|does not stop: ended at once within=1m30s"},
		{"stop that hangs, second signal", ready, hangs, []any{term, term}, 128 + 15, 2 * time.Second, "ends it at once|ended at once signal=terminated"},
		{"stop that hangs, fatal error", ready, hangs, []any{term, eio}, exitFailed, 2*time.Second + fatalGrace, "ends it at once|FATAL: " + eio.Error() + "|within=10s"},
		{"stop that hangs, fatal error, second signal", ready, hangs, []any{term, eio, term}, exitFailed, 3 * time.Second, "ends it at once|FATAL: " + eio.Error() + "|ended at once signal=terminated"},
		{"fatal error", ready, ready, []any{eio}, exitFailed, time.Second, "FATAL: " + eio.Error()},
		{"fatal error, the close hangs", ready, hangs, []any{eio}, exitFailed, time.Second + fatalGrace, "FATAL: " + eio.Error() + "|does not stop: ended at once within=10s"},
		{"fatal error, the close hangs, signal", ready, hangs, []any{eio, term}, exitFailed, 2 * time.Second, "FATAL: " + eio.Error() + "|ended at once signal=terminated"},
		{"fatal error, the sink is cut off", ready, canceled, []any{eio}, exitFailed, time.Second + fatalGrace/2, "FATAL: " + eio.Error() + "|stop: context deadline exceeded"},
		{"refused", broken, hangs, nil, exitFailed, 0, "boot: FATAL: " + eio.Error()},
		{"start interrupted", canceled, hangs, []any{term}, exitOK, time.Second, "ends it at once"},
		{"start that hangs, two signals", hangs, ready, []any{term, term}, 128 + 15, 2 * time.Second, "ends it at once|ended at once signal=terminated"},
		{"start that hangs, one signal", hangs, ready, []any{term}, exitFailed, time.Second + grace, "ends it at once|does not stop: ended at once within=1m30s"},
		{"start that hangs, fatal error", hangs, ready, []any{eio}, exitFailed, time.Second + fatalGrace, "FATAL: " + eio.Error() + "|does not stop: ended at once within=10s"},
		{"restart", ready, drains, []any{again{}}, startAgain, time.Second + againGrace, ""},
		{"restart, and a signal in it", ready, drains, []any{again{}, term}, exitOK, 6 * time.Second, "ends it at once"},
		{"restart, and two signals in it", ready, drains, []any{again{}, term, term}, 128 + 15, 3 * time.Second, "ends it at once|ended at once signal=terminated"},
		{"restart that hangs, and a signal in it", ready, hangs, []any{again{}, term}, exitFailed, 2*time.Second + grace, "ends it at once|does not stop: ended at once within=1m30s"},
		{"restart that hangs, fatal error, signal", ready, hangs, []any{again{}, eio, term}, exitFailed, 3 * time.Second, "FATAL: " + eio.Error() + "|ended at once signal=terminated"},
		{"fatal error of a start", canceled, hangs, []any{eio}, exitFailed, time.Second, "FATAL: " + eio.Error()},
	} {
		synctest.Test(t, func(t *testing.T) {
			hang := make(chan struct{})
			signals, fatal, restart := make(chan os.Signal, 2), make(chan error, 1), make(chan struct{}, 1)
			var out bytes.Buffer
			s := service{open: c.open(hang), close: c.close(hang), log: logline.New(&out, false, time.Now), signals: signals, fatal: fatal, restart: restart, grace: grace}
			began := time.Now()
			code := make(chan int, 1)
			go func() { code <- s.run() }()
			for _, e := range c.events {
				time.Sleep(time.Second) // of the bubble's clock
				switch e := e.(type) {
				case os.Signal:
					signals <- e
				case error:
					fatal <- e
				case again:
					restart <- struct{}{}
				}
			}
			if got, took := <-code, time.Since(began); got != c.code || took != c.after {
				t.Errorf("%s: exit code %d after %s, want %d after %s", c.name, got, took, c.code, c.after)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			want := strings.Split(c.lines, "|")
			if len(lines) != len(want) {
				t.Fatalf("%s: %q", c.name, lines)
			}
			for i, line := range lines {
				if !strings.HasSuffix(line, want[i]) && !strings.Contains(line, want[i]+" signal=") {
					t.Errorf("%s: line %q does not end with %q", c.name, line, want[i])
				}
			}
			close(hang)
		})
	}
}

// Who has set the collector or the processors himself keeps what he asked for.
func TestTune(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for environ, set := range map[string]struct{ collector, scheduler bool }{
		"PATH=/bin": {true, true}, "GOGC=200": {false, true}, "GOMEMLIMIT=1GiB": {false, true}, "GOMAXPROCS=2": {true, false}, "GOGCTRACE=1": {true, true},
	} {
		before := runtime.GOMAXPROCS(0)
		tune([]string{environ})(node.Tuning{Percent: 77, Extra: true})
		collector, scheduler := debug.SetGCPercent(100) == 77, runtime.GOMAXPROCS(0) == before+1
		if collector != set.collector || scheduler != set.scheduler {
			t.Errorf("%s: the collector was set %v, want %v; the scheduler %v, want %v", environ, collector, set.collector, scheduler, set.scheduler)
		}
		processors.Extra(false)
	}
}
