package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"queen/bench/child"
	"queen/bench/fill"
	"queen/bench/load"
	"queen/bench/numbers"
	"queen/bench/report"
)

// pushTarget is messages a second of the broker's processor time (contract 4); busyTarget is how much slower a push may be at the 99th
// percentile with the sink at full speed.
const (
	pushTarget = 250_000
	busyTarget = 1.5
)

// manyPartitions is how many partitions are pushed to in all.
const manyPartitions = 1000

// pushWarm is pushed before anything is measured.
const pushWarm = time.Second

func (b *Bench) pushes(ctx context.Context) error {
	for _, spread := range []int{1, pushBatch} {
		var all []load.Result
		var notes []string
		for run := range b.Sizes.Runs {
			r, profile, err := b.pushOnce(ctx, spread, run)
			if err != nil {
				return err
			}
			all = append(all, r)
			if notes, err = b.summary(ctx, profile); err != nil {
				return err
			}
		}
		if err := b.pushLine(all, spread, notes); err != nil {
			return err
		}
	}
	return nil
}

// loadArgs are the arguments of a load process.
func (b *Bench) loadArgs(q *broker, spread, rate, run int, warm, duration time.Duration) []string {
	return []string{"load", "-address", q.address(), "-pid", strconv.Itoa(q.Pid()), "-connections", strconv.Itoa(b.Sizes.Connections),
		"-batch", strconv.Itoa(pushBatch), "-spread", strconv.Itoa(spread), "-partitions", strconv.Itoa(manyPartitions),
		"-payload", strconv.Itoa(pushPayload), "-rate", strconv.Itoa(rate), "-warm", warm.String(), "-duration", duration.String(), "-run", strconv.Itoa(run)}
}

// pushOnce measures a fresh broker without a sink.
func (b *Bench) pushOnce(ctx context.Context, spread, run int) (r load.Result, profile string, err error) {
	dir := b.folder("data")
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	q, err := b.startReady(ctx, dir, nil)
	if err != nil {
		return r, "", err
	}
	defer q.Kill()
	q.profiling(true)
	if err := b.helper(ctx, &r, b.loadArgs(q, spread, 0, run, pushWarm, b.Sizes.Push)...); err != nil {
		return r, "", errors.Join(err, fmt.Errorf("the broker's last lines: %q", tail(q.Lines(), 5)))
	}
	q.profiling(false)
	return r, q.file, q.Stop(stopLimit)
}

func (b *Bench) pushLine(all []load.Result, spread int, notes []string) error {
	per := column(all, load.Result.PerCPU)
	median := numbers.Median(per)
	l := report.Line{What: "push, batches of 100 to one partition", Target: "-", Measured: numbers.Count(median) + " msg/CPU-s", Ratio: "-", Result: report.Shown}
	if spread == 1 {
		l.Row, l.Target, l.Ratio = "push.cpu", ">= "+numbers.Count(pushTarget)+" msg/CPU-s", fmt.Sprintf("%.2f", median/pushTarget)
		l.Result = report.AtLeast(median, pushTarget, true)
	} else {
		l.Row, l.What = "push.spread", fmt.Sprintf("push, batches of 100 to %d partitions", spread)
	}
	l.Notes = append([]string{
		fmt.Sprintf("%d bytes a message, transaction ids (dedup on), fsync on, %d connections, %s measured, %d partitions in all", pushPayload,
			b.Sizes.Connections, b.Sizes.Push, manyPartitions),
		"msg/CPU-s of the broker: " + numbers.List(per, 0),
		"msg/s: " + numbers.List(column(all, load.Result.PerSecond), 0),
		"p50 ms: " + numbers.List(column(all, millisOf(func(r load.Result) time.Duration { return r.P50 })), 1) +
			"; p99 ms: " + numbers.List(column(all, millisOf(func(r load.Result) time.Duration { return r.P99 })), 1)}, notes...)
	return b.add(l, "-only push -push", b.Sizes.Push.String(), "-connections", strconv.Itoa(b.Sizes.Connections))
}

func millisOf(of func(load.Result) time.Duration) func(load.Result) float64 {
	return func(r load.Result) float64 { return float64(of(r).Microseconds()) / 1000 }
}

// busy times pushes at a fixed rate while the sink mirrors a backlog as fast as it can, and without a sink.
func (b *Bench) busy(ctx context.Context) (err error) {
	s, err := b.store(ctx)
	if err != nil {
		return err
	}
	defer s.Kill()
	dir, records, err := b.log(ctx, b.Sizes.BusyMB, 100, 10)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var with, without []load.Result
	for run := range b.Sizes.Runs {
		r, err := b.besideSink(ctx, s, dir, records, run)
		if err != nil {
			return err
		}
		with = append(with, r)
		if r, err = b.alone(ctx, dir, run, r.Wall); err != nil {
			return err
		}
		without = append(without, r)
	}
	return b.busyLine(with, without)
}

func (b *Bench) busyLine(with, without []load.Result) error {
	p99 := millisOf(func(r load.Result) time.Duration { return r.P99 })
	p50 := millisOf(func(r load.Result) time.Duration { return r.P50 })
	on, off := numbers.Median(column(with, p99)), numbers.Median(column(without, p99))
	ratio := numbers.Ratio(on, off)
	return b.add(report.Line{Row: "push.p99", What: "push p99, sink at full speed against none", Target: fmt.Sprintf("<= %.2f", busyTarget),
		Measured: fmt.Sprintf("%.1f ms against %.1f ms", on, off), Ratio: fmt.Sprintf("%.2f", ratio), Result: report.AtMost(ratio, busyTarget, b.Sizes.BusyMB >= statedMB),
		Notes: []string{
			fmt.Sprintf("%s msg/s in batches of 100 to one partition, each push counted from when it was due; the sink mirrors %d MB meanwhile",
				numbers.Count(float64(b.Sizes.Rate)), b.Sizes.BusyMB),
			"p99 ms with: " + numbers.List(column(with, p99), 1) + "; without: " + numbers.List(column(without, p99), 1),
			fmt.Sprintf("pushes timed with: %s; without: %s", numbers.List(column(with, pushesOf), 0), numbers.List(column(without, pushesOf), 0)),
			"p50 ms with: " + numbers.List(column(with, p50), 1) + "; without: " + numbers.List(column(without, p50), 1),
			"s measured: " + numbers.List(column(with, func(r load.Result) float64 { return r.Wall.Seconds() }), 1)}},
		"-only latency -rate", strconv.Itoa(b.Sizes.Rate), "-busy-mb", strconv.Itoa(b.Sizes.BusyMB), "-connections", strconv.Itoa(b.Sizes.Connections))
}

func pushesOf(r load.Result) float64 { return float64(r.Pushes) }

// busyWarm is short: the backlog does not wait.
const busyWarm = 200 * time.Millisecond

// besideSink pushes from the sink's start until the backlog is mirrored.
func (b *Bench) besideSink(ctx context.Context, s *store, dir string, records int64, run int) (r load.Result, err error) {
	settings := with(sinkOn(s, "busy"+strconv.Itoa(run)), "QUEEN_S3_TARGET_MB", strconv.Itoa(b.Sizes.TargetMB))
	q, err := b.startReady(ctx, dir, settings)
	if err != nil {
		return r, err
	}
	defer q.Kill()
	p, err := child.Start(ctx, b.Self, b.loadArgs(q, 1, b.Sizes.Rate, 2*run+1, busyWarm, b.backfillLimit()), environ(nil), nil)
	if err != nil {
		return r, err
	}
	defer p.Kill()
	if _, err := mirror(ctx, q, fill.Queue, records, b.backfillLimit()); err != nil {
		return r, err
	}
	p.Signal(syscall.SIGTERM)
	if err := p.Result(&r); err != nil {
		return r, err
	}
	return r, q.Stop(stopLimit)
}

// alone pushes the same to the same folder without a sink, for as long.
func (b *Bench) alone(ctx context.Context, dir string, run int, duration time.Duration) (r load.Result, err error) {
	q, err := b.startReady(ctx, dir, nil)
	if err != nil {
		return r, err
	}
	defer q.Kill()
	if err := b.helper(ctx, &r, b.loadArgs(q, 1, b.Sizes.Rate, 2*run+2, busyWarm, duration)...); err != nil {
		return r, err
	}
	return r, q.Stop(stopLimit)
}
