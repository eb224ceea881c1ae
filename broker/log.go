package broker

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"queen/broker/retention"
	"queen/broker/seal"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/stages"
)

// errNoQueue says that a tenant has no queue with this id in the applied state.
var errNoQueue = errors.New("queue is not known")

// log is the applied state of one tenant as the sink reads it.
//
// Invariant: what a call returns comes from one view. The view of a queue's log is taken under the state's read lock, in the
// same moment as the rows that say what to read, and is read after the lock is gone: appends are never changed.
type log struct {
	state  *state.State
	segs   *segment.Store
	key    *seal.Key
	tenant [16]byte
	bad    error // the tenant's name is no UUID: it has no queues
}

var _ stages.Log = (*log)(nil)

// ctxEvery is how many headers are read between two looks at the context, namesAtOnce how many names are looked up under one lock.
const (
	ctxEvery    = 4096
	namesAtOnce = 4096
)

// Safe returns the safe time of this node.
func (l *log) Safe() stages.Micros { return l.state.Now() }

// Moved returns the queues of the tenant that have an append stamped at or after since.
func (l *log) Moved(ctx context.Context, since stages.Micros) (moved []stages.QueueID, safe stages.Micros, err error) {
	if l.bad != nil {
		return nil, 0, l.bad
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	err = l.state.Read(func(r *state.Reader) error {
		safe, moved = r.Safe(), r.Moved(l.tenant, since)
		return nil
	})
	return moved, safe, err
}

// Headers yields the appends with from <= TS < before in stamp order, without those that were removed.
func (l *log) Headers(ctx context.Context, queue stages.QueueID, from, before stages.Micros) iter.Seq2[stages.Header, error] {
	return func(yield func(stages.Header, error) bool) {
		var view segment.View
		var live []retention.Span
		err := l.state.Read(func(r *state.Reader) error {
			if _, err := l.queue(r, queue); err != nil {
				return err
			}
			if !r.IsHidden(queue) { // else only a window that is open already is there to be listed
				view, live = r.Segments(queue), r.Removed(queue).Live(from, before)
			}
			return nil
		})
		if err != nil {
			yield(stages.Header{}, err)
			return
		}
		n := 0
		for _, span := range live {
			for h, err := range view.Headers(span.From, span.To) {
				if n++; err == nil && n%ctxEvery == 0 {
					err = ctx.Err()
				}
				if !yield(h, err) || err != nil {
					return
				}
			}
		}
	}
}

// queue finds a queue of this tenant.
func (l *log) queue(r *state.Reader, id stages.QueueID) (*state.QueueRow, error) {
	if l.bad != nil {
		return nil, l.bad
	}
	row, ok := r.QueueByID(id)
	if !ok || row.Tenant != l.tenant {
		return nil, fmt.Errorf("queue %d: %w", id, errNoQueue)
	}
	return row, nil
}

// Listing lists window k from one view in which its intent is the open one.
func (l *log) Listing(ctx context.Context, queue stages.QueueID, sink string, k uint64) (stages.Listing, error) {
	list, err := l.list(ctx, queue, sink, k)
	if err != nil {
		return stages.Listing{}, fmt.Errorf("list window %d of queue %d: %w", k, queue, err)
	}
	return list, nil
}

func (l *log) list(ctx context.Context, queue stages.QueueID, sink string, k uint64) (stages.Listing, error) {
	var view segment.View
	var start, end stages.Micros
	var live []retention.Span
	var lost []stages.Range
	err := l.state.Read(func(r *state.Reader) error {
		row, err := l.queue(r, queue)
		if err != nil {
			return err
		}
		start, end, err = openWindow(func(key string) ([]byte, error) {
			doc, _, err := r.Document(l.tenant, sinkNamespace, key)
			return doc.Value, err
		}, "s3:"+sink+":"+stages.Esc(row.Name)+":", k)
		if err == nil {
			err = l.listable(r, row, sink)
		}
		if err != nil {
			return err
		}
		view, live = r.Segments(queue), r.Removed(queue).Live(start, end)
		lost, err = r.Lost(l.tenant, sink, row.Name, start, end)
		return err
	})
	if err != nil {
		return stages.Listing{}, err
	}
	list, err := view.ListOf(ctx, live)
	if err != nil {
		return stages.Listing{}, err
	}
	list.K, list.Start, list.End, list.Lost = k, start, end, lost
	return list, l.name(queue, list.Parts)
}

// listable refuses a deleted queue that is kept for the windows of others: what this sink had not read of it counts as lost.
func (l *log) listable(r *state.Reader, row *state.QueueRow, sink string) error {
	if !r.IsHidden(row.ID) {
		return nil
	}
	kept, ok, err := r.Hidden(l.tenant, sink, row.Name)
	if err == nil && (!ok || kept.ID != row.ID) {
		err = errNoQueue
	}
	return err
}

// name fills in the names of partitions, a few thousand under one lock. A name never changes.
func (l *log) name(queue stages.QueueID, parts []stages.Part) error {
	for len(parts) > 0 {
		some := parts[:min(len(parts), namesAtOnce)]
		parts = parts[len(some):]
		err := l.state.Read(func(r *state.Reader) error {
			for i := range some {
				name, ok := r.PartitionName(queue, some[i].ID)
				if !ok {
					return fmt.Errorf("partition %d has appends but no name: %w", some[i].ID, stages.ErrDamaged)
				}
				some[i].Name = name
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Bodies reads the bodies of appends of a listing in the order given. Sealed payloads are opened.
func (l *log) Bodies(ctx context.Context, list *stages.Listing, appends []stages.Append, into func(i int, body stages.Body) error) error {
	sealed := false
	err := l.state.Read(func(r *state.Reader) error {
		row, err := l.queue(r, list.Queue)
		sealed = err == nil && row.Key != 0 // else nothing in it is, and nothing is looked at
		return err
	})
	if err != nil {
		return err
	}
	if sealed {
		into = seal.Opening(l.key, into)
	}
	return l.segs.Bodies(ctx, list, appends, into)
}
