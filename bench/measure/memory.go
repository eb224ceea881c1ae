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

// The memory rule (contract 4): what the sink was given, and 64 MB, and three times the largest record.
const (
	memoryMB    = 64
	memorySlack = 64<<20 + 3*backfillPayload
	memoryMost  = memoryMB<<20 + memorySlack
	windowMB    = 2048 // QUEEN_S3_TARGET_MB
)

// sampleEvery is the distance of two looks at a process's memory.
const sampleEvery = 5 * time.Millisecond

// restWait is how long a process is still watched when its work is done.
const restWait = time.Second

// pushSeconds is how long pushes go on where memory is measured under them.
const pushSeconds = 4 * time.Second

func (b *Bench) memory(ctx context.Context) error {
	s, err := b.store(ctx)
	if err != nil {
		return err
	}
	defer s.Kill()
	for _, shape := range []struct{ perAppend, partitions int }{{100, 10}, {1, 100_000}} {
		if err := b.memoryOf(ctx, s, shape.perAppend, shape.partitions); err != nil {
			return fmt.Errorf("appends of %d: %w", shape.perAppend, err)
		}
	}
	return nil
}

// watched is the memory of one process.
type watched struct {
	high    procfs.Memory
	windows mirrored
}

func (b *Bench) memoryOf(ctx context.Context, s *store, perAppend, partitions int) (err error) {
	dir, records, err := b.log(ctx, b.Sizes.MemoryMB, perAppend, partitions)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	settings := with(sinkOn(s, ""), "QUEEN_S3_TARGET_MB", strconv.Itoa(windowMB), "QUEEN_S3_MEMORY_MB", strconv.Itoa(memoryMB))
	loads := []bool{false}
	if perAppend == 100 {
		loads = append(loads, true)
	}
	for _, pushing := range loads {
		var on, off []watched
		for run := range b.Sizes.Runs {
			name := fmt.Sprintf("memory%d%t", run, pushing)
			these := with(settings, "QUEEN_S3_SINK", name, "QUEEN_S3_PREFIX", name)
			if pushing {
				these["QUEEN_S3_QUEUES"], these["QUEEN_S3_MAX_WINDOW_MS"] = fill.Queue+","+load.Queue, "3000"
			}
			one, err := b.watch(ctx, dir, these, records, pushing, 2*run)
			if err != nil {
				return err
			}
			other, err := b.watch(ctx, dir, nil, 0, pushing, 2*run+1)
			if err != nil {
				return err
			}
			on, off, settings = append(on, one), append(off, other), these
		}
		if err := b.memoryLine(on, off, settings, perAppend, partitions, pushing); err != nil {
			return err
		}
	}
	return nil
}

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
		if p, err = child.Start(ctx, b.Self, b.loadArgs(q, 1, b.Sizes.Rate, 100+run, 0, pushSeconds), environ(nil), nil); err != nil {
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

func (b *Bench) memoryLine(on, off []watched, settings map[string]string, perAppend, partitions int, pushing bool) error {
	anon := func(w watched) float64 { return float64(w.high.Anon) / (1 << 20) }
	extra := numbers.Median(column(on, anon)) - numbers.Median(column(off, anon))
	most := float64(memoryMost) / (1 << 20)
	what := fmt.Sprintf("memory of the sink, appends of %d, %d partitions", perAppend, partitions)
	notes := []string{}
	if pushing {
		what += ", under pushes"
		notes = append(notes, fmt.Sprintf("%s msg/s are pushed meanwhile for %s to another queue that is mirrored too", numbers.Count(float64(b.Sizes.Rate)), pushSeconds))
	}
	target, met := fmt.Sprintf("<= %.0f MiB", most), report.Of(extra <= most, b.Sizes.MemoryMB >= statedMB)
	windows := column(on, func(w watched) float64 { return float64(w.windows.windows) })
	notes = append(notes,
		"RssAnon high-water, MiB: with the sink "+numbers.List(column(on, anon), 0)+"; without "+numbers.List(column(off, anon), 0),
		"VmHWM (mapped files too), MiB: with "+numbers.List(column(on, func(w watched) float64 { return float64(w.high.High) / (1 << 20) }), 0)+
			"; without "+numbers.List(column(off, func(w watched) float64 { return float64(w.high.High) / (1 << 20) }), 0),
		"windows: "+numbers.List(windows, 0)+"; closed by memory: "+
			numbers.List(column(on, func(w watched) float64 { return float64(w.windows.pressure) }), 0),
		fmt.Sprintf("log of %d MB of payload, a fresh process each, looked at every %s", b.Sizes.MemoryMB, sampleEvery), shown(settings))
	return b.add(report.Line{What: what, Target: target, Measured: fmt.Sprintf("%.0f MiB", extra), Ratio: fmt.Sprintf("%.2f", extra/most), Met: met,
		Notes: notes}, "-only memory -memory-mb", strconv.Itoa(b.Sizes.MemoryMB), "-rate", strconv.Itoa(b.Sizes.Rate))
}
