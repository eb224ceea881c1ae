package state

import (
	"bytes"
	"cmp"
	"slices"
)

// Shared calls fn for each row that follows from the log alone, in the order of their keys, and returns the raft index that they are of: two
// nodes that have applied the same index have the same rows. fn sees whole entries and keeps neither slice.
//
// What a node decides for itself is left out: which segments it did away with (F), and so where frames lie (T, U), and what a flush brought
// up to date (H). R rows are as they would be after a flush.
func (s *State) Shared(fn func(key, value []byte)) (applied uint64, err error) {
	err = s.Read(func(r *Reader) error {
		applied = s.meta.applied
		heads := s.heads()
		err := scan(s.db, nil, nil, func(key, value []byte) bool {
			for len(heads) > 0 && bytes.Compare(heads[0].key, key) < 0 {
				fn(heads[0].key, heads[0].value)
				heads = heads[1:]
			}
			switch key[0] {
			case tableDropped, tableHeads, tablePartition:
			case tableTail, tableIDs:
				fn(key, value[placeBytes:])
			default:
				fn(key, value)
			}
			return true
		})
		for _, row := range heads {
			fn(row.key, row.value)
		}
		return err
	})
	return applied, err
}

// placeBytes is how long a row's version and its place in a queue's log are.
const placeBytes = 1 + 4 + 8

type keyed struct{ key, value []byte }

// heads returns the R rows as they are in RAM, sorted. The caller holds the read lock.
func (s *State) heads() []keyed {
	var rows []keyed
	for _, q := range s.queues {
		for _, p := range q.partitions {
			rows = append(rows, keyed{partitionKey(q.row.ID, p.ID), p.append(nil)})
		}
	}
	slices.SortFunc(rows, func(a, b keyed) int { return cmp.Compare(string(a.key), string(b.key)) })
	return rows
}
