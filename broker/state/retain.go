package state

import (
	"fmt"
	"math"
	"slices"

	"queen/broker/command"
	"queen/broker/retention"
	"queen/broker/segment"
	"queen/stages"
)

// Unbounded is as many appends as there are.
const Unbounded = uint64(math.MaxUint64)

// Retained answers a retain command: one for each queue of which something went.
type Retained []RetainedQueue

// RetainedQueue is what went of a queue.
type RetainedQueue struct {
	Queue   string
	Records int64
	Lost    []LostCount // of the sinks that had not read all of it
}

// LostCount is how many records a sink had not read.
type LostCount struct {
	Sink    string
	Records int64
}

// retain removes what the retention of some queues lets go (package retention). What it looks at are the headers of what goes, in the log of the
// queue, which is the same on every node; files of segments are not its concern (reclaim.go).
type retain struct{ command.Retain }

// apply returns Retained.
func (r retain) apply(tx *transaction) (any, error) {
	var out Retained
	left := r.Most
	for _, id := range r.Queues {
		q := tx.s.queues[id]
		if q == nil {
			continue
		}
		one, err := tx.retain(q, &left)
		if err != nil {
			return nil, fmt.Errorf("retention of queue %d: %w", id, err)
		}
		if one.Records > 0 {
			out = append(out, one)
		}
	}
	return out, nil
}

// plan is what may go of a queue now.
type plan struct {
	before stages.Micros // everything below it
	sinks  []retention.Sink
	frozen []retention.Span // but not that
}

// rules returns what the options of a queue say. It is asked for every queue, every few seconds.
func (q *QueueRow) rules() retention.Rules {
	if !slices.ContainsFunc(q.Options, func(o command.Option) bool {
		return o.Number == command.OptRetentionSeconds || o.Number == command.OptMaxWaitTimeSeconds
	}) {
		return retention.Rules{}
	}
	r := retention.Rules{MaxWait: q.Int(command.OptMaxWaitTimeSeconds)}
	if q.Bool(command.OptRetentionEnabled) {
		r.Seconds = q.Int(command.OptRetentionSeconds)
	}
	r.Hold = q.Option(command.OptRetentionSinkHold).Str
	r.HoldMax = q.Int(command.OptRetentionSinkHoldMaxSeconds)
	return r
}

// plan says what may go. completedRetentionSeconds has no part in it: nothing consumes, so nothing was passed by every cursor.
func (q *queue) plan(rows sinkRows) (p plan, err error) {
	if q.hidden {
		return q.planHidden(rows)
	}
	rules := q.row.rules()
	if !rules.Any() && len(q.removed.Kept) == 0 {
		return p, nil
	}
	if p.sinks, err = rows.of(q.row.Name); err != nil {
		return p, err
	}
	var end stages.Micros
	var known bool
	if rules.Hold != "" {
		if end, known, err = rows.pointer(baseOf(rules.Hold, q.row.Name)); err != nil {
			return p, err
		}
	}
	p.before = max(rules.Cutoff(rows.now, p.sinks, end, known), q.removed.Below)
	p.frozen = retention.Frozen(p.sinks)
	return p, nil
}

// planHidden says what may go of a deleted queue: what nobody's window that was open then needs any more. That it is lost to the other sinks was
// noted when it was deleted.
func (q *queue) planHidden(rows sinkRows) (p plan, err error) {
	p.before = q.removed.Below
	sinks, err := rows.of(q.row.Name)
	for _, s := range sinks {
		if slices.Contains(q.holders, holder{s.Name, s.Open}) {
			p.frozen = append(p.frozen, s.Open)
		}
	}
	return p, err
}

// retain removes what may go of a queue, as long as appends are left to look at.
func (tx *transaction) retain(q *queue, left *uint64) (out RetainedQueue, err error) {
	p, err := q.plan(tx.sinkRows(q.row.Tenant))
	if err != nil || len(q.removed.Go(p.before, p.frozen)) == 0 {
		return out, err
	}
	r := tx.remover(q, p, left)
	for _, span := range q.removed.Go(q.removed.Below, p.frozen) { // islands whose windows are real: readers have long passed them
		if !r.unread(span) {
			continue
		}
		if err := r.walk(span, false); err != nil {
			return out, err
		}
	}
	if err := r.walk(retention.Span{From: q.removed.Below, To: p.before}, true); err != nil {
		return out, err
	}
	return r.finish()
}

// remover takes appends away.
type remover struct {
	tx   *transaction
	q    *queue
	p    plan
	view segment.View
	left *uint64

	deleting bool // the frozen windows are only of who has them open

	stop   bool          // left is used up
	last   stages.Micros // stamp of the append that was looked at last
	lost   []losses      // by sink
	record int64
}

func (tx *transaction) remover(q *queue, p plan, left *uint64) *remover {
	r := &remover{tx: tx, q: q, p: p, view: tx.s.segments.View(q.row.ID), left: left, last: stages.Beginning}
	for _, s := range p.sinks {
		r.lost = append(r.lost, losses{tx: tx, prefix: lostPrefix(q.row.Tenant, s.Name, stages.Esc(q.row.Name)),
			grows: max(s.Position, s.Open.To), rows: make(map[stages.PartitionID]*lostRow)})
	}
	return r
}

// unread says whether a sink may still want something of a span.
func (r *remover) unread(span retention.Span) bool {
	for _, s := range r.p.sinks {
		if s.Position < span.To {
			return true
		}
	}
	return false
}

// walk looks at the appends of a span in stamp order. It ends early, at a whole stamp, when no more may be looked at: then only what lies
// below that stamp goes. pass says that readers have not passed them.
func (r *remover) walk(span retention.Span, pass bool) error {
	if r.stop {
		return nil
	}
	frozen := retention.Removed{Kept: r.p.frozen, Below: retention.Forever}
	for h, err := range r.view.Headers(span.From, span.To) {
		if err != nil {
			return err
		}
		if h.TS != r.last {
			if *r.left == 0 {
				r.stop, r.p.before = true, h.TS
				return nil
			}
			r.last = h.TS
		}
		*r.left -= min(*r.left, 1)
		p := r.q.byID(h.Partition)
		if p == nil {
			return fmt.Errorf("a frame at %d names partition %d, which is not there: %w", h.TS, h.Partition, stages.ErrDamaged)
		}
		if pass {
			r.tx.s.passed(r.q, p, h)
		}
		if frozen.Has(h.TS) && !r.deleting {
			continue
		}
		if err := r.take(p, h); err != nil {
			return err
		}
	}
	return nil
}

// take notes an append that goes for the sinks that have not read it.
func (r *remover) take(p *partition, h stages.Header) error {
	r.record += int64(h.Count)
	for i := range r.lost {
		s := &r.p.sinks[i]
		if h.TS < s.Position || s.Open.From <= h.TS && h.TS < s.Open.To {
			continue
		}
		if err := r.lost[i].add(p, h); err != nil {
			return err
		}
	}
	return nil
}

// finish writes what has gone, and removes the rest of a deleted queue of which nothing is kept any more.
func (r *remover) finish() (RetainedQueue, error) {
	q, out := r.q, RetainedQueue{Queue: r.q.row.Name, Records: r.record}
	for i := range r.lost {
		if err := r.lost[i].store(); err != nil {
			return out, err
		}
		if n := r.lost[i].count; n > 0 {
			out.Lost = append(out.Lost, LostCount{r.p.sinks[i].Name, n})
		}
	}
	q.removed = q.removed.Remove(r.p.before, r.p.frozen)
	if q.hidden && len(q.removed.Kept) == 0 {
		return out, r.tx.purge(q)
	}
	r.tx.s.soil(q)
	r.tx.s.reclaimable(q)
	r.tx.touched = append(r.tx.touched, q)
	return out, r.tx.set(queueKey(tableRemoved, q.row.ID), appendRemoved(q.removed))
}

// Removed returns what was removed of a queue: what its log still holds of it is not there for anybody.
func (r *Reader) Removed(id stages.QueueID) retention.Removed {
	if q := r.s.queues[id]; q != nil {
		return q.removed
	}
	return retention.Removed{}
}

// lookMost is how many queues one call of Due looks at closely: their sinks' rows are read, and nothing is applied meanwhile.
const lookMost = 64

// Due returns queues of which a retain command would remove something now, up to limit, with ids from some id on, in rising order. next is where
// to go on, also when it is none of these; 0 = that were all.
func (r *Reader) Due(from stages.QueueID, limit int) (due []stages.QueueID, next stages.QueueID, err error) {
	looked := 0
	for _, id := range r.QueueIDs() {
		if id < from {
			continue
		}
		q := r.s.queues[id]
		maybe, err := r.mayBeDue(q)
		is := false
		if err == nil && maybe {
			if len(due) == limit || looked == lookMost {
				return due, id, nil
			}
			looked++
			is, err = r.due(q)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("retention of queue %d: %w", id, err)
		}
		if is {
			due = append(due, id)
		}
	}
	return due, 0, nil
}

// mayBeDue is what can be said without the rows of the sinks, which only lower the cut-off. It is asked of every queue, every few seconds.
func (r *Reader) mayBeDue(q *queue) (bool, error) {
	if q.hidden || len(q.removed.Kept) > 0 {
		return true, nil
	}
	rules := q.row.rules()
	if !rules.Any() || q.last < q.removed.Below {
		return false, nil
	}
	rules.Hold = ""
	oldest, ok, err := r.s.segments.View(q.row.ID).Oldest(q.removed.Below)
	return ok && oldest < rules.Cutoff(r.s.meta.now, nil, 0, false), err
}

func (r *Reader) due(q *queue) (bool, error) {
	p, err := q.plan(sinkRows{rowReader{r.s}, q.row.Tenant, r.s.meta.now, r.s.meta.led})
	if err != nil {
		return false, err
	}
	if len(q.removed.Go(q.removed.Below, p.frozen)) > 0 {
		return true, nil
	}
	for _, span := range q.removed.Go(p.before, p.frozen) {
		if q.last < span.From {
			continue
		}
		oldest, ok, err := r.s.segments.View(q.row.ID).Oldest(span.From)
		if err != nil || ok && oldest < span.To {
			return err == nil, err
		}
	}
	return false, nil
}
