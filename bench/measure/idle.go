package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"queen/bench/numbers"
	"queen/bench/procfs"
	"queen/bench/report"
)

// What ten thousand idle queues may cost over the same broker without a sink (contract 4).
const (
	idleCPU    = 0.03          // of a core
	idleMemory = 50            // MB
	idleGuard  = 5.0           // s, the default of QUEEN_S3_SAFE_GUARD_MS
	idleLag    = idleGuard + 2 // s: and a discovery
	idleLooks  = 3
	idleSettle = 5 * time.Second
)

// quiet is what a process cost while nothing happened.
type quiet struct {
	cores      []float64 // share of a core in each interval
	anon       float64   // MB at the end
	goroutines int
	lags       []float64 // s, sorted
}

func (b *Bench) idle(ctx context.Context) (err error) {
	s, err := b.store(ctx)
	if err != nil {
		return err
	}
	defer s.Kill()
	dir, err := b.fill(ctx, fmt.Sprintf("%d queues with a record each", b.Sizes.IdleQueues), "-queues", strconv.Itoa(b.Sizes.IdleQueues))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	settings := with(sinkOn(s, "idle"), "QUEEN_S3_QUEUES", "*", "QUEEN_S3_MAX_WINDOW_MS", "10000")
	delete(settings, "QUEEN_S3_SAFE_GUARD_MS")
	delete(settings, "QUEEN_S3_DISCOVERY_INTERVAL_MS")
	off, err := b.rest(ctx, dir, nil)
	if err != nil {
		return err
	}
	on, err := b.rest(ctx, dir, settings)
	if err != nil {
		return err
	}
	return b.idleLines(on, off, settings)
}

// rest starts a broker, waits until its sink, if it has one, has mirrored all queues, and then looks on.
func (b *Bench) rest(ctx context.Context, dir string, settings map[string]string) (o quiet, err error) {
	q, err := b.start(ctx, dir, settings)
	if err != nil {
		return o, err
	}
	defer q.Kill()
	if err := q.ready(ctx); err != nil {
		return o, err
	}
	if settings != nil {
		m, err := mirror(ctx, q, "", int64(b.Sizes.IdleQueues), 5*time.Minute)
		if err != nil {
			return o, err
		}
		b.Say("%d queues are mirrored after %.1f s", m.windows, m.cost.Wall.Seconds())
	}
	if err := sleep(ctx, idleSettle); err != nil {
		return o, err
	}
	for range idleLooks {
		before, err := procfs.CPU(q.Pid())
		if err != nil {
			return o, err
		}
		if err := sleep(ctx, b.Sizes.IdleInterval); err != nil {
			return o, err
		}
		after, err := procfs.CPU(q.Pid())
		if err != nil {
			return o, err
		}
		o.cores = append(o.cores, (after-before).Seconds()/b.Sizes.IdleInterval.Seconds())
	}
	m, err := procfs.ReadMemory(q.Pid())
	if err != nil {
		return o, err
	}
	o.anon = float64(m.Anon) / 1e6
	if settings != nil {
		if o.lags, err = q.lags(ctx); err != nil {
			return o, err
		}
	}
	q.Signal(syscall.SIGQUIT) // a Go program prints the stacks of its goroutines and ends
	select {
	case <-q.Done():
		o.goroutines = procfs.Goroutines(q.Lines())
	case <-time.After(stopLimit):
		return o, errors.New("the broker did not end by SIGQUIT")
	}
	return o, nil
}

// lags reads the lag of each queue that the sink knows one of.
func (q *broker) lags(ctx context.Context) ([]float64, error) {
	var s struct {
		S3 struct {
			Sinks []struct {
				Queues []struct{ LagSeconds *float64 }
			}
		}
	}
	if err := q.get(ctx, "/status", &s); err != nil {
		return nil, err
	}
	var out []float64
	for _, sink := range s.S3.Sinks {
		for _, queue := range sink.Queues {
			if queue.LagSeconds != nil {
				out = append(out, *queue.LagSeconds)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

func (b *Bench) idleLines(on, off quiet, settings map[string]string) error {
	n := numbers.Count(float64(b.Sizes.IdleQueues))
	flags := []string{"-only idle -queues", strconv.Itoa(b.Sizes.IdleQueues), "-idle", b.Sizes.IdleInterval.String()}
	cores := numbers.Median(on.cores) - numbers.Median(off.cores)
	percent := func(v []float64) string {
		return numbers.List(column(v, func(c float64) float64 { return 100 * c }), 2)
	}
	cost := on.anon - off.anon
	stated := b.Sizes.IdleQueues >= 10_000
	lag := numbers.Percentile(on.lags, 1)
	lines := []report.Line{
		{What: n + " idle queues: processor", Target: "< 3 % of a core", Measured: fmt.Sprintf("%.2f %%", 100*cores),
			Ratio: fmt.Sprintf("%.2f", cores/idleCPU), Met: report.Of(cores < idleCPU, stated), Notes: []string{
				fmt.Sprintf("%% of a core in %d intervals of %s: with the sink %s; without %s", idleLooks, b.Sizes.IdleInterval, percent(on.cores), percent(off.cores))}},
		{What: n + " idle queues: memory", Target: "< 50 MB", Measured: fmt.Sprintf("%.0f MB", cost), Ratio: fmt.Sprintf("%.2f", cost/idleMemory),
			Met: report.Of(cost < idleMemory, stated), Notes: []string{fmt.Sprintf("RssAnon at the end, MB: with the sink %.0f, without %.0f", on.anon, off.anon)}},
		{What: n + " idle queues: goroutines", Target: "-", Measured: strconv.Itoa(on.goroutines) + " goroutines", Ratio: "-", Met: report.Shown,
			Notes: []string{fmt.Sprintf("counted in the stack dump of SIGQUIT; without the sink %d", off.goroutines)}},
		{What: n + " idle queues: lag of the worst", Target: fmt.Sprintf("<= %.0f s", idleLag), Measured: fmt.Sprintf("%.1f s", lag),
			Ratio: fmt.Sprintf("%.2f", lag/idleLag), Met: report.Of(len(on.lags) == b.Sizes.IdleQueues && lag <= idleLag, stated), Notes: []string{
				fmt.Sprintf("/status names a lag for %d of %d queues; median %.1f s; guard and discovery are the defaults", len(on.lags), b.Sizes.IdleQueues, numbers.Median(on.lags))}},
	}
	for _, l := range lines {
		l.Notes = append(l.Notes, "one process with and one without a sink, not a median of "+strconv.Itoa(b.Sizes.Runs)+" processes", shown(settings))
		if err := b.add(l, strings.Join(flags, " ")); err != nil {
			return err
		}
	}
	return nil
}
