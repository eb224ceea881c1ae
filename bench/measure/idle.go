package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
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
	idleSettle = 5 * time.Second
	idleLooks  = 5 // at /status
	idleLook   = 500 * time.Millisecond
)

// adoptLimit is how long ten thousand queues may take to be mirrored, or taken back.
const adoptLimit = 8 * time.Minute

// LineGoroutines is what a broker inside this program (role serve) prints before the most goroutines that it had.
const LineGoroutines = "most goroutines: "

// quiet is what a process cost while nothing happened.
type quiet struct {
	cores      float64 // share of a core
	anon       float64 // MB at the end
	goroutines int
	lags       []float64 // s, the most that each queue had, sorted
}

// burst is what a process had at most while all queues had work at once.
type burst struct {
	took       time.Duration // until all are mirrored
	anon       float64       // MB, most
	after      float64       // MB, when it was over
	goroutines int
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
	all, err := b.atOnce(ctx, dir, settings)
	if err != nil {
		return err
	}
	var on, off []quiet
	for range b.Sizes.Runs {
		one, err := b.rest(ctx, dir, nil)
		if err != nil {
			return err
		}
		off = append(off, one)
		if one, err = b.rest(ctx, dir, settings); err != nil {
			return err
		}
		on = append(on, one)
	}
	return b.idleLines(on, off, all, settings)
}

// atOnce mirrors all queues, each of which has a record that no window holds yet, in a broker inside this program, since the product has no
// page that counts goroutines.
func (b *Bench) atOnce(ctx context.Context, dir string, settings map[string]string) (o burst, err error) {
	q, err := b.startInside(ctx, dir, settings)
	if err != nil {
		return o, err
	}
	defer q.Kill()
	sampling, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan procfs.Memory, 1)
	go func() { done <- procfs.HighWater(sampling, q.Pid(), sampleEvery) }()
	m, err := mirror(ctx, q, "", int64(b.Sizes.IdleQueues), adoptLimit)
	if err != nil {
		return o, err
	}
	o.took = m.ready + m.cost.Wall
	if err := sleep(ctx, idleSettle); err != nil {
		return o, err
	}
	now, err := procfs.ReadMemory(q.Pid())
	if err != nil {
		return o, err
	}
	stop()
	o.anon, o.after = float64((<-done).Anon)/1e6, float64(now.Anon)/1e6
	if err := q.Stop(stopLimit); err != nil {
		return o, err
	}
	o.goroutines, err = mostGoroutines(q.Lines())
	return o, err
}

func mostGoroutines(lines []string) (int, error) {
	for _, l := range lines {
		if text, ok := strings.CutPrefix(l, LineGoroutines); ok {
			return strconv.Atoi(text)
		}
	}
	return 0, fmt.Errorf("the broker did not print %q", LineGoroutines)
}

// rest starts a broker, waits until its sink, if it has one, has all queues, and then looks on.
func (b *Bench) rest(ctx context.Context, dir string, settings map[string]string) (o quiet, err error) {
	q, err := b.startReady(ctx, dir, settings)
	if err != nil {
		return o, err
	}
	defer q.Kill()
	if settings != nil {
		if err := adopted(ctx, q, b.Sizes.IdleQueues); err != nil {
			return o, err
		}
	}
	if err := sleep(ctx, idleSettle); err != nil {
		return o, err
	}
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
	o.cores = (after - before).Seconds() / b.Sizes.IdleInterval.Seconds()
	m, err := procfs.ReadMemory(q.Pid())
	if err != nil {
		return o, err
	}
	o.anon = float64(m.Anon) / 1e6
	if settings != nil {
		if o.lags, err = q.worstLags(ctx); err != nil {
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

// adopted waits until the sink has read the rows of so many queues.
func adopted(ctx context.Context, q *broker, queues int) error {
	ctx, cancel := context.WithTimeout(ctx, adoptLimit)
	defer cancel()
	for left := queues; left > 0; {
		select {
		case l := <-q.lines:
			if strings.Contains(l.Text, lineRestored) {
				left--
			}
		case <-q.Done():
			return errors.New("the broker ended:\n  " + strings.Join(tail(q.Lines(), 15), "\n  "))
		case <-ctx.Done():
			return fmt.Errorf("%d of %d queues are not adopted: %w", left, queues, context.Cause(ctx))
		}
	}
	return nil
}

// worstLags looks at /status some times and returns the most that each queue lagged.
func (q *broker) worstLags(ctx context.Context) ([]float64, error) {
	worst := map[string]float64{}
	for range idleLooks {
		lags, err := q.lags(ctx)
		if err != nil {
			return nil, err
		}
		for name, lag := range lags {
			worst[name] = max(worst[name], lag)
		}
		if err := sleep(ctx, idleLook); err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Values(worst)), nil
}

// idleLines reports; on and off are one process each, in pairs.
func (b *Bench) idleLines(on, off []quiet, all burst, settings map[string]string) error {
	n := numbers.Count(float64(b.Sizes.IdleQueues))
	flags := []string{"-only idle -queues", strconv.Itoa(b.Sizes.IdleQueues), "-idle", b.Sizes.IdleInterval.String()}
	percent := func(q quiet) float64 { return 100 * q.cores }
	anon := func(q quiet) float64 { return q.anon }
	routines := func(q quiet) float64 { return float64(q.goroutines) }
	worst := func(q quiet) float64 { return numbers.Percentile(q.lags, 1) }
	cores := (numbers.Median(column(on, percent)) - numbers.Median(column(off, percent))) / 100
	cost := numbers.Median(column(on, anon)) - numbers.Median(column(off, anon))
	lag := numbers.Median(column(on, worst))
	stated := b.Sizes.IdleQueues >= 10_000
	known := column(on, func(q quiet) float64 { return float64(len(q.lags)) })
	if slices.Min(known) < float64(b.Sizes.IdleQueues) {
		lag = math.Inf(1) // a queue without a lag has none that could be good
	}
	base := numbers.Median(column(off, anon))
	lines := []report.Line{
		{Row: "scale.idle.cpu", What: n + " idle queues, processor", Target: "< 3 % of a core", Measured: fmt.Sprintf("%.2f %%", 100*cores),
			Ratio: fmt.Sprintf("%.2f", cores/idleCPU), Result: report.AtMost(cores, idleCPU, stated), Notes: []string{
				fmt.Sprintf("%% of a core during %s: with the sink %s; without %s", b.Sizes.IdleInterval, numbers.List(column(on, percent), 2), numbers.List(column(off, percent), 2))}},
		{Row: "scale.idle.memory", What: n + " idle queues, memory", Target: "< 50 MB", Measured: fmt.Sprintf("%.0f MB", cost), Ratio: fmt.Sprintf("%.2f", cost/idleMemory),
			Result: report.AtMost(cost, idleMemory, stated), Notes: []string{"RssAnon at the end, MB: with the sink " + numbers.List(column(on, anon), 0) + "; without " + numbers.List(column(off, anon), 0)}},
		{Row: "scale.idle.memory", What: n + " idle queues, goroutines", Target: "-", Measured: fmt.Sprintf("%.0f", numbers.Median(column(on, routines))), Ratio: "-", Result: report.Shown,
			Notes: []string{"counted in the stack dump of SIGQUIT: with the sink " + numbers.List(column(on, routines), 0) + "; without " + numbers.List(column(off, routines), 0)}},
		{Row: "scale.idle.lag", What: n + " idle queues, lag of the worst", Target: fmt.Sprintf("<= %.0f s", idleLag), Measured: fmt.Sprintf("%.3f s", lag),
			Ratio: fmt.Sprintf("%.2f", lag/idleLag), Result: report.AtMost(lag, idleLag, stated), Notes: []string{
				fmt.Sprintf("the most of %d looks at /status, of the worst queue: %s s; queues that it names a lag for: %s of %d; guard and discovery are the defaults", idleLooks,
					numbers.List(column(on, worst), 3), numbers.List(known, 0), b.Sizes.IdleQueues)}},
	}
	for i := range lines {
		lines[i].Notes = append(lines[i].Notes, "fresh processes on a folder whose queues are all mirrored", shown(settings))
	}
	lines = append(lines, report.Line{Row: "scale.idle.memory", What: n + " queues with work at once", Target: "-",
		Measured: fmt.Sprintf("%d goroutines, %.0f MB", all.goroutines, all.anon-base), Ratio: "-", Result: report.Shown, Notes: []string{
			fmt.Sprintf("one record each, adopted and mirrored in %.1f s by one process: the most goroutines, and the most RssAnon over a broker without a sink (%.0f MB against %.0f)", all.took.Seconds(), all.anon, base),
			fmt.Sprintf("RssAnon %s after the last pointer: %.0f MB; one process, not a median", idleSettle, all.after), shown(settings)}})
	for _, l := range lines {
		if err := b.add(l, flags...); err != nil {
			return err
		}
	}
	return nil
}
