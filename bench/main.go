// Command bench measures Queen: `go run ./bench`, or `make bench`. It prints every number of the contract, with its target, its ratio and how
// to make it again, or what it needs before it can be measured.
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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"queen/bench/machine"
	"queen/bench/measure"
	"queen/bench/procfs"
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
	profile string
}

// quick and full are the two profiles.
func quick() measure.Sizes {
	return measure.Sizes{Runs: 3, BackfillMB: 100, Records: []int{1, 10, 100}, Partitions: []int{10, 100_000}, TargetMB: 128, Push: 2 * time.Second,
		Connections: 16, Rate: 20_000, BusyMB: 300, MemoryMB: 100, Appends: []int{100, 1}, Budgets: []int{64, 128, 512}, Targets: []int{128, 2048},
		MemoryPush: time.Second, IdleQueues: 10_000, IdleInterval: 10 * time.Second, Lag: 10 * time.Second, RestartMB: 1000}
}

func full() measure.Sizes {
	s := quick()
	s.BackfillMB, s.BusyMB, s.MemoryMB, s.RestartMB = 2000, 2000, 2000, 10_000
	s.Push, s.MemoryPush, s.IdleInterval, s.Lag = 10*time.Second, 5*time.Second, 30*time.Second, 30*time.Second
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
	f.Func("records", "records an append of a backfill, with commas between", ints(&s.Records))
	f.Func("partitions", "partitions of a backfill, with commas between", ints(&s.Partitions))
	f.Func("appends", "records an append of the log of the memory measurements, with commas between", ints(&s.Appends))
	f.Func("budgets", "QUEEN_S3_MEMORY_MB of the memory measurements, with commas between", ints(&s.Budgets))
	f.Func("targets", "QUEEN_S3_TARGET_MB of the memory measurements, with commas between", ints(&s.Targets))
	f.IntVar(&s.Runs, "runs", s.Runs, "how often each is measured; the median counts")
	f.IntVar(&s.BackfillMB, "mb", s.BackfillMB, "payload of a backfill, MB")
	f.IntVar(&s.TargetMB, "target-mb", s.TargetMB, "QUEEN_S3_TARGET_MB of a backfill")
	f.DurationVar(&s.Push, "push", s.Push, "how long pushes are measured")
	f.IntVar(&s.Connections, "connections", s.Connections, "of a load of pushes")
	f.IntVar(&s.Rate, "rate", s.Rate, "messages a second where something else is measured under pushes")
	f.IntVar(&s.BusyMB, "busy-mb", s.BusyMB, "payload of the backlog that is mirrored while pushes are timed, MB")
	f.IntVar(&s.MemoryMB, "memory-mb", s.MemoryMB, "payload of the log of the memory measurements, MB")
	f.IntVar(&s.IdleQueues, "queues", s.IdleQueues, "idle queues")
	f.DurationVar(&s.MemoryPush, "memory-push", s.MemoryPush, "how long pushes go on while memory is measured")
	f.DurationVar(&s.IdleInterval, "idle", s.IdleInterval, "how long idle queues are watched")
	f.DurationVar(&s.Lag, "lag", s.Lag, "how long lags are watched")
	f.IntVar(&s.RestartMB, "restart-mb", s.RestartMB, "payload of the log of a restart, MB")
	f.StringVar(&o.work, "work", os.TempDir(), "a folder on the disk to measure on")
	f.StringVar(&o.results, "results", "", "a folder to keep the results in, as bench/results; none are kept without")
	f.StringVar(&o.profile, "profile", "", "take processor profiles of backfills and pushes into this folder, and say where the time went")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("no argument %q", f.Arg(0))
	}
	o.only = strings.Split(*only, ",")
	for _, kind := range o.only {
		if !slices.Contains(measure.Kinds(), kind) {
			return o, fmt.Errorf("-only %s: there are %s", kind, strings.Join(measure.Kinds(), ", "))
		}
	}
	return o, check(o)
}

func check(o options) error {
	s := o.sizes
	for _, n := range []int{s.Runs, s.BackfillMB, s.TargetMB, s.Connections, s.Rate, s.BusyMB, s.MemoryMB, s.IdleQueues, s.RestartMB,
		int(s.Push), int(s.MemoryPush), int(s.IdleInterval), int(s.Lag / time.Second)} {
		if n < 1 {
			return errors.New("every size must be at least 1, and lags be watched for a second")
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
	load := machine.Load() // before anything of ours runs
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
	r := &report.Report{Machine: m, Began: time.Now(), Title: o.title, Load: load, Taken: o.only}
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
	}
	say("%s; load %s", m, load)
	if warning := r.Warning(); warning != "" {
		say("%s", warning)
	}
	b := &measure.Bench{Self: self, Queen: queen, Work: work, Sizes: o.sizes, Report: r, Say: say, Profile: o.profile}
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o755); err != nil {
			return err
		}
	}
	return errors.Join(take(ctx, b, o.only), finish(r, o))
}

// take takes the measurements one after the other. When one fails, what the others say is still worth its lines.
func take(ctx context.Context, b *measure.Bench, kinds []string) (failed error) {
	for _, kind := range kinds {
		began, used := time.Now(), procfs.Ended()
		if err := b.Run(ctx, kind); err != nil {
			failed = errors.Join(failed, err)
			b.Report.Failed = append(b.Report.Failed, kind)
			b.Say("%v", err)
		}
		b.Say("%s took %.0f s, and %.0f s of processor time of all its processes", kind, time.Since(began).Seconds(), (procfs.Ended() - used).Seconds())
		if ctx.Err() != nil {
			break
		}
	}
	return failed
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
