package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"

	"queen/config"
	"queen/internal/logline"
	"queen/internal/processors"
	"queen/node"
)

// How long a node may take to close. What is not flushed then is in the raft log, and the next start replays it.
const (
	fatalGrace = 10 * time.Second // after an error that it cannot go on from: its disk may not answer any more
	againGrace = 2 * time.Second  // for the sink before a restart inside the process: its leases wait out their TTL
	stopGrace  = time.Minute      // after a signal, beside the grace of the sink
)

// serve runs a node until a signal or an error ends it.
func serve(environ []string, errs io.Writer) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)

	now, err := clock(environ)
	if err != nil {
		return refuse(logline.New(errs, false, time.Now), err, exitConfig)
	}
	c, err := config.FromEnv(environ)
	log := logline.New(errs, c.LogJSON, now)
	if err != nil {
		return refuse(log, err, exitConfig)
	}
	grace := stopGrace
	if c.Sink != nil {
		grace += c.Sink.ShutdownGrace
	}
	for {
		fatal, restart := make(chan error, 1), make(chan struct{}, 1)
		n, err := node.New(node.Options{Config: c, Now: now, Log: log, Abort: abort, Memory: memory(), Tune: tune(environ), Fatal: func(err error) {
			select {
			case fatal <- err:
			default: // the first one is what matters
			}
		}, Restart: func() {
			select {
			case restart <- struct{}{}:
			default:
			}
		}})
		if err != nil {
			return refuse(log, err, exitFailed)
		}
		code := service{open: n.Open, close: n.Close, log: log, signals: signals, fatal: fatal, restart: restart, grace: grace}.run()
		if code != startAgain {
			return code
		}
	}
}

// memory is how many bytes the process may use: the limit of its container, or what the machine has; 0 when neither is known.
func memory() uint64 {
	n, err := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
	if err != nil {
		return 0
	}
	return n
}

// tune sets Go's runtime. Who has set the collector or the processors himself keeps what he asked for.
func tune(environ []string) func(node.Tuning) {
	collector, scheduler := true, true
	for _, set := range environ {
		collector = collector && !strings.HasPrefix(set, "GOGC=") && !strings.HasPrefix(set, "GOMEMLIMIT=")
		scheduler = scheduler && !strings.HasPrefix(set, "GOMAXPROCS=")
	}
	return func(t node.Tuning) {
		if collector {
			debug.SetGCPercent(t.Percent)
		}
		if scheduler {
			processors.Extra(t.Extra)
		}
	}
}

// service is a node on its way from start to end.
//
//	opening -> running -> stopping
//
// The first signal stops it; one more, or one after a fatal error, ends the process at once. So does a close that takes too long:
// a disk that does not answer holds whoever waits for it, and a process that hangs is neither running nor restarted.
type service struct {
	open    func(context.Context) error // when it fails, nothing stays open
	close   func(context.Context) error // once open has returned without an error
	log     zerolog.Logger
	signals <-chan os.Signal
	fatal   <-chan error    // holds the first error after which only a restart is safe
	restart <-chan struct{} // holds one when the node has to be closed and opened again; nil: never
	grace   time.Duration   // of a close after a signal
	first   func(os.Signal) // a close without a signal goes on after one; nil: that one is the second
}

// run returns the exit code.
func (s service) run() int {
	opening, cancel := context.WithCancel(context.Background())
	defer cancel()
	opened := make(chan error, 1)
	go func() { opened <- s.open(opening) }()
	select {
	case err := <-opened:
		if err != nil {
			return refuse(s.log, err, exitFailed)
		}
	case sig := <-s.signals:
		cancel()
		return s.stop(sig, func() error { return s.ignoreCanceled(<-opened) })
	case err := <-s.fatal:
		cancel()
		return s.fail(err, func(ctx context.Context) error {
			if <-opened != nil {
				return nil // it says what the fatal error says
			}
			return s.close(ctx)
		})
	}
	select {
	case <-s.restart:
		return s.again()
	case err := <-s.fatal:
		return s.fail(err, s.close)
	case sig := <-s.signals:
		return s.stop(sig, func() error { return s.close(context.Background()) })
	}
}

// startAgain is no exit code: the process goes on with another node on the same folder.
const startAgain = -1

// again closes a node whose state a snapshot replaces. Nothing that it holds is worth a wait, unless a signal comes meanwhile: then this is the stop,
// and the sink has its whole grace.
func (s service) again() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	short := time.AfterFunc(againGrace, func() { cancel(context.DeadlineExceeded) })
	defer short.Stop()
	stopping := false
	s.first = func(sig os.Signal) {
		short.Stop()
		stopping = true
		s.saySignal(sig)
	}
	code := s.end(func() error { return s.close(ctx) }, s.grace, exitOK)
	if code != exitOK || stopping {
		return code
	}
	return startAgain
}

// ignoreCanceled closes a node whose start a signal interrupted.
func (s service) ignoreCanceled(err error) error {
	if err == nil {
		return s.close(context.Background())
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// refuse ends a boot with one line.
func refuse(log zerolog.Logger, err error, code int) int {
	boot := logline.Named(log, "boot")
	boot.Error().Msg("FATAL: " + err.Error())
	return code
}

// stop closes after a signal.
func (s service) stop(first os.Signal, closing func() error) int {
	s.saySignal(first)
	return s.end(closing, s.grace, exitOK)
}

func (s service) saySignal(first os.Signal) {
	queen := logline.Named(s.log, "queen")
	queen.Info().Str("signal", first.String()).Msg("stopping; a second signal ends it at once")
}

// fail closes after a fatal error.
func (s service) fail(err error, closing func(context.Context) error) int {
	s.sayFatal(err)
	ctx, cancel := context.WithTimeout(context.Background(), fatalGrace/2) // then the sink is cut off, and the broker closes
	defer cancel()
	return s.end(func() error { return closing(ctx) }, fatalGrace, exitFailed)
}

func (s service) sayFatal(err error) {
	queen := logline.Named(s.log, "queen")
	queen.Error().Msg("FATAL: " + err.Error())
}

// end waits for the close, within its limit, and returns the exit code: at least the one given.
func (s service) end(closing func() error, limit time.Duration, code int) int {
	queen := logline.Named(s.log, "queen")
	done := make(chan error, 1)
	go func() { done <- closing() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case err := <-done:
			return max(code, stopped(s.log, err))
		case err := <-s.fatal:
			s.sayFatal(err)
			code, limit = exitFailed, min(limit, fatalGrace)
			timer.Reset(limit)
		case <-timer.C:
			queen.Error().Str("within", limit.String()).Msg("the node does not stop: ended at once")
			return exitFailed
		case second := <-s.signals:
			if s.first != nil && code == exitOK {
				s.first(second)
				s.first = nil
				timer.Reset(limit)
				continue
			}
			queen.Warn().Str("signal", second.String()).Msg("ended at once")
			if sig, ok := second.(syscall.Signal); ok && code == exitOK {
				return 128 + int(sig)
			}
			return exitFailed
		}
	}
}

func stopped(log zerolog.Logger, err error) int {
	if err != nil {
		queen := logline.Named(log, "queen")
		queen.Error().Msg(fmt.Sprintf("stop: %v", err))
		return exitFailed
	}
	return exitOK
}

// abort ends the process by SIGABRT, as a crash would: nothing is flushed, no deferred call runs (contract S15).
func abort() {
	debug.SetTraceback("crash") // or the runtime would turn the signal into exit code 2
	signal.Reset(syscall.SIGABRT)
	if err := syscall.Kill(os.Getpid(), syscall.SIGABRT); err != nil {
		os.Exit(128 + int(syscall.SIGABRT))
	}
	select {}
}
