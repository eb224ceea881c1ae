package sink

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"queen/commit"
	"queen/stages"
	"queen/upload"
)

// Keys of log fields that others read.
const (
	keyQueue  = "queue"
	keyTenant = "tenant"
	keyWhy    = "why"
)

// Distances of repeated lines, over all queues of a sink: what fails for one mostly fails for all, and each row of status has its own error.
const (
	everyFault = 5 * time.Second
	everyProbe = 30 * time.Second
)

// manyKinds is how many throttled lines are remembered before those are forgotten that may be written again anyway.
const manyKinds = 1024

// logs writes lines for events. Texts and fields are read by people's scripts (contract S12).
type logs struct {
	s *Sink
	l zerolog.Logger

	mu   sync.Mutex
	last map[string]time.Time // of throttled lines, by kind
	left map[string]int       // lines of a kind that were left out since
}

func newLogs(s *Sink) *logs {
	with := s.o.Logger.With()
	if s.cfg.Tenant != stages.DefaultTenant {
		with = with.Str(keyTenant, s.cfg.Tenant)
	}
	return &logs{s: s, l: with.Logger(), last: map[string]time.Time{}, left: map[string]int{}}
}

// due says whether a line of a kind may be written again, and how many were left out since the last one.
func (g *logs) due(kind string, distance time.Duration) (left int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.s.o.Now()
	if last, ok := g.last[kind]; ok && now.Sub(last) < distance {
		g.left[kind]++
		return 0, false
	}
	left = g.left[kind]
	delete(g.left, kind)
	if len(g.last) >= manyKinds { // queues come and go
		maps.DeleteFunc(g.last, func(_ string, last time.Time) bool { return now.Sub(last) >= everyProbe })
		maps.DeleteFunc(g.left, func(kind string, _ int) bool { _, ok := g.last[kind]; return !ok })
	}
	g.last[kind] = now
	return left, true
}

// at begins a line of a queue.
func at(e *zerolog.Event, q *queue) *zerolog.Event {
	if q == nil {
		return e
	}
	return e.Str(keyQueue, q.name)
}

func (g *logs) hear(q *queue, event any) {
	switch e := event.(type) {
	case starting:
		g.start()
	case probed:
		g.probe(e.err)
	case fell:
		g.fell(e)
	case stopped:
		g.stop(e)
	case notReleased:
		g.l.Warn().Err(e.err).Int("leases", e.left).Msg("leases not given back; they run out by themselves")
	case claimed:
		at(g.l.Info(), q).Msg("this node owns the queue")
	case heldElsewhere:
		if _, ok := g.due("held "+q.name, everyProbe); ok {
			at(g.l.Info(), q).Str("owner", e.holder).Msg("another node owns this queue; it is left alone")
		}
	case restored:
		// Nothing is restored from a checkpoint. The fields say which one this process wrote last.
		line := at(g.l.Info(), q).Uint64("committed_k", e.at.K).Bool("redo", e.at.Redo != nil)
		if p, _ := q.status.checkpoint(); p.written {
			line = line.Uint64("checkpoint_k", p.k).Int("positions", p.positions)
		} else {
			line = line.Str("checkpoint_k", "none").Int("positions", 0)
		}
		line.Msg("queue restored")
	case waiting:
		if left, ok := g.due(e.step, everyFault); ok {
			at(g.l.Warn(), q).Str("step", e.step).Err(e.err).Int("left_out", left).Msg("not done; it is tried again")
		}
	case fenced:
		line := at(g.l.Warn(), q).Str(keyWhy, e.err.Error())
		if e.twin {
			line = line.Str("hint", twinHint)
		}
		line.Msg("queue fenced")
	case failed:
		at(g.l.Error(), q).Str(keyWhy, e.err.Error()).Msg("queue stopped")
	case crashed:
		at(g.l.Error(), q).Str(keyWhy, e.err.Error()).Bytes("stack", e.stack).Msg("queue stopped")
	case draining:
		at(g.l.Info(), q).Int64("buffered", e.buffered).Bool("aged", e.aged).Bool("closing", e.closing).Str("state", e.state).
			Msg(stopping(e.leaving))
	case drained:
		at(g.l.Info(), q).Msg("queue drained")
	case excess, released, settled:
		g.hearPlacement(q, event)
	default:
		g.hearWindow(q, event)
	}
}

// stopping is why the reading of a queue ends.
func stopping(leaving bool) string {
	if leaving {
		return "giving the queue back: stopping the reads"
	}
	return "shutting down: stopping the reads"
}

// hearPlacement is for queues that go to other nodes.
func (g *logs) hearPlacement(q *queue, event any) {
	switch e := event.(type) {
	case excess:
		at(g.l.Info(), q).Int("held", e.held).Int("share", e.share).Int("nodes", e.nodes).Int("queues", e.queues).
			Msg("this node holds more than its share: giving one queue back")
	case released:
		at(g.l.Info(), q).Msg("queue released")
	case settled:
		if e.holder == "" {
			at(g.l.Info(), q).Msg("no node took the queue given back; moving on")
			return
		}
		at(g.l.Info(), q).Str("owner", e.holder).Msg("the queue given back is held by another node")
	}
}

// hearWindow is for what happens to windows.
func (g *logs) hearWindow(q *queue, event any) {
	switch e := event.(type) {
	case windowCut:
		if e.w.Why == stages.Pressure {
			at(g.l.Info(), q).Uint64("k", e.w.K).Int64("buffered", e.w.Weight).Int64("appends", e.w.Appends).Int64("total", g.s.shared.budget.Used()).
				Int64("limit", g.s.shared.budget.Limit()).Msg("memory budget reached: closing this queue's window early")
		}
	case windowCommitted:
		g.committed(q, e.c)
	case checkpointFailed:
		at(g.l.Warn(), q).Uint64("k", e.k).Err(e.err).Msg("checkpoint not written; nothing depends on it, and the next is written in its turn")
	case bucketChanged:
		data, _ := upload.DataPattern(e.in, g.s.cfg.Tenant, q.name)
		at(g.l.Warn(), q).Uint64("k", e.in.K).Str("left_in", e.in.Endpoint+"/"+e.in.Bucket).Str("key", data).
			Msg("the window being redone was begun in another bucket: what it left there is in no manifest")
	case foundFinished:
		at(g.l.Info(), q).Uint64("k", e.k).Msg("the window being redone was uploaded whole before the restart; committing it from its manifest")
	case nameTaken:
		at(g.l.Warn(), q).Str("taken_for", e.as).Msg("readers that guess the types of path values may take this queue's name for something else: name the types to them, as the statements of queen lake ddl do, or give the queue another name")
	case nameLike:
		at(g.l.Warn(), q).Str("other", e.other).Msg("the names of two queues differ in case alone: stores and catalogs that do not tell case apart put both together; mirror one of them, or rename one")
	case rowIgnored:
		at(g.l.Warn(), q).Str("key", e.key).Msg("a row cannot be read and is ignored; its version is kept")
	}
}

func (g *logs) committed(q *queue, c commit.Committed) {
	p := c.Pointer
	lag := g.s.o.Log.Safe().Sub(p.End)
	at(g.l.Info(), q).Uint64("k", p.K).Int64("records", p.Records).Int64("bytes", p.Bytes).Str("t_end", p.End.ISO()).
		Float64("lag_seconds", lag.Seconds()).Int64("lost", lostRecords(c.Lost)).Msg("window committed")
	for _, r := range c.Lost {
		at(g.l.Warn(), q).Uint64("k", p.K).Str("partition", r.Partition).Int64("from", r.From).Int64("to", r.To).
			Msg("records went away before the sink read them")
	}
}

func (g *logs) probe(err error) {
	if err == nil {
		return
	}
	if _, ok := g.due("probe", everyProbe); ok {
		g.l.Warn().Err(err).Str("bucket", g.s.cfg.Bucket).Str("endpoint", g.s.cfg.Endpoint).
			Msg("the bucket cannot be reached; check endpoint, region, credentials and bucket name")
	}
}

// fell says what ended the sink, for who reports it.
func (g *logs) fell(e fell) {
	line := g.l.Error().Str(keyWhy, e.err.Error()).Dur("again_in", e.wait)
	if p, ok := errors.AsType[*stages.PanicError](e.err); ok {
		line = line.Bytes("stack", p.Stack)
	}
	line.Msg("the S3 sink fell by a fault of queen and begins anew; nothing is lost; please report it with this line")
}

// stop is the last line of a drain. It says that every queue drained only when that is so.
func (g *logs) stop(e stopped) {
	if len(e.left) == 0 {
		g.l.Info().Msg("every queue drained; the sink has stopped")
		return
	}
	line := g.l.Warn().Strs("queues", e.left).Strs("open_windows", e.open)
	if e.why != nil {
		line = line.Str(keyWhy, e.why.Error())
	}
	line.Msg("the sink has stopped before these queues drained; the next start goes on with them and nothing is lost")
}

// start is the one line with every setting; of the secret it says nothing.
func (g *logs) start() {
	c := g.s.cfg
	queues := c.Queues
	if c.All {
		queues = []string{"*"}
	}
	addressing := "virtual-host"
	if c.PathStyle {
		addressing = "path-style"
	}
	g.l.Info().Str("version", Version).Str(keyTenant, c.Tenant).Str("sink", c.Name).Str("instance", c.Instance).Strs("queues", queues).
		Str("partitions", "discovery").Str("s3", c.Endpoint).Str("bucket", c.Bucket).Str("prefix", c.Prefix).Str("region", c.Region).
		Str("addressing", addressing).Str("credentials", credentials(c.Ambient)).Str("sse", sse(c.SSE, c.SSEKMSKeyID)).Str("format", g.s.pins.Format).
		Str("compression", g.s.pins.Compression).Str("layout", c.Layout).Str("align", c.Align).Int64("target_mb", c.TargetBytes>>20).
		Int64("max_window_ms", c.MaxWindow.Milliseconds()).Str("start", c.Start).Int("checkpoint_every", c.CheckpointEvery).
		Int64("memory_mb", c.MemoryBytes>>20).Int("fetch_concurrency", c.FetchConcurrency).
		Int64("discovery_interval_ms", c.DiscoveryInterval.Milliseconds()).Int64("safe_guard_ms", c.SafeGuard.Milliseconds()).
		Int64("lease_ttl_ms", c.LeaseTTL.Milliseconds()).Int64("multipart_threshold_mb", c.MultipartThreshold>>20).
		Int("threads", c.Threads).Bool("env_sink", true).Int64("shutdown_grace_ms", c.ShutdownGrace.Milliseconds()).Str("crash_at", c.CrashAt).
		Msg("starting the S3 sink in-process")
}

// sse is the encryption that is asked for; of a key id only the end is shown.
func sse(mode, key string) string {
	if key == "" {
		return mode
	}
	return mode + " " + "***" + key[max(0, len(key)-4):]
}

// credentials says whose keys sign, and nothing of them.
func credentials(ambient bool) string {
	if ambient {
		return "of this process"
	}
	return "given"
}
