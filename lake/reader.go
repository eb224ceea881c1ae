package lake

import (
	"context"

	"queen/stages"
)

// reader checks the records of one data object, which are lines or rows.
type reader struct {
	audit    *audit
	manifest *Manifest
	object   DataObject
	key      string
	history  *history
	limit    int // faults of lines that may still be listed
	hidden   int // and those that were not

	last       Row // payload not kept
	any        bool
	partitions int
	minTS      stages.Micros
	maxTS      stages.Micros
	low, high  int64 // offsets
}

// add counts the records of another object of the same window.
func (r *reader) add(o *reader) {
	r.partitions += o.partitions
	if !o.any {
		return
	}
	if !r.any {
		r.minTS, r.maxTS = o.minTS, o.maxTS
	}
	r.any, r.minTS, r.maxTS = true, min(r.minTS, o.minTS), max(r.maxTS, o.maxTS)
}

func (r *reader) fault(n int64, format string, args ...any) {
	if r.limit == 0 {
		r.hidden++
		return
	}
	r.limit--
	noun := "line"
	if r.manifest.Format == "parquet" {
		noun = "row"
	}
	r.audit.fault(r.key, noun+" %d "+format, append([]any{n}, args...)...)
}

// read reads the object and checks each record of it.
func (r *reader) read(ctx context.Context) (seen, error) {
	if r.manifest.Format == "parquet" {
		return readParquet(ctx, r.audit.store, r.key, r.manifest, func(n int64, row Row) error { return r.row(ctx, n, row) })
	}
	return readObject(ctx, r.audit.store, r.key, r.manifest.Compression, func(n int64, line []byte) error { return r.line(ctx, n, line) })
}

func (r *reader) line(ctx context.Context, n int64, text []byte) error {
	row, err := parseLine(text)
	if err != nil {
		r.audit.summary.Records++
		r.fault(n, "%v", err)
		return nil
	}
	return r.row(ctx, n, row)
}

func (r *reader) row(ctx context.Context, n int64, row Row) error {
	r.audit.summary.Records++
	if row.TS < r.manifest.Start || row.TS >= r.manifest.End {
		r.fault(n, "is stamped %s, outside its window", iso(row.TS))
	}
	r.order(n, row)
	r.offset(n, row)
	if !r.any {
		r.minTS, r.maxTS, r.low, r.high = row.TS, row.TS, row.Offset, row.Offset
	}
	r.minTS, r.maxTS = min(r.minTS, row.TS), max(r.maxTS, row.TS)
	r.low, r.high = min(r.low, row.Offset), max(r.high, row.Offset)
	if p := r.object.Partition; p != nil && *p != row.Partition {
		r.fault(n, "is of partition %q, its object of %q", row.Partition, *p)
	}
	if !r.any || row.Partition != r.last.Partition {
		r.partitions++
	}
	r.any, r.last = true, row
	r.last.Payload = nil
	if c := r.history.compare; c != nil {
		return c.row(ctx, r, n, row)
	}
	return nil
}

// order: partition name as bytes, then ts, then offset.
func (r *reader) order(n int64, row Row) {
	if !r.any {
		return
	}
	last := r.last
	switch {
	case row.Partition < last.Partition:
		r.fault(n, "has partition %q behind %q", row.Partition, last.Partition)
	case row.Partition == last.Partition && row.TS < last.TS:
		r.fault(n, "is stamped %s, behind %s in its partition", iso(row.TS), iso(last.TS))
	case row.Partition == last.Partition && row.TS == last.TS && row.Offset <= last.Offset:
		r.fault(n, "has offset %d behind %d", row.Offset, last.Offset)
	}
}

// offset: each record is in the lake once, and none is left out. A partition that was deleted and created again begins at 0.
func (r *reader) offset(n int64, row Row) {
	at := r.history.places[row.Partition]
	if at == nil {
		at = &place{next: row.Offset, first: row.Offset, ts: stages.Beginning}
		r.history.places[row.Partition] = at
	}
	switch {
	case row.Offset == at.next && row.TS >= at.ts:
	case row.Offset > at.next && r.lost(row.Partition, at.next, row.Offset-1):
	case row.Offset < at.next && row.TS > at.ts && (row.Offset == 0 || r.lost(row.Partition, 0, row.Offset-1)):
		at.first = row.Offset
	case row.Offset < at.next:
		r.fault(n, "has offset %d of partition %q once more: %d comes next", row.Offset, row.Partition, at.next)
		return
	case row.Offset > at.next:
		r.fault(n, "has offset %d of partition %q: %d to %d are neither here nor in lost", row.Offset, row.Partition, at.next, row.Offset-1)
	default:
		r.fault(n, "has offset %d of partition %q with a stamp before that of the offset before it", row.Offset, row.Partition)
	}
	if len(r.history.lost[row.Partition]) > 0 {
		r.passed(row, row.Offset < at.next)
	}
	at.next, at.ts = row.Offset+1, row.TS
}

// passed drops what was lost in front of a record. Offsets that begin again leave nothing of what an earlier partition of the name lost.
func (r *reader) passed(row Row, again bool) {
	from := r.history.lost[row.Partition]
	if again {
		from = r.manifest.Lost
	}
	var left []LostRange
	for _, l := range from {
		if l.Partition == row.Partition && l.To > row.Offset {
			left = append(left, l)
		}
	}
	if r.history.lost[row.Partition] = left; left == nil {
		delete(r.history.lost, row.Partition)
	}
}

// lost tells whether manifests say that all of from..to of a partition is lost.
func (r *reader) lost(partition string, from, to int64) bool {
	for from <= to {
		moved := false
		for _, l := range r.history.lost[partition] {
			if l.From <= from && l.To >= from {
				from, moved = l.To+1, true
			}
		}
		if !moved {
			return false
		}
	}
	return true
}

// finish compares what was read with what the manifest says of the object.
func (r *reader) finish(s seen) {
	a, o := r.audit, r.object
	a.summary.Bytes += s.bytes
	if r.hidden > 0 {
		a.fault(r.key, "has %s more of this kind", count(r.hidden, "fault"))
	}
	if s.sum != o.SHA256 {
		a.fault(r.key, "has sha256 %s, its manifest says %s", s.sum, o.SHA256)
	}
	if s.records != o.Records {
		a.fault(r.key, "has %s, its manifest says %d", count64(s.records, "record"), o.Records)
	}
	if o.Partition != nil && r.any && (*o.First != r.low || *o.Last != r.high) {
		a.fault(r.key, "has offsets from %d to %d, its manifest says %d to %d", r.low, r.high, *o.First, *o.Last)
	}
}
