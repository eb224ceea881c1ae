package state

import (
	"slices"

	"queen/broker/command"
	"queen/broker/retention"
	"queen/stages"
)

// Deleted answers a delete command.
type Deleted struct {
	Existed bool
	Retained
}

// deletion removes a queue: from its name it is gone at once. What a sink had not read of it is lost, and reported by whatever comes after it
// under that name; an open window stays readable until it is real (design invariant 2), behind the queue's id.
type deletion struct{ command.Delete }

// holder is a sink whose window was open when a queue was deleted.
type holder struct {
	sink   string
	window retention.Span
}

// apply returns a *Deleted.
func (d deletion) apply(tx *transaction) (any, error) {
	q := tx.s.queue(d.Tenant, d.Queue)
	if q == nil {
		return &Deleted{}, nil
	}
	if err := tx.appendFrames(); err != nil { // those of this entry go like the others
		return nil, err
	}
	out := &Deleted{Existed: true}
	sinks, err := tx.sinkRows(d.Tenant).of(d.Queue)
	if err != nil {
		return nil, err
	}
	most := Unbounded
	r := tx.remover(q, plan{before: tx.now() + 1, sinks: sinks, frozen: retention.Frozen(sinks)}, &most)
	r.deleting = true
	for _, span := range q.removed.Live(stages.Beginning, r.p.before) {
		if err := r.walk(r.wanted(span), false); err != nil {
			return nil, err
		}
	}
	if err := tx.rows.Delete(queueNameKey(d.Tenant, d.Queue), nil); err != nil {
		return nil, err
	}
	for _, sink := range sinks {
		if !sink.Open.Empty() {
			q.holders = append(q.holders, holder{sink.Name, sink.Open})
		}
	}
	tx.s.hide(q)
	one, err := r.finish()
	if err != nil {
		return nil, err
	}
	if one.Records > 0 {
		out.Retained = Retained{one}
	}
	if tx.s.queues[q.row.ID] == nil {
		return out, nil
	}
	tx.s.passAll(q)
	return out, tx.set(queueKey(tableHidden, q.row.ID), appendHidden(tx.now(), q.holders))
}

// wanted is the part of a span that some sink has not read: of a deleted queue nothing else has to be looked at.
func (r *remover) wanted(span retention.Span) retention.Span {
	from := span.To
	for _, s := range r.p.sinks {
		from = min(from, s.Position)
	}
	span.From = max(span.From, from)
	return span
}

// hide takes a queue from its name.
func (s *State) hide(q *queue) {
	t := s.tenants[q.row.Tenant]
	if t.byName[q.row.Name] == q {
		delete(t.byName, q.row.Name)
	}
	t.queues = slices.DeleteFunc(t.queues, func(x *queue) bool { return x == q })
	t.hidden = append(t.hidden, q)
	q.hidden = true
}

// passAll moves the lowest offsets of a hidden queue over all there is: it has no readers.
func (s *State) passAll(q *queue) {
	for _, p := range q.partitions {
		if p.Start != p.Next {
			p.Start = p.Next
			s.stain(q, p)
		}
	}
}

// purge removes all that is left of a hidden queue but its files.
func (tx *transaction) purge(q *queue) error {
	s, id := tx.s, q.row.ID
	s.goneMu.Lock()
	s.gone[id] = true
	s.goneMu.Unlock()
	if err := q.ids.Drop(idTx{tx}); err != nil {
		return err
	}
	for _, table := range []byte{tableQueue, tablePartitionByName, tablePartition, tableTail, tableHeads, tableIDs, tableRemoved, tableHidden, tableDropped} {
		if err := tx.rows.DeleteRange(queueKey(table, id), queueKey(table, id+1), nil); err != nil {
			return err
		}
	}
	t := s.tenants[q.row.Tenant]
	is := func(x *queue) bool { return x == q }
	t.hidden = slices.DeleteFunc(t.hidden, is)
	s.dirty, s.unstored = slices.DeleteFunc(s.dirty, is), slices.DeleteFunc(s.unstored, is)
	s.recentBytes -= q.recentBytes
	delete(s.queues, id)
	s.purged = append(s.purged, id)
	return nil
}

// Hidden returns the queue of this name that was deleted while the window that is open now of this sink was open: it is in that queue and
// nowhere else.
func (r *Reader) Hidden(tenant [16]byte, sink, name string) (*QueueRow, bool, error) {
	t := r.s.tenants[tenant]
	if t == nil || len(t.hidden) == 0 {
		return nil, false, nil
	}
	s, _, err := (sinkRows{rowReader{r.s}, tenant, r.s.meta.now, r.s.meta.led}).sink(sink, name)
	if err != nil {
		return nil, false, err
	}
	for _, q := range t.hidden {
		if q.row.Name == name && slices.Contains(q.holders, holder{sink, s.Open}) {
			return q.row, true, nil
		}
	}
	return nil, false, nil
}

// HiddenQueues returns, one for each name, the queues that Hidden finds for a sink.
func (r *Reader) HiddenQueues(tenant [16]byte, sink string) (rows []*QueueRow, err error) {
	t := r.s.tenants[tenant]
	if t == nil {
		return nil, nil
	}
	for _, q := range t.hidden {
		row, ok, err := r.Hidden(tenant, sink, q.row.Name)
		if err != nil {
			return nil, err
		}
		if ok && row == q.row {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// IsHidden says that a queue was deleted.
func (r *Reader) IsHidden(id stages.QueueID) bool {
	q := r.s.queues[id]
	return q != nil && q.hidden
}
