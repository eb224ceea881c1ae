package state

import (
	"slices"

	"queen/broker/kv"
	"queen/broker/segment"
	"queen/stages"
)

// Reader shows one view of the state: what was applied up to Safe, and nothing else. It is valid inside the function that Read
// calls; what it returns stays valid. Unknown queues have no partitions and empty segments.
type Reader struct{ s *State }

// Safe returns the log clock of the view.
func (r *Reader) Safe() stages.Micros { return r.s.meta.now }

// Seed returns the cluster seed.
func (r *Reader) Seed() [16]byte { return r.s.meta.seed }

// Led returns the led clock of the view.
func (r *Reader) Led() stages.Micros { return r.s.meta.led }

// Queue returns a queue by name.
func (r *Reader) Queue(tenant [16]byte, name string) (*QueueRow, bool) {
	if q := r.s.queue(tenant, name); q != nil {
		return q.row, true
	}
	return nil, false
}

// QueueByID returns a queue by id.
func (r *Reader) QueueByID(id stages.QueueID) (*QueueRow, bool) {
	if q := r.s.queues[id]; q != nil {
		return q.row, true
	}
	return nil, false
}

// Queues returns the queues of a tenant in creation order.
func (r *Reader) Queues(tenant [16]byte) []*QueueRow {
	t := r.s.tenants[tenant]
	if t == nil {
		return nil
	}
	rows := make([]*QueueRow, len(t.queues))
	for i, q := range t.queues {
		rows[i] = q.row
	}
	return rows
}

// Moved returns the queues of a tenant with an append stamped at or after since, in creation order.
func (r *Reader) Moved(tenant [16]byte, since stages.Micros) []stages.QueueID {
	t := r.s.tenants[tenant]
	if t == nil {
		return nil
	}
	var moved []stages.QueueID
	for _, q := range t.queues {
		if q.last != 0 && q.last >= since {
			moved = append(moved, q.row.ID)
		}
	}
	return moved
}

// LastStamp returns the stamp of the newest append of a queue; ok is false when nothing was ever pushed to it.
func (r *Reader) LastStamp(id stages.QueueID) (stamp stages.Micros, ok bool) {
	if q := r.s.queues[id]; q != nil {
		return q.last, q.last != 0
	}
	return 0, false
}

// Partition returns a partition of a queue by name.
func (r *Reader) Partition(id stages.QueueID, name string) (Partition, bool) {
	if q := r.s.queues[id]; q != nil {
		if p := q.byName[name]; p != nil {
			return p.Partition, true
		}
	}
	return Partition{}, false
}

// PartitionByID returns a partition of a queue by id.
func (r *Reader) PartitionByID(id stages.QueueID, p stages.PartitionID) (Partition, bool) {
	if q := r.s.queues[id]; q != nil {
		if p := q.byID(p); p != nil {
			return p.Partition, true
		}
	}
	return Partition{}, false
}

// PartitionName returns the name of a partition of a queue.
func (r *Reader) PartitionName(id stages.QueueID, p stages.PartitionID) (string, bool) {
	found, ok := r.PartitionByID(id, p)
	return found.Name, ok
}

// PartitionCount returns the number of partitions of a queue.
func (r *Reader) PartitionCount(id stages.QueueID) int {
	if q := r.s.queues[id]; q != nil {
		return len(q.partitions)
	}
	return 0
}

// Partitions returns up to limit partitions of a queue in creation order: those with an id above after and an append stamped
// at or after since; stages.Beginning also takes those that were never written. more says that there are others.
func (r *Reader) Partitions(id stages.QueueID, after stages.PartitionID, since stages.Micros, limit int) (page []Partition, more bool) {
	q := r.s.queues[id]
	if q == nil {
		return nil, false
	}
	for _, p := range q.partitions[q.from(after+1):] {
		if since != stages.Beginning && (p.Last == 0 || p.Last < since) {
			continue
		}
		if len(page) == limit {
			return page, true
		}
		page = append(page, p.Partition)
	}
	return page, false
}

// Document returns a live document.
func (r *Reader) Document(tenant [16]byte, ns, key string) (kv.Row, bool, error) {
	return kv.Find(rowReader{r.s}, tenant, r.s.meta.now, r.s.meta.led, ns, key)
}

// Documents returns up to limit (at most kv.MaxLimit) live documents whose keys begin with a prefix, in byte order of their
// keys; more says that there are others.
func (r *Reader) Documents(tenant [16]byte, ns, prefix string, limit int) (rows []kv.Row, more bool, err error) {
	rows, more, err = kv.List(rowReader{r.s}, tenant, r.s.meta.now, r.s.meta.led, ns, prefix, limit)
	return rows, more, err
}

// Segments returns the log of a queue as it stands in this view. It may be used after the Reader.
func (r *Reader) Segments(id stages.QueueID) segment.View { return r.s.segments.View(id) }

// QueueIDs returns the ids of all queues of all tenants, in creation order.
func (r *Reader) QueueIDs() []stages.QueueID {
	ids := make([]stages.QueueID, 0, len(r.s.queues))
	for id := range r.s.queues {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// rowReader reads committed rows.
type rowReader struct{ s *State }

func (r rowReader) Get(key []byte) ([]byte, error) { return get(r.s.db, key) }

func (r rowReader) Scan(lower, upper []byte, fn func(key, value []byte) bool) error {
	return scan(r.s.db, lower, upper, fn)
}
