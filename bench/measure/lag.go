package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"queen/bench/child"
	"queen/bench/fill"
	"queen/bench/numbers"
	"queen/bench/report"
)

// The lag of queues (contract 4): guard and 2 s when nothing comes; a window, the guard and an upload when something does. Guard and
// discovery are the product's defaults.
const (
	lagWindow   = 3 * time.Second // QUEEN_S3_MAX_WINDOW_MS
	lagIdle     = idleGuard + 2   // s
	lagLook     = 50 * time.Millisecond
	lagMB       = 10 // payload of the queue that idles
	lagLimit    = 2 * time.Minute
	lagPushMost = 10 * time.Minute
)

// lags are the most that two queues of one sink lagged, s, and the longest upload of the busy one, s.
type lags struct {
	idle, busy, upload float64
}

func (b *Bench) lag(ctx context.Context) (err error) {
	s, err := b.store(ctx)
	if err != nil {
		return err
	}
	defer s.Kill()
	dir, records, err := b.log(ctx, lagMB, 100, 10)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var all []lags
	var settings map[string]string
	for run := range b.Sizes.Runs {
		settings = with(sinkOn(s, "lag"+strconv.Itoa(run)), "QUEEN_S3_QUEUES", fill.Queue+","+pushedIn(run),
			"QUEEN_S3_MAX_WINDOW_MS", strconv.FormatInt(lagWindow.Milliseconds(), 10))
		delete(settings, "QUEEN_S3_SAFE_GUARD_MS")
		delete(settings, "QUEEN_S3_DISCOVERY_INTERVAL_MS")
		one, err := b.lagOnce(ctx, s, dir, settings, records, run)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	return b.lagLines(all, settings)
}

// lagOnce watches a queue that nothing comes into any more and one that is pushed to all the time, from the first window of the second on.
func (b *Bench) lagOnce(ctx context.Context, s *store, dir string, settings map[string]string, records int64, run int) (o lags, err error) {
	q, err := b.startReady(ctx, dir, settings)
	if err != nil {
		return o, err
	}
	defer q.Kill()
	if _, err := mirror(ctx, q, fill.Queue, records, lagLimit); err != nil {
		return o, err
	}
	p, err := child.Start(ctx, b.Self, append(b.loadArgs(q, 1, b.Sizes.Rate, run, 0, lagPushMost), "-queue", pushedIn(run)), environ(nil), nil)
	if err != nil {
		return o, err
	}
	defer p.Kill()
	if err := committed(ctx, q, pushedIn(run)); err != nil {
		return o, err
	}
	if _, err := s.seen(ctx); err != nil { // what was sent before is forgotten
		return o, err
	}
	looks := int(b.Sizes.Lag / lagLook)
	for range looks {
		now, err := q.lags(ctx)
		if err != nil {
			return o, err
		}
		idle, ok := now[fill.Queue]
		busy, okay := now[pushedIn(run)]
		if !ok || !okay {
			return o, fmt.Errorf("/status names no lag of %s or of %s: %v", fill.Queue, pushedIn(run), now)
		}
		o.idle, o.busy = max(o.idle, idle), max(o.busy, busy)
		if err := sleep(ctx, lagLook); err != nil {
			return o, err
		}
	}
	select {
	case <-p.Done():
		return o, fmt.Errorf("the pushes ended early: %q", tail(p.Lines(), 3))
	default:
	}
	seen, err := s.seen(ctx)
	if err != nil {
		return o, err
	}
	if len(seen.Spans) == 0 {
		return o, fmt.Errorf("no window was uploaded within %s", b.Sizes.Lag)
	}
	for _, span := range seen.Spans {
		o.upload = max(o.upload, span.Seconds())
	}
	return o, q.Stop(stopLimit)
}

// committed waits for the first window of a queue.
func committed(ctx context.Context, q *broker, queue string) error {
	ctx, cancel := context.WithTimeout(ctx, lagLimit)
	defer cancel()
	for {
		select {
		case l := <-q.lines:
			if strings.Contains(l.Text, lineCommitted) && of(l.Text, queue) {
				return nil
			}
		case <-q.Done():
			return errors.New("the broker ended:\n  " + strings.Join(tail(q.Lines(), 15), "\n  "))
		case <-ctx.Done():
			return fmt.Errorf("no window of %s: %w", queue, context.Cause(ctx))
		}
	}
}

func (b *Bench) lagLines(all []lags, settings map[string]string) error {
	idles := column(all, func(l lags) float64 { return l.idle })
	busies := column(all, func(l lags) float64 { return l.busy })
	uploads := column(all, func(l lags) float64 { return l.upload })
	idle, busy, most := numbers.Median(idles), numbers.Median(busies), lagWindow.Seconds()+idleGuard+numbers.Median(uploads)
	note := fmt.Sprintf("lagSeconds of /status every %s for %s; guard and discovery are the defaults", lagLook, b.Sizes.Lag)
	for _, l := range []report.Line{
		{Row: "lag.idle", What: "lag of an idle queue", Target: fmt.Sprintf("<= %.0f s", lagIdle), Measured: fmt.Sprintf("%.2f s", idle),
			Ratio: fmt.Sprintf("%.2f", idle/lagIdle), Result: report.AtMost(idle, lagIdle, true), Notes: []string{"most of each run, s: " + numbers.List(idles, 2)}},
		{Row: "lag.busy", What: "lag of a busy queue", Target: fmt.Sprintf("<= %.2f s", most), Measured: fmt.Sprintf("%.2f s", busy),
			Ratio: fmt.Sprintf("%.2f", busy/most), Result: report.AtMost(busy, most, true), Notes: []string{
				fmt.Sprintf("most of each run, s: %s; target: a window of %s, a guard of %.0f s, and the longest upload, s: %s", numbers.List(busies, 2), lagWindow, idleGuard, numbers.List(uploads, 3)),
				numbers.Count(float64(b.Sizes.Rate)) + " msg/s are pushed meanwhile"}},
	} {
		l.Notes = append(l.Notes, note, shown(settings))
		if err := b.add(l, "-only lag -lag", b.Sizes.Lag.String(), "-rate", strconv.Itoa(b.Sizes.Rate)); err != nil {
			return err
		}
	}
	return nil
}
