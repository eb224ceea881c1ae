// Command bench measures Queen: `go run ./bench`, or `make bench`. It prints one line for each number of the contract that this version
// can be held to, with its target, its ratio and how to make it again, and keeps the result under bench/results.
//
// It is also the processes that a measurement needs beside the broker (roles.go), so that nothing but the go tool is needed. What is
// measured, and how, is in package measure; what the lines mean is in README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"queen/bench/machine"
	"queen/bench/measure"
	"queen/bench/report"
)

// wholeLimit ends a run that hangs.
const wholeLimit = 3 * time.Hour

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		if role := roles()[args[0]]; role != nil {
			return asRole(ctx, args[0], role, args[1:])
		}
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, wholeLimit)
	defer cancel()
	return bench(ctx, o)
}

// options are the command line.
type options struct {
	sizes   measure.Sizes
	title   string
	only    []string
	work    string
	results string
	profile bool
	keep    string
}

// quick and full are the two profiles.
func quick() measure.Sizes {
	return measure.Sizes{Runs: 3, BackfillMB: 128, Records: []int{1, 10, 100}, Partitions: []int{10, 100_000}, TargetMB: 128, Push: 2 * time.Second,
		Connections: 16, Rate: 20_000, BusyMB: 300, MemoryMB: 128, IdleQueues: 10_000, IdleInterval: 5 * time.Second, RestartMB: 1000}
}

func full() measure.Sizes {
	s := quick()
	s.BackfillMB, s.Push, s.BusyMB, s.MemoryMB, s.IdleInterval, s.RestartMB = 2000, 10*time.Second, 2000, 2000, 20*time.Second, 10_000
	return s
}

func parse(args []string) (options, error) {
	o := options{sizes: quick(), title: "quick profile: sizes below those that the targets are stated for"}
	for _, a := range args {
		if a == "-full" || a == "--full" {
			o.sizes, o.title = full(), "full profile"
		}
	}
	s := &o.sizes
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.Bool("full", false, "the sizes that the targets are stated for: 2 GB of backfill, 10 GB of log")
	only := f.String("only", strings.Join(measure.Kinds(), ","), "what to measure, with commas between")
	list := map[string]*[]int{"records": &s.Records, "partitions": &s.Partitions}
	f.Func("records", "records an append of a backfill, with commas between", ints(list["records"]))
	f.Func("partitions", "partitions of a backfill, with commas between", ints(list["partitions"]))
	f.IntVar(&s.Runs, "runs", s.Runs, "how often each is measured; the median counts")
	f.IntVar(&s.BackfillMB, "mb", s.BackfillMB, "payload of a backfill, MB")
	f.IntVar(&s.TargetMB, "target-mb", s.TargetMB, "QUEEN_S3_TARGET_MB of a backfill")
	f.DurationVar(&s.Push, "push", s.Push, "how long pushes are measured")
	f.IntVar(&s.Connections, "connections", s.Connections, "of a load of pushes")
	f.IntVar(&s.Rate, "rate", s.Rate, "messages a second where something else is measured under pushes")
	f.IntVar(&s.BusyMB, "busy-mb", s.BusyMB, "payload of the backlog that is mirrored while pushes are timed, MB")
	f.IntVar(&s.MemoryMB, "memory-mb", s.MemoryMB, "payload of the log of the memory measurements, MB")
	f.IntVar(&s.IdleQueues, "queues", s.IdleQueues, "idle queues")
	f.DurationVar(&s.IdleInterval, "idle", s.IdleInterval, "each of three intervals in which idle queues are watched")
	f.IntVar(&s.RestartMB, "restart-mb", s.RestartMB, "payload of the log of a restart, MB")
	f.StringVar(&o.work, "work", os.TempDir(), "a folder on the disk to measure on")
	f.StringVar(&o.results, "results", "bench/results", "where results are kept; empty keeps none")
	f.BoolVar(&o.profile, "profile", false, "take processor profiles of backfills and pushes, and say where the time went")
	f.StringVar(&o.keep, "profiles", "", "-profile, and keep the profiles in this folder")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("no argument %q", f.Arg(0))
	}
	o.only = strings.Split(*only, ",")
	return o, check(o)
}

func check(o options) error {
	s := o.sizes
	for _, n := range []int{s.Runs, s.BackfillMB, s.TargetMB, s.Connections, s.Rate, s.BusyMB, s.MemoryMB, s.IdleQueues, s.RestartMB, int(s.Push), int(s.IdleInterval)} {
		if n < 1 {
			return errors.New("every size must be at least 1")
		}
	}
	return nil
}

// ints reads numbers with commas between.
func ints(into *[]int) func(string) error {
	return func(text string) error {
		var out []int
		for _, part := range strings.Split(text, ",") {
			n, err := strconv.Atoi(part)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is no number above 0", part)
			}
			out = append(out, n)
		}
		*into = out
		return nil
	}
}

func bench(ctx context.Context, o options) (err error) {
	if err := machine.OnDisk(o.work); err != nil {
		return err
	}
	work, err := os.MkdirTemp(o.work, "queen-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	m, err := machine.Read(ctx, ".")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	queen := filepath.Join(work, "queen")
	if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", queen, "./cmd/queen").CombinedOutput(); err != nil {
		return fmt.Errorf("build queen: %w\n%s", err, out)
	}
	r := &report.Report{Machine: m, Began: time.Now(), Title: o.title}
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
	}
	say("%s; load %s", m, machine.Load())
	b := &measure.Bench{Self: self, Queen: queen, Work: work, Sizes: o.sizes, Report: r, Say: say}
	switch {
	case o.keep != "":
		b.Profile = o.keep
		if err := os.MkdirAll(o.keep, 0o755); err != nil {
			return err
		}
	case o.profile:
		b.Profile = work
	}
	var failed error
	for _, kind := range o.only {
		if err := b.Run(ctx, kind); err != nil {
			failed = errors.Join(failed, err) // what was measured so far is still worth its line
			say("%v", err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed, finish(r, o))
}

func finish(r *report.Report, o options) error {
	if err := r.Write(os.Stdout); err != nil || o.results == "" || len(r.Lines()) == 0 {
		return err
	}
	path, err := r.Save(o.results)
	if err == nil {
		fmt.Println("\nkept in", path)
	}
	return err
}
