package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"queen/config"
	"queen/internal/logline"
	"queen/node"
)

// fatalGrace is how long a node may take to close after an error that it cannot go on from.
const fatalGrace = 10 * time.Second

// serve runs a node until a signal ends it. A second signal ends the process at once.
func serve(environ []string, errs io.Writer) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)

	c, err := config.FromEnv(environ)
	log := logline.New(errs, c.LogJSON, time.Now)
	if err != nil {
		return refuse(log, err, exitConfig)
	}
	fatal := make(chan error, 1)
	n, err := node.New(node.Options{Config: c, Now: time.Now, Log: log, Abort: abort, Fatal: func(err error) {
		select {
		case fatal <- err:
		default: // the first one is what matters
		}
	}})
	if err != nil {
		return refuse(log, err, exitFailed)
	}
	opening, cancel := context.WithCancel(context.Background())
	opened := make(chan error, 1)
	go func() { opened <- n.Open(opening) }()
	defer cancel()
	select {
	case err := <-opened:
		if err != nil {
			return refuse(log, err, exitFailed)
		}
	case s := <-signals:
		cancel()
		return stop(log, s, signals, func() error { return ignoreCanceled(<-opened, n) })
	}
	select {
	case err := <-fatal:
		boot := logline.Named(log, "queen")
		boot.Error().Msg("FATAL: " + err.Error())
		patience, cancel := context.WithTimeout(context.Background(), fatalGrace)
		defer cancel()
		return max(exitFailed, stopped(log, n.Close(patience)))
	case s := <-signals:
		return stop(log, s, signals, func() error { return n.Close(context.Background()) })
	}
}

// ignoreCanceled closes a node whose start a signal interrupted.
func ignoreCanceled(err error, n *node.Node) error {
	if err == nil {
		return n.Close(context.Background())
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

// stop closes while it listens for a second signal.
func stop(log zerolog.Logger, first os.Signal, signals <-chan os.Signal, closing func() error) int {
	queen := logline.Named(log, "queen")
	queen.Info().Str("signal", first.String()).Msg("stopping; a second signal ends it at once")
	done := make(chan error, 1)
	go func() { done <- closing() }()
	select {
	case err := <-done:
		return stopped(log, err)
	case second := <-signals:
		queen.Warn().Str("signal", second.String()).Msg("ended at once")
		if s, ok := second.(syscall.Signal); ok {
			return 128 + int(s)
		}
		return exitFailed
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
