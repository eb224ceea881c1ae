package broker

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"queen/broker/segment"
	"queen/broker/state"
	"queen/stages"
)

// Positions says where each partition of a queue is read on from at a moment of the log clock that is over.
func (l *log) Positions(ctx context.Context, queue stages.QueueID, at stages.Micros) ([]stages.Position, error) {
	var out []stages.Position
	var after stages.PartitionID
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var page []state.Partition
		var view segment.View
		var seed [16]byte
		err := l.state.Read(func(r *state.Reader) error {
			if _, err := l.queue(r, queue); err != nil {
				return err
			}
			if out == nil {
				out = make([]stages.Position, 0, r.PartitionCount(queue)) // a list that grows is held twice for a while
			}
			page, more = r.Partitions(queue, after, stages.Beginning, namesAtOnce)
			view, seed = r.Segments(queue), r.Seed()
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("positions of queue %d: %w", queue, err)
		}
		for _, p := range page {
			after = p.ID
			if p.Created >= at { // its first record is stamped at its creation
				continue
			}
			offset, err := positionOf(view, p, at)
			if err != nil {
				return nil, fmt.Errorf("position of queue %d, partition %q: %w", queue, p.Name, err)
			}
			out = append(out, stages.Position{Name: p.Name, Offset: offset, ID: state.UUIDBytes(seed, state.KindPartition, uint64(p.ID))})
		}
	}
	slices.SortFunc(out, func(a, b stages.Position) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// positionOf is the offset of the first record stamped at or above at: everything below it is stamped below.
func positionOf(view segment.View, p state.Partition, at stages.Micros) (int64, error) {
	if p.Last < at {
		return p.Next, nil
	}
	h, found, err := view.First(p.ID, at, p.Start)
	if err != nil || !found {
		return p.Next, err
	}
	return max(h.Base, p.Start), nil
}
