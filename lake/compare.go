package lake

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"queen/stages"
)

// The size of pages of the log, bytes of payload. Each window visits each of its partitions once, and what a page holds beyond the window is read
// in vain: so the first page of a visit is small, and each further one larger.
const (
	firstPage   = 32 << 10
	pageGrowth  = 4
	largestPage = 8 << 20
)

// comparison walks the log beside the lake. Both are read in the order of partition and offset, so one page of the log at a
// time is held.
type comparison struct {
	log       Log
	queue     string
	born      stages.Micros // when the queue of this name was made that the log has
	partition string
	page      []Row
	last      int64 // offset of the row before, in this partition
	size      int64 // of the newest page
}

// read gets the page that begins at a row of the lake.
func (c *comparison) read(ctx context.Context, row Row) (low int64, err error) {
	if row.Partition == c.partition && row.Offset == c.last+1 {
		c.size = min(c.size*pageGrowth, largestPage)
	} else {
		c.size = firstPage
	}
	c.partition = row.Partition
	c.page, low, _, err = c.log.Fetch(ctx, c.queue, row.Partition, row.Offset, c.size)
	return low, err
}

// row compares one record of the lake with the log. What retention has taken from the log since cannot be compared, nor what is of a queue that was deleted.
func (c *comparison) row(ctx context.Context, r *reader, n int64, row Row) error {
	if row.TS < c.born {
		r.audit.summary.Earlier++
		return nil
	}
	if row.Partition != c.partition || len(c.page) == 0 || c.page[0].Offset != row.Offset {
		low, err := c.read(ctx, row)
		if err != nil {
			return err
		}
		if row.Offset < low {
			c.page = nil
			return nil
		}
	}
	c.last = row.Offset
	if len(c.page) == 0 || c.page[0].Offset != row.Offset {
		r.fault(n, "has offset %d of partition %q, which the log does not have", row.Offset, row.Partition)
		return nil
	}
	want := c.page[0]
	c.page = c.page[1:]
	r.audit.summary.Compared++
	switch {
	case want.TxID != row.TxID:
		r.fault(n, "has transactionId %q, the log has %q", row.TxID, want.TxID)
	case want.TS != row.TS:
		r.fault(n, "has ts %s, the log has %s", iso(row.TS), iso(want.TS))
	case !r.manifest.holds(want.Payload, row.Payload):
		r.fault(n, "has payload %.60q, the log has %.60q", row.Payload, want.Payload)
	}
	return nil
}

// holds tells whether a payload of the log stands in an object of this format as it must. The log's API has one spelling, null, for no payload and for
// the payload null, which a Parquet file tells apart.
func (m *Manifest) holds(want, got []byte) bool {
	if m.Format == "parquet" {
		return bytes.Equal(want, got) || got == nil && (len(want) == 0 || string(want) == "null")
	}
	return bytes.Equal(flat(want), got)
}

// flat is a payload as a line holds it: each raw line break is one space, and nothing is null (contract S9).
func flat(payload []byte) []byte {
	if len(payload) == 0 {
		return []byte("null")
	}
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, payload)
}

// rest looks for records of the log that should be in the lake and are not: stamped between the start of the first window and
// the end of the last one, before the first offset or behind the last one that the lake has of their partition.
func (a *audit) rest(ctx context.Context, q *queueKeys, h *history) error {
	c := h.compare
	if c == nil || h.end == stages.Beginning {
		return nil
	}
	names, known, err := c.log.Partitions(ctx, c.queue)
	if errors.Is(err, ErrNoPartitions) {
		names, known, err = slices.Sorted(maps.Keys(h.places)), true, nil
		names = slices.DeleteFunc(names, func(name string) bool { return h.places[name].ts < c.born })
	}
	if err != nil {
		return err
	}
	if !known {
		a.fault(q.String(), "is a queue that the broker does not have: it was deleted, or this is not the broker whose lake it is")
		return nil
	}
	for _, name := range names {
		at := h.places[name]
		if at == nil || at.ts < c.born {
			if err := a.missing(ctx, q, h, name, 0, -1); err != nil {
				return err
			}
			continue
		}
		if err := a.missing(ctx, q, h, name, 0, at.first); err != nil {
			return err
		}
		if err := a.missing(ctx, q, h, name, at.next, -1); err != nil {
			return err
		}
	}
	return nil
}

// missing reads offsets from..to-1 of a partition (to = -1: all there are) and reports the first and the number of those that
// the lake should hold.
func (a *audit) missing(ctx context.Context, q *queueKeys, h *history, partition string, from, to int64) error {
	var first Row
	n := 0
	for size := int64(firstPage); to < 0 || from < to; size = min(size*pageGrowth, largestPage) {
		rows, low, high, err := h.compare.log.Fetch(ctx, h.compare.queue, partition, from, size)
		if err != nil {
			return err
		}
		if len(rows) == 0 && from < low && low < high {
			from = low
			continue
		}
		if len(rows) == 0 {
			break
		}
		for _, row := range rows {
			if (to < 0 || row.Offset < to) && row.TS >= h.begin && row.TS < h.end {
				if n++; n == 1 {
					first = row
				}
			}
		}
		from = rows[len(rows)-1].Offset + 1
		if rows[len(rows)-1].TS >= h.end {
			break
		}
	}
	if n > 0 {
		a.fault(q.String(), "lacks %s of partition %q that the log has, from offset %d, %s", count(n, "record"), partition, first.Offset, iso(first.TS))
	}
	return nil
}
