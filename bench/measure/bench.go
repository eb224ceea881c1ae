// Package measure takes the measurements of `make bench`, one file for each kind: backfill, push, memory, idle queues, lag, restart.
//
// Everything that is measured is a real queen process on a real disk; the load, the object store and the roofline are processes of their
// own. This package starts and ends them, reads their figures, and makes report lines of those. bench/README.md says what each line means.
package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"queen/bench/child"
	"queen/bench/machine"
	"queen/bench/report"
)

// Sizes are how much is measured.
type Sizes struct {
	Runs         int
	BackfillMB   int   // payload of a backfill, MB of 10^6 bytes
	Records      []int // appends of a backfill
	Partitions   []int
	TargetMB     int // QUEEN_S3_TARGET_MB of a backfill
	Push         time.Duration
	Connections  int
	Rate         int           // messages a second where pushing is not what is measured
	BusyMB       int           // payload of the backlog that keeps the sink busy while pushes are timed
	MemoryMB     int           // payload of the log whose mirroring is measured for memory
	Appends      []int         // records an append of that log
	Budgets      []int         // QUEEN_S3_MEMORY_MB
	Targets      []int         // QUEEN_S3_TARGET_MB, of the memory measurements
	MemoryPush   time.Duration // how long pushes go on where memory is measured under them
	IdleQueues   int
	IdleInterval time.Duration
	Lag          time.Duration // how long lags are watched
	RestartMB    int
}

// Payload sizes, bytes.
const (
	backfillPayload = 300
	pushPayload     = 256
)

// pushBatch is how many messages a push has.
const pushBatch = 100

// Bench is one run of the benchmarks.
type Bench struct {
	Self    string // this program: it is also the load, the store and the roofline
	Queen   string // the broker's binary
	Work    string // a folder on a disk, emptied bit by bit
	Sizes   Sizes
	Profile string // a folder: run the broker inside this program and keep processor profiles there; "" = the binary, and none
	Report  *report.Report
	Say     func(format string, args ...any) // progress
	kind    string                           // what is being measured: names profiles
	folders int
	format  string // of the objects: jsonl or parquet
}

// Kinds are the measurements by the name that -only takes, in their order.
func Kinds() []string {
	return []string{"backfill", "parquet", "push", "latency", "memory", "parquet-memory", "idle", "lag", "restart"}
}

// Run takes the measurements of one kind.
func (b *Bench) Run(ctx context.Context, kind string) error {
	run := map[string]func(context.Context) error{
		"backfill": b.backfills, "parquet": b.backfills, "parquet-memory": b.memory, "push": b.pushes, "latency": b.busy, "memory": b.memory, "idle": b.idle, "lag": b.lag, "restart": b.restarts,
	}[kind]
	if run == nil {
		return fmt.Errorf("no measurement %q: there are %s", kind, strings.Join(Kinds(), ", "))
	}
	b.kind, b.format = kind, "jsonl"
	if strings.HasPrefix(kind, "parquet") {
		b.format = "parquet"
	}
	if err := run(ctx); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	return nil
}

// add reports a line. flags are those that, with the sizes, make it again.
func (b *Bench) add(l report.Line, flags ...string) error {
	l.Command = strings.Join(append([]string{"go run ./bench -runs", strconv.Itoa(b.Sizes.Runs)}, flags...), " ")
	l.Load = machine.Load()
	b.Say("%s: %s, target %s, ratio %s: %s", l.What, l.Measured, l.Target, l.Ratio, l.Result)
	return b.Report.Add(l)
}

// folder returns the path of a folder that does not exist yet.
func (b *Bench) folder(name string) string {
	b.folders++
	return filepath.Join(b.Work, fmt.Sprintf("%s-%d", name, b.folders))
}

// helperLimit ends a process that hangs; making 10 GB of log on a slow disk must fit.
const helperLimit = 30 * time.Minute

// helper runs this program as something else to its end and reads its result.
func (b *Bench) helper(ctx context.Context, into any, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, helperLimit)
	defer cancel()
	p, err := child.Start(ctx, b.Self, args, environ(nil), nil)
	if err != nil {
		return err
	}
	defer p.Kill()
	return p.Result(into)
}

// fill makes a data folder and returns it.
func (b *Bench) fill(ctx context.Context, what string, args ...string) (string, error) {
	dir := b.folder("data")
	began := time.Now()
	var done struct{}
	if err := b.helper(ctx, &done, append([]string{"fill", "-dir", dir}, args...)...); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	b.Say("made %s in %.1f s", what, time.Since(began).Seconds())
	return dir, nil
}

// log makes a data folder of one queue.
func (b *Bench) log(ctx context.Context, megabytes, perAppend, partitions int) (dir string, records int64, err error) {
	records = int64(megabytes) * 1_000_000 / backfillPayload
	dir, err = b.fill(ctx, fmt.Sprintf("a log of %d MB, %d records an append, %d partitions", megabytes, perAppend, partitions),
		"-records", strconv.FormatInt(records, 10), "-append", strconv.Itoa(perAppend), "-partitions", strconv.Itoa(partitions),
		"-payload", strconv.Itoa(backfillPayload))
	return dir, records, err
}

// environ is the environment of a child: this process's without any setting of a broker or of Go's runtime, so that all processes have the
// same collector and the same cores, and the given ones.
func environ(settings map[string]string) []string {
	var out []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasPrefix(name, "QUEEN_"), slices.Contains([]string{"PORT", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG"}, name):
		default:
			out = append(out, kv)
		}
	}
	for k, v := range settings {
		out = append(out, k+"="+v)
	}
	return out
}

// sleep waits, or less when ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
