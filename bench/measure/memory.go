package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"queen/bench/child"
	"queen/bench/fill"
	"queen/bench/load"
	"queen/bench/numbers"
	"queen/bench/procfs"
	"queen/bench/report"
)

// memorySlack is what the sink may take beside what it was given (contract 4): 64 MB, and some times the largest record.
func memorySlack(format string) int {
	if format == "parquet" {
		return 64<<20 + 8*backfillPayload
	}
	return 64<<20 + 3*backfillPayload
}

// defaultMemory and defaultTarget are the product's own settings, MiB.
const (
	defaultMemory = 512
	defaultTarget = 128
)

// sampleEvery is the distance of two looks at a process's memory.
const sampleEvery = 10 * time.Millisecond

// restWait is how long a process is still watched when its work is done.
const restWait = 500 * time.Millisecond

// memoryShape is one memory measurement.
type memoryShape struct {
	perAppend, partitions int
	pushing               bool
	budget, target        int // QUEEN_S3_MEMORY_MB, QUEEN_S3_TARGET_MB
}

// partitionsOf is how many partitions the log of a memory measurement has: the smallest appends go with the most partitions, the hardest case.
func partitionsOf(perAppend int) int {
	if perAppend < 10 {
		return 100_000
	}
	return 10
}

// memoryShapes are those of one log without or under pushes.
func (b *Bench) memoryShapes(perAppend int, pushing bool) []memoryShape {
	var out []memoryShape
	for _, budget := range b.Sizes.Budgets {
		for _, target := range b.Sizes.Targets {
			out = append(out, memoryShape{perAppend, partitionsOf(perAppend), pushing, budget, target})
		}
	}
	return out
}

func (b *Bench) memory(ctx context.Context) error {
	s, err := b.store(ctx)
	if err != nil {
		return err
	}
	defer s.Kill()
	for _, perAppend := range b.Sizes.Appends {
		if err := b.memoryOf(ctx, s, perAppend); err != nil {
			return fmt.Errorf("appends of %d: %w", perAppend, err)
		}
	}
	return nil
}

// watched is the memory of one process.
type watched struct {
	high    procfs.Memory
	windows mirrored
}

// memoryOf takes all measurements on one log. The broker without a sink is the same for all budgets and window sizes: it is measured as
// often as each of them, once.
func (b *Bench) memoryOf(ctx context.Context, s *store, perAppend int) (err error) {
	dir, records, err := b.log(ctx, b.Sizes.MemoryMB, perAppend, partitionsOf(perAppend))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := b.warmLog(ctx, dir); err != nil {
		return err
	}
	run := 0
	for _, pushing := range []bool{false, true} {
		shapes := b.memoryShapes(perAppend, pushing)
		on, off := make([][]watched, len(shapes)), []watched(nil)
		for range b.Sizes.Runs {
			run++
			one, err := b.watch(ctx, dir, nil, 0, pushing, run)
			if err != nil {
				return err
			}
			off = append(off, one)
			for i, m := range shapes {
				run++
				if one, err = b.watch(ctx, dir, with(m.settings(s, run), "QUEEN_S3_FORMAT", b.format), records, pushing, run); err != nil {
					return fmt.Errorf("%+v: %w", m, err)
				}
				on[i] = append(on[i], one)
			}
		}
		for i, m := range shapes {
			if err := b.memoryLine(m, on[i], off, with(m.settings(s, run), "QUEEN_S3_FORMAT", b.format)); err != nil {
				return err
			}
		}
	}
	return nil
}

// warmLog opens and closes a folder once: the first start after a log was made has work that later ones do not.
func (b *Bench) warmLog(ctx context.Context, dir string) error {
	q, err := b.startReady(ctx, dir, nil)
	if err != nil {
		return err
	}
	defer q.Kill()
	return q.Stop(stopLimit)
}

// settings are those of one run. Each has a sink and, under pushes, a pushed queue of its own: what earlier runs pushed is not its business.
func (m memoryShape) settings(s *store, run int) map[string]string {
	name := fmt.Sprintf("memory%d", run)
	out := with(sinkOn(s, name), "QUEEN_S3_TARGET_MB", strconv.Itoa(m.target), "QUEEN_S3_MEMORY_MB", strconv.Itoa(m.budget))
	if m.pushing {
		out["QUEEN_S3_QUEUES"], out["QUEEN_S3_MAX_WINDOW_MS"] = fill.Queue+","+pushedIn(run), "3000"
	}
	return out
}

// pushedIn is the queue that is pushed to in a run.
func pushedIn(run int) string { return fmt.Sprintf("%s-%d", load.Queue, run) }

// watch starts a broker on a folder, lets it do its work, and returns the most memory it had.
func (b *Bench) watch(ctx context.Context, dir string, settings map[string]string, records int64, pushing bool, run int) (w watched, err error) {
	q, err := b.start(ctx, dir, settings)
	if err != nil {
		return w, err
	}
	defer q.Kill()
	sampling, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan procfs.Memory, 1)
	go func() { done <- procfs.HighWater(sampling, q.Pid(), sampleEvery) }()
	if err := q.ready(ctx); err != nil {
		return w, err
	}
	var p *child.Process
	if pushing {
		if p, err = child.Start(ctx, b.Self, append(b.loadArgs(q, 1, b.Sizes.Rate, run, 0, b.Sizes.MemoryPush), "-queue", pushedIn(run)), environ(nil), nil); err != nil {
			return w, err
		}
		defer p.Kill()
	}
	if records > 0 {
		if w.windows, err = mirror(ctx, q, fill.Queue, records, b.backfillLimit()); err != nil {
			return w, err
		}
	}
	if p != nil {
		var r load.Result
		if err := p.Result(&r); err != nil {
			return w, err
		}
	}
	if err := sleep(ctx, restWait); err != nil {
		return w, err
	}
	stop()
	w.high = <-done
	return w, q.Stop(stopLimit)
}

func (b *Bench) memoryLine(m memoryShape, on, off []watched, settings map[string]string) error {
	anon := func(w watched) float64 { return float64(w.high.Anon) / (1 << 20) }
	high := func(w watched) float64 { return float64(w.high.High) / (1 << 20) }
	extra := numbers.Median(column(on, anon)) - numbers.Median(column(off, anon))
	most := float64(m.budget<<20+memorySlack(b.format)) / (1 << 20)
	what := map[string]string{"jsonl": "memory, ", "parquet": "memory, Parquet, "}[b.format] + fmt.Sprintf("appends of %d, MEMORY_MB=%d TARGET_MB=%d", m.perAppend, m.budget, m.target)
	var notes []string
	if m.pushing {
		what += ", under pushes"
		notes = append(notes, fmt.Sprintf("%s msg/s are pushed meanwhile for %s to another queue that is mirrored too, in both processes", numbers.Count(float64(b.Sizes.Rate)), b.Sizes.MemoryPush))
	}
	notes = append(notes,
		"RssAnon high-water, MiB: with the sink "+numbers.List(column(on, anon), 0)+"; without "+numbers.List(column(off, anon), 0),
		"VmHWM (mapped files too), MiB: with "+numbers.List(column(on, high), 0)+"; without "+numbers.List(column(off, high), 0),
		"windows: "+numbers.List(column(on, func(w watched) float64 { return float64(w.windows.windows) }), 0)+"; closed by memory: "+
			numbers.List(column(on, func(w watched) float64 { return float64(w.windows.pressure) }), 0),
		fmt.Sprintf("log of %d MB of payload over %d partitions, a fresh process each, looked at every %s; the product's defaults are MEMORY_MB=%d TARGET_MB=%d",
			b.Sizes.MemoryMB, m.partitions, sampleEvery, defaultMemory, defaultTarget), shown(settings))
	return b.add(report.Line{Row: "memory." + b.format, What: what, Target: fmt.Sprintf("<= %.0f MiB", most), Measured: fmt.Sprintf("%.0f MiB", extra),
		Ratio: fmt.Sprintf("%.2f", extra/most), Result: report.AtMost(extra, most, b.Sizes.MemoryMB >= statedMB), Notes: notes},
		"-only", b.kind, "-memory-mb", strconv.Itoa(b.Sizes.MemoryMB), "-appends", strconv.Itoa(m.perAppend), "-budgets", strconv.Itoa(m.budget),
		"-targets", strconv.Itoa(m.target), "-rate", strconv.Itoa(b.Sizes.Rate))
}
