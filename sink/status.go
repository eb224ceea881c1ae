package sink

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"queen/commit"
	"queen/stages"
)

// Phases of a sink and states of a queue, as status shows them.
const (
	phaseStarting = "starting"
	phaseRunning  = "running"
	phaseStopped  = "stopped"
	phaseBackoff  = "backoff" // of the sink's entry: it fell, and begins anew

	stateClaiming  = "claiming"
	stateHeld      = "held"
	stateRestoring = "restoring"
	stateFilling   = "filling"
	stateIntent    = "intent"
	stateUpload    = "upload"
	stateCommit    = "commit"
	stateDrained   = "drained"
	stateFenced    = "fenced"
	stateFailed    = "failed"
	stateMissing   = "missing"
	stateCrashed   = "crashed"
	stateReleased  = "released"
)

// status is what people see of a queue.
type status struct {
	mu      sync.Mutex
	state   string
	heldBy  string
	watched bool // owned here: counts for health
	redo    bool
	since   time.Time
	k       uint64
	end     stages.Micros // tEnd of the last window; Beginning when there is none
	through stages.Micros // complete up to here: it never goes back. Beginning when nothing is known
	done    *figures      // by this process; nil while it is nothing
	point   point
	fault   *fault // the last one
}

// point is the last checkpoint of a queue.
type point struct {
	k         uint64 // its window; 0 = there is none. Who adopts a queue takes the last one that was due for written
	written   bool   // by this process
	positions int    // in it
	missed    uint64 // window of the last one that this process could not write
}

// hear takes an event of the queue.
func (p *point) hear(event any) {
	switch e := event.(type) {
	case checkpointWritten:
		*p = point{k: e.k, written: true, positions: e.positions, missed: p.missed}
	case checkpointFailed:
		p.missed = e.k
	case restored:
		if e.due != p.missed && e.due > p.k {
			*p = point{k: e.due, missed: p.missed}
		}
	}
}

// figures are what a process has done for a queue.
type figures struct {
	windows, records, lost int64
	bytes                  []formatBytes // of objects, in the order in which the formats came up: nearly always one
	fetched, unfetched     int64         // calls for bodies, and those that failed
}

// formatBytes are the bytes of the objects of one format.
type formatBytes struct {
	format string
	n      int64
}

// window counts a window.
func (f *figures) window(c commit.Committed) {
	f.windows++
	f.records += c.Pointer.Records
	f.lost += lostRecords(c.Lost)
	i := slices.IndexFunc(f.bytes, func(b formatBytes) bool { return b.format == c.Intent.Format })
	if i < 0 {
		i, f.bytes = len(f.bytes), append(f.bytes, formatBytes{format: c.Intent.Format})
	}
	f.bytes[i].n += c.Pointer.Bytes
}

// allBytes are those of all formats.
func (f *figures) allBytes() (n int64) {
	for _, b := range f.bytes {
		n += b.n
	}
	return n
}

// fault is an error as people see it.
type fault struct {
	message string
	at      time.Time
}

// hear takes an event of the queue.
func (t *status) hear(event any, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.point.hear(event)
	switch e := event.(type) {
	case entered:
		t.state = e.state
	case claimed:
		t.heldBy, t.watched, t.since = "", true, now
	case restored:
		if !t.watched { // the lease was kept while a crashed queue waited
			t.watched, t.since = true, now
		}
		t.state, t.k, t.redo = stateFilling, e.at.K, e.at.Redo != nil
		t.end = stages.Beginning
		if e.at.K > 0 {
			t.end = e.at.At
		}
		t.raiseThrough(e.at.At)
	case firstSeen:
		t.raiseThrough(e.ts)
	case windowCommitted:
		t.state, t.redo = stateFilling, false
		t.k, t.end = e.c.Pointer.K, e.c.Pointer.End
		t.doing().window(e.c)
		t.raiseThrough(e.c.Pointer.End)
	case heldElsewhere:
		t.state, t.heldBy = stateHeld, e.holder
		t.forget()
	case queueMissing:
		t.state, t.heldBy = stateMissing, ""
		t.forget()
	case fenced:
		t.state, t.heldBy = stateFenced, e.holder
		t.forget()
		if e.twin {
			t.fail(fmt.Errorf("%w: %s", e.err, twinHint), now)
		} else {
			t.fail(e.err, now)
		}
	case drained:
		t.state = stateDrained
		t.forget()
	case released:
		t.state, t.heldBy = stateReleased, ""
		t.forget()
	default:
		t.hearFault(event, now)
	}
}

// hearFault is for what goes wrong while the queue stays this node's. The lock is held.
func (t *status) hearFault(event any, now time.Time) {
	switch e := event.(type) {
	case failed:
		t.state = stateFailed // still watched: its lag goes on growing
		t.fail(e.err, now)
	case crashed:
		t.state = stateCrashed // still watched, or a queue that crashes each minute would be green for ever
		t.fail(e.err, now)
	case waiting:
		t.fail(e.err, now)
	case lookFailed:
		if t.watched {
			t.fail(e.err, now)
		}
	case bodiesRead:
		if e.err != nil {
			t.doing().unfetched++
			t.fail(e.err, now)
		} else {
			t.doing().fetched++
		}
	}
}

func (t *status) fail(err error, now time.Time) { t.fault = &fault{err.Error(), now} }

// forget clears what is only known of a queue that runs here.
func (t *status) forget() { t.watched, t.through, t.redo = false, stages.Beginning, false }

// doing returns the figures to add to. The lock is held.
func (t *status) doing() *figures {
	if t.done == nil {
		t.done = &figures{}
	}
	return t.done
}

// figures returns what was done for the queue, and whether it has gauges: it is run here, and not only waited for.
func (t *status) figures() (done figures, runs bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done != nil {
		done = *t.done
		done.bytes = slices.Clone(done.bytes)
	}
	return done, t.watched && t.state != stateCrashed
}

// checkpoint returns the last checkpoint, and how many windows came behind it.
func (t *status) checkpoint() (p point, age uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.point, t.k - min(t.k, t.point.k)
}

// now is the state.
func (t *status) now() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// leave is the end of a pass.
func (t *status) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == stateIntent || t.state == stateUpload || t.state == stateCommit {
		t.state = stateFilling
	}
}

// raiseThrough raises what the queue is complete through. The lock is held.
func (t *status) raiseThrough(m stages.Micros) {
	t.through = max(t.through, m)
}

func lostRecords(lost []stages.Range) (n int64) {
	for _, r := range lost {
		n += r.To - r.From + 1
	}
	return n
}

// lag brings what the queue is complete through up to date and returns how far that lies behind this node's safe time; ok is false while
// nothing is known. The queue's lock is held.
func (q *queue) lag() (lag time.Duration, ok bool) {
	safe := q.s.o.Log.Safe()
	through, known := stages.Micros(0), false
	if a := q.current(); a != nil && a.at.Redo == nil {
		// Between the cut and the pointer the cutter is ahead of what is real.
		if st := a.cutter.Status(); st.Appends == 0 && st.K == a.at.K+1 {
			quiet, ok := a.feed.Through()
			through, known = st.Ceiling, st.Ceiling != stages.Beginning
			if ok {
				through, known = quiet, true
			}
		}
	}
	q.status.mu.Lock()
	defer q.status.mu.Unlock()
	if known && q.status.watched {
		q.status.raiseThrough(through)
	}
	if q.status.through == stages.Beginning {
		return 0, false
	}
	return max(0, safe.Sub(q.status.through)), true
}

// Status returns the block `s3` of GET /status. Its keys come out in alphabetical order.
func (s *Sink) Status() any {
	s.mu.Lock()
	phase, started, u := s.phase, s.started, s.unit
	s.mu.Unlock()
	var uptime int64
	if phase == phaseRunning {
		uptime = s.o.Now().Sub(started).Milliseconds()
	}
	entry := s.report()
	for k, v := range map[string]any{
		"tenant": s.cfg.Tenant, "source": "env", "cluster": nil, "phase": phase, "error": nil, "restarts": u.restarts,
		"lastExit": text(short(u.lastExit)), "uptimeMs": uptime, "backoffMs": u.backoff.Milliseconds(),
	} {
		entry[k] = v
	}
	if phase == phaseBackoff {
		phase = phaseRunning // the block's own phase knows no other
	}
	return map[string]any{
		"mode": "in-process", "phase": phase, "threads": s.cfg.Threads,
		"controlPlane": map[string]any{"error": nil},
		"sinks":        []any{entry},
	}
}

// report is what the sink says of itself.
func (s *Sink) report() map[string]any {
	bucket, reachable := s.bucket.report()
	bucket["name"], bucket["endpoint"], bucket["region"], bucket["prefix"] = s.cfg.Bucket, s.cfg.Endpoint, s.cfg.Region, s.cfg.Prefix
	health, healthy := s.health()
	rows := []any{}
	held := 0
	all := s.all()
	for _, q := range all {
		row, owned := q.report()
		if owned {
			held++
		}
		rows = append(rows, row)
	}
	s.mu.Lock()
	running := s.phase == phaseRunning
	s.mu.Unlock()
	return map[string]any{
		"ok": healthy && reachable, "sink": s.cfg.Name, "instance": s.cfg.Instance, "version": Version, "running": running,
		"bucket": bucket, "format": s.pins.Format, "compression": s.pins.Compression, "layout": s.pins.Layout, "align": s.pins.Align,
		"health":    health,
		"placement": s.placement(len(all), held),
		"memory":    map[string]any{"bufferedBytes": s.shared.budget.Used(), "limitBytes": s.cfg.MemoryBytes},
		"queues":    rows,
	}
}

// report is the queue's row.
func (q *queue) report() (row map[string]any, owned bool) {
	owned = q.lease.Check() == nil // a node that is cut off learns of nothing, and its lease runs out all the same
	safe := q.s.o.Log.Safe()
	q.mu.Lock()
	lag, lagKnown := q.lag()
	buffered, partitions := q.buffered(), q.partitions
	q.mu.Unlock()
	t := &q.status
	done, _ := t.figures()
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.state
	if !owned && slices.Contains([]string{stateRestoring, stateFilling, stateIntent, stateUpload, stateCommit}, state) {
		state = stateClaiming // which it does as soon as the log answers
	}
	row = map[string]any{
		"name": q.name, "ownedHere": owned, "heldBy": text(t.heldBy), "state": state, "k": t.k, "tEnd": moment(t.end),
		"completeThrough": moment(t.through), "safeTime": nil, "lagSeconds": nil, "redo": t.redo, "bufferedBytes": buffered,
		"partitions": 0, "windowsCommitted": done.windows, "records": done.records, "bytes": done.allBytes(), "recordsLost": done.lost, "lastError": nil,
	}
	if t.watched {
		row["safeTime"], row["partitions"] = moment(safe), partitions
	}
	if lagKnown {
		row["lagSeconds"] = lag.Seconds()
	}
	if t.fault != nil {
		row["lastError"] = map[string]any{"at": iso(t.fault.at), "message": t.fault.message}
	}
	return row, owned
}

// buffered is the weight of the open window in bytes. The lock is held.
func (q *queue) buffered() int64 {
	a := q.current()
	if a == nil {
		return 0
	}
	return a.cutter.Status().Weight
}

// shortest is how much of a text status shows, characters.
const shortest = 512

// short cuts a text to what status shows of it.
func short(s string) string {
	if r := []rune(s); len(r) > shortest {
		return string(r[:shortest])
	}
	return s
}

func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func moment(m stages.Micros) any {
	if m == stages.Beginning {
		return nil
	}
	return m.ISO()
}
