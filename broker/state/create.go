package state

import (
	"slices"

	"queen/broker/dedup"
	"queen/stages"
)

// queue returns a queue by name, nil when there is none.
func (s *State) queue(tenant [16]byte, name string) *queue {
	if t := s.tenants[tenant]; t != nil {
		return t.byName[name]
	}
	return nil
}

// newQueueRow returns the row of a queue that is about to be made, without options.
func (s *State) newQueueRow(tenant [16]byte, name string) *QueueRow {
	row := &QueueRow{
		ID: stages.QueueID(s.meta.nextQueue), Tenant: tenant, Name: name, Created: s.meta.now,
		Config: s.meta.nextQueue<<32 | 1, // of this queue alone: a push that was prepared for an earlier one of its name is stale
	}
	row.Namespace, row.Task = nameParts(name)
	return row
}

// createQueue makes a queue of a row from newQueueRow.
func (tx *transaction) createQueue(row *QueueRow) (*queue, error) {
	tx.s.meta.nextQueue++
	q := tx.s.addQueue(row)
	if err := tx.set(queueNameKey(row.Tenant, row.Name), appendID(uint64(row.ID))); err != nil {
		return nil, err
	}
	return q, tx.set(queueKey(tableQueue, row.ID), row.append(nil))
}

// partition returns a partition of a queue by name, making it when there is none.
func (tx *transaction) partition(q *queue, name string) (*partition, error) {
	if p := q.byName[name]; p != nil {
		return p, nil
	}
	m := &tx.s.meta
	p := q.addPartition(Partition{ID: stages.PartitionID(m.nextPartition), Name: name, Created: m.now})
	m.nextPartition++
	if err := tx.set(partitionNameKey(q.row.ID, name), appendID(uint64(p.ID))); err != nil {
		return nil, err
	}
	return p, tx.set(partitionKey(q.row.ID, p.ID), p.append(nil))
}

// addQueue puts a queue into RAM. Queues come in the order of their ids.
func (s *State) addQueue(row *QueueRow) *queue {
	q := &queue{row: row, byName: make(map[string]*partition), ids: dedup.NewIndex(row.ID, &s.ids)}
	t := s.tenants[row.Tenant]
	if t == nil {
		t = &tenant{byName: make(map[string]*queue)}
		s.tenants[row.Tenant] = t
	}
	t.byName[row.Name] = q
	t.queues = append(t.queues, q)
	s.queues[row.ID] = q
	return q
}

// addPartition puts a partition into RAM. Partitions of a queue come in the order of their ids.
func (q *queue) addPartition(row Partition) *partition {
	p := &partition{Partition: row}
	q.byName[row.Name] = p
	q.partitions = append(q.partitions, p)
	return p
}

// from returns the place of the first partition with this id or a higher one.
func (q *queue) from(id stages.PartitionID) int {
	i, _ := slices.BinarySearchFunc(q.partitions, id, func(p *partition, id stages.PartitionID) int {
		switch {
		case p.ID < id:
			return -1
		case p.ID > id:
			return 1
		}
		return 0
	})
	return i
}

// byID returns a partition by id, nil when the queue has none.
func (q *queue) byID(id stages.PartitionID) *partition {
	if i := q.from(id); i < len(q.partitions) && q.partitions[i].ID == id {
		return q.partitions[i]
	}
	return nil
}
