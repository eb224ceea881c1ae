package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"queen/broker/command/wire"
	"queen/stages"
)

// What was removed and a sink had not read is remembered until the window that reports it is real (contract B6): L rows, one for each sink and
// incarnation of a partition, or two while a window is open. They are of the queue's name, not of its id: what a delete took is reported by
// the queue that comes after it under that name, and so rows hold the names of partitions.
//
// A row belongs to the window with position <= first < tEnd. It grows while it cannot belong to an open window, since the listing of one must
// stay as it is; after that another one begins.

// lostRow is one L row.
type lostRow struct {
	id       stages.PartitionID
	first    stages.Micros // stamp of its first record
	name     string        // of the partition
	from, to int64         // offsets, both included
}

// lostPrefix is what the keys of the L rows of a sink and a queue begin with; the queue's name is escaped.
func lostPrefix(tenant [16]byte, sink, queue string) []byte {
	b := append([]byte{tableLost}, tenant[:]...)
	b = append(b, byte(len(sink)))
	b = append(b, sink...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(queue)))
	return append(b, queue...)
}

func (l *lostRow) key(prefix []byte) []byte {
	b := binary.BigEndian.AppendUint64(bytes.Clone(prefix), uint64(l.id))
	return binary.BigEndian.AppendUint64(b, uint64(l.first))
}

func (l *lostRow) append() []byte {
	b := wire.AppendString([]byte{rowVersion}, l.name)
	b = binary.BigEndian.AppendUint64(b, uint64(l.from))
	return binary.BigEndian.AppendUint64(b, uint64(l.to))
}

func decodeLost(prefix, key, row []byte) (l lostRow, err error) {
	if len(key) != len(prefix)+16 {
		return l, fmt.Errorf("row %q: bad key", key)
	}
	r, err := versioned(row)
	if err != nil {
		return l, fmt.Errorf("row %q: %w", key, err)
	}
	rest := key[len(prefix):]
	l = lostRow{id: stages.PartitionID(binary.BigEndian.Uint64(rest)), first: stages.Micros(binary.BigEndian.Uint64(rest[8:])),
		name: r.String(), from: r.I64(), to: r.I64()}
	if err := r.End(); err != nil {
		return l, fmt.Errorf("row %q: %w", key, err)
	}
	return l, nil
}

// scanLost calls fn for each L row between two keys.
func scanLost(tx interface {
	Scan(lower, upper []byte, fn func(key, value []byte) bool) error
}, prefix, lower, upper []byte, fn func(l lostRow) error) error {
	var fault error
	err := tx.Scan(lower, upper, func(key, row []byte) bool {
		var l lostRow
		if l, fault = decodeLost(prefix, key, row); fault == nil {
			fault = fn(l)
		}
		return fault == nil
	})
	return cmp.Or(err, fault)
}

// above is the first key above all that begin with a prefix, whose last byte is that of an escaped name or of a partition id's last but one.
func above(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; ; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
}

// forgetLost removes the L rows that belong to windows below a stamp.
func (tx *transaction) forgetLost(prefix []byte, below stages.Micros) error {
	docs := tx.documents()
	var gone [][]byte
	err := scanLost(docs, prefix, prefix, above(prefix), func(l lostRow) error {
		if l.first < below {
			gone = append(gone, l.key(prefix))
		}
		return nil
	})
	for _, key := range gone {
		err = cmp.Or(err, docs.Delete(key))
	}
	return err
}

// losses are the L rows of one sink that a command makes or lets grow.
type losses struct {
	tx     *transaction
	prefix []byte
	grows  stages.Micros // rows that begin below it belong to a window that is open or real
	rows   map[stages.PartitionID]*lostRow
	count  int64
}

// add takes an append that goes.
func (l *losses) add(p *partition, h stages.Header) error {
	l.count += int64(h.Count)
	to := h.Base + int64(h.Count) - 1
	row, err := l.newest(p.ID)
	if err != nil {
		return err
	}
	if row != nil && row.first >= l.grows && row.to+1 == h.Base {
		row.to = to
		return nil
	}
	if row != nil {
		if err := l.put(row); err != nil {
			return err
		}
	}
	l.rows[p.ID] = &lostRow{id: p.ID, first: h.TS, name: p.Name, from: h.Base, to: to}
	return nil
}

// newest returns the last row of a partition, nil when it has none.
func (l *losses) newest(id stages.PartitionID) (*lostRow, error) {
	if row, known := l.rows[id]; known {
		return row, nil
	}
	var last *lostRow
	of := binary.BigEndian.AppendUint64(bytes.Clone(l.prefix), uint64(id))
	err := scanLost(l.tx.documents(), l.prefix, of, above(of), func(row lostRow) error {
		last = &row
		return nil
	})
	l.rows[id] = last
	return last, err
}

func (l *losses) put(row *lostRow) error {
	return l.tx.documents().Set(row.key(l.prefix), row.append())
}

// store writes what has changed, or may have.
func (l *losses) store() error {
	for _, row := range l.rows { // in any order: they are rows of a batch
		if row == nil {
			continue
		}
		if err := l.put(row); err != nil {
			return err
		}
	}
	return nil
}

// Lost returns what a sink lost of a queue and reports in the window from <= stamp < before, by partition name, then in the order of its loss.
func (r *Reader) Lost(tenant [16]byte, sink, queue string, from, before stages.Micros) ([]stages.Range, error) {
	prefix := lostPrefix(tenant, sink, stages.Esc(queue))
	var rows []lostRow
	err := scanLost(rowReader{r.s}, prefix, prefix, above(prefix), func(l lostRow) error {
		if l.first >= from && l.first < before {
			rows = append(rows, l)
		}
		return nil
	})
	slices.SortFunc(rows, func(a, b lostRow) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.first, b.first), cmp.Compare(a.id, b.id))
	})
	var lost []stages.Range
	for _, l := range rows {
		lost = append(lost, stages.Range{Partition: l.name, From: l.from, To: l.to})
	}
	return lost, err
}
