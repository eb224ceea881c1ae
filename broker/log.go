package broker

import (
	"context"
	"errors"
	"fmt"
	"iter"

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
	tenant [16]byte
	bad    error // the tenant's name is no UUID: it has no queues
}

var _ stages.Log = (*log)(nil)

// ctxEvery is how many headers are read between two looks at the context.
const ctxEvery = 4096

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

// Headers yields the appends with from <= TS < before in stamp order.
func (l *log) Headers(ctx context.Context, queue stages.QueueID, from, before stages.Micros) iter.Seq2[stages.Header, error] {
	return func(yield func(stages.Header, error) bool) {
		var view segment.View
		err := l.state.Read(func(r *state.Reader) error {
			if _, err := l.queue(r, queue); err != nil {
				return err
			}
			view = r.Segments(queue)
			return nil
		})
		if err != nil {
			yield(stages.Header{}, err)
			return
		}
		n := 0
		for h, err := range view.Headers(from, before) {
			if n++; err == nil && n%ctxEvery == 0 {
				err = ctx.Err()
			}
			if !yield(h, err) || err != nil {
				return
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
	var view segment.View
	list := stages.Listing{K: k}
	err := l.state.Read(func(r *state.Reader) error {
		row, err := l.queue(r, queue)
		if err != nil {
			return err
		}
		list.Start, list.End, err = openWindow(func(key string) ([]byte, error) {
			doc, _, err := r.Document(l.tenant, sinkNamespace, key)
			return doc.Value, err
		}, "s3:"+sink+":"+stages.Esc(row.Name)+":", k)
		view = r.Segments(queue)
		return err
	})
	if err != nil {
		return stages.Listing{}, fmt.Errorf("list window %d of queue %d: %w", k, queue, err)
	}
	names := make(map[stages.PartitionID]string)
	for h, err := range view.Headers(list.Start, list.End) {
		if err == nil && len(list.Appends)%ctxEvery == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return stages.Listing{}, fmt.Errorf("list window %d of queue %d: %w", k, queue, err)
		}
		list.Appends = append(list.Appends, h)
		names[h.Partition] = ""
	}
	list.Names = names
	return list, l.name(queue, names)
}

// name fills in the names of partitions, a few thousand under one lock. A name never changes.
func (l *log) name(queue stages.QueueID, names map[stages.PartitionID]string) error {
	ids := make([]stages.PartitionID, 0, len(names))
	for id := range names {
		ids = append(ids, id)
	}
	for len(ids) > 0 {
		some := ids[:min(len(ids), ctxEvery)]
		ids = ids[len(some):]
		err := l.state.Read(func(r *state.Reader) error {
			for _, id := range some {
				name, ok := r.PartitionName(queue, id)
				if !ok {
					return fmt.Errorf("queue %d: partition %d has appends but no name: %w", queue, id, stages.ErrDamaged)
				}
				names[id] = name
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Bodies reads the bodies of appends in the order given.
func (l *log) Bodies(ctx context.Context, queue stages.QueueID, headers []stages.Header, into func(i int, body stages.Body) error) error {
	err := l.state.Read(func(r *state.Reader) error {
		_, err := l.queue(r, queue)
		return err
	})
	if err != nil {
		return err
	}
	return l.segs.Bodies(ctx, queue, headers, into)
}
