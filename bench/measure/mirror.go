package measure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"queen/bench/procfs"
	"queen/bench/roofline"
)

// Texts of the sink's log lines that are waited for.
const (
	lineStart     = "starting the S3 sink in-process"
	lineCommitted = "window committed"
	lineRestored  = "queue restored"
	linePressure  = "memory budget reached"
)

// mirrored is one mirroring of a backlog, from when the queue's rows are read, so that its first record may be, to its last pointer.
type mirrored struct {
	cost     roofline.Cost
	ready    time.Duration // from the sink's start to that moment: not in cost
	first    time.Duration // from that moment to the first pointer
	windows  int
	pressure int // windows that memory closed
}

// mirror waits until a broker that was just started has mirrored so many records of a queue, or of any when it is "".
func mirror(ctx context.Context, q *broker, queue string, records int64, limit time.Duration) (mirrored, error) {
	var (
		m              mirrored
		started, began time.Time
		cpu            time.Duration
	)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for left := records; left > 0; {
		select {
		case l := <-q.lines:
			switch {
			case strings.Contains(l.Text, lineStart):
				started = l.At
			case strings.Contains(l.Text, lineRestored) && of(l.Text, queue) && began.IsZero():
				var err error
				if cpu, err = procfs.CPU(q.Pid()); err != nil {
					return m, err
				}
				began = l.At
				m.ready = began.Sub(started)
				q.profiling(true)
			case strings.Contains(l.Text, lineCommitted) && of(l.Text, queue):
				n, ok := field(l.Text, "records")
				if !ok {
					return m, fmt.Errorf("no records in %q", l.Text)
				}
				left -= n
				if m.windows++; m.windows == 1 {
					m.first = l.At.Sub(began)
				}
				m.cost.Wall = l.At.Sub(began)
			case strings.Contains(l.Text, linePressure):
				m.pressure++
			}
		case <-q.Done():
			return m, errors.New("the broker ended:\n  " + strings.Join(tail(q.Lines(), 15), "\n  "))
		case <-ctx.Done():
			return m, fmt.Errorf("%d of %d records are not mirrored: %w:\n  %s", left, records, context.Cause(ctx), strings.Join(tail(q.Lines(), 15), "\n  "))
		}
	}
	after, err := procfs.CPU(q.Pid())
	m.cost.CPU = after - cpu
	q.profiling(false)
	return m, err
}

// of says whether a log line is of a queue; "" is any.
func of(line, queue string) bool {
	return queue == "" || strings.Contains(line+" ", " queue="+queue+" ")
}

func tail(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }
