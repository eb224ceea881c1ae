package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"queen/broker/segment"
	"queen/broker/state"
	"queen/internal/jsontext"
	"queen/stages"
)

// Errors of one entry, as on the wire.
const (
	unknownPartition = "UNKNOWN_TOPIC_OR_PARTITION"
	outOfRange       = "OFFSET_OUT_OF_RANGE"
)

// found is what is there for one entry of a fetch: bounds, and the first appends, all from one view of the state. Bodies are read
// when the answer is written.
type found struct {
	queue     stages.QueueID
	part      stages.PartitionID
	view      segment.View
	low, high int64           // lowest readable offset, next offset to be written
	appends   []stages.Header // listed and not yet read
	next      int64           // offset behind them
	fault     string          // of the entry
}

// fetch is POST /api/v1/fetch: records by offset from this node's applied state, with no lease and no cursor.
func (s *server) fetch(w http.ResponseWriter, r *http.Request, _ []string) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	f, err := parseFetch(body)
	if err != nil {
		return err
	}
	all, err := s.await(r.Context(), f)
	if err != nil {
		return err
	}
	out := &stream{w: w, status: http.StatusOK, buf: append(make([]byte, 0, 4096), `{"entries":[`...)}
	for i := range all {
		if i > 0 {
			out.buf = append(out.buf, ',')
		}
		if err := s.appendEntry(r.Context(), out, &f.entries[i], &all[i]); err != nil {
			return s.abort(out, err)
		}
	}
	out.buf = append(out.buf, "]}"...)
	out.finish()
	return nil
}

// await looks until at least minBytes are there, an entry is in error, or the time is up.
func (s *server) await(ctx context.Context, f *fetchRequest) ([]found, error) {
	limit := time.NewTimer(time.Duration(f.waitMs) * time.Millisecond)
	defer limit.Stop()
	for {
		changed := s.o.Broker.State().Changed() // before looking, so that nothing slips between
		all, size, err := s.look(f)
		if err != nil || f.waitMs == 0 || size < 0 || size >= f.minBytes {
			return all, err
		}
		select {
		case <-changed:
		case <-limit.C:
			return all, nil
		case <-s.o.Stop:
			return all, nil
		case <-ctx.Done():
			return all, nil
		}
	}
}

// look finds what is there for each entry. size is about how many bytes of records that is; less than 0 when an entry is in error.
func (s *server) look(f *fetchRequest) (all []found, size int64, err error) {
	all = make([]found, len(f.entries))
	err = s.o.Broker.State().Read(func(rd *state.Reader) error {
		for i := range all {
			s.bounds(rd, &f.entries[i], &all[i])
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	fault := false
	for i := range all {
		e, at := &f.entries[i], &all[i]
		if at.fault != "" {
			fault = true
			continue
		}
		// No more than the decision to wait needs: the rest is listed when it is written, one entry at a time.
		n, err := at.list(min(max(f.minBytes-size, 1), int64(e.maxBytes)), maxFetchRecords)
		if err != nil {
			return nil, 0, fmt.Errorf("fetch %s/%s: %w", e.queue, e.partition, err)
		}
		size += n
	}
	if fault {
		size = -1
	}
	return all, size, nil
}

// bounds fills in where the partition begins and ends, and what is there at the offset.
func (s *server) bounds(rd *state.Reader, e *fetchEntry, at *found) {
	if s.extent(rd, e.queue, e.partition, at); at.fault != "" {
		return
	}
	if e.offset < at.low || e.offset > at.high {
		at.fault = outOfRange
		return
	}
	at.next = e.offset
	if at.next < at.high {
		at.view = rd.Segments(at.queue)
	}
}

// extent fills in where a partition begins and ends. One that was never written is empty, from 0 to 0, and not ok.
func (s *server) extent(rd *state.Reader, queue, partition string, at *found) (p state.Partition, ok bool) {
	q, ok := rd.Queue(s.tenant, queue)
	if !ok {
		at.fault = unknownPartition
		return p, false
	}
	if p, ok = rd.Partition(q.ID, partition); ok {
		at.queue, at.part, at.low, at.high = q.ID, p.ID, p.Start, p.Next
	}
	return p, ok
}

// appendExtent writes the end of an entry: its bounds and its error.
func (at *found) appendExtent(b []byte) []byte {
	b = appendInt(append(b, `,"highWatermark":`...), at.high)
	b = appendInt(append(b, `,"logStartOffset":`...), at.low)
	if at.fault != "" {
		b = member(append(b, ','), "error", at.fault)
	}
	return b
}

// list finds the next appends, enough for so many bytes and records, and returns about how many bytes they hold: a record counts
// its weight without the fixed part.
func (at *found) list(bytes, records int64) (size int64, err error) {
	at.appends = at.appends[:0]
	for at.next < at.high && size < bytes && records > 0 {
		h, ok, err := at.view.Find(at.part, at.next)
		if err != nil {
			return 0, err
		}
		if !ok { // offsets are gapless below the high watermark
			return 0, fmt.Errorf("offset %d of partition %d: %w", at.next, at.part, stages.ErrDamaged)
		}
		wanted := h.Base + int64(h.Count) - at.next
		each := int64(h.Weight)/int64(h.Count) - recordOverhead
		size += max(each, 1) * wanted
		records -= wanted
		at.next += wanted
		at.appends = append(at.appends, h)
	}
	return size, nil
}

// recordOverhead is what stages.RecordWeight adds to every record.
const recordOverhead = 64

// errFull ends the reading of an entry that has all it may return.
var errFull = errors.New("entry is full")

// appendEntry writes one entry.
func (s *server) appendEntry(ctx context.Context, out *stream, e *fetchEntry, at *found) error {
	out.buf = member(append(out.buf, '{'), "queue", e.queue)
	out.buf = member(append(out.buf, ','), "partition", e.partition)
	out.buf = append(out.buf, `,"records":[`...)
	rs := records{out: out, e: e}
	for len(at.appends) > 0 {
		list := segment.Pick(at.queue, at.appends)
		err := s.o.Broker.Log(stages.DefaultTenant).Bodies(ctx, &list, list.Appends, rs.append)
		if errors.Is(err, errFull) {
			break
		}
		if err == nil {
			_, err = at.list(int64(e.maxBytes-rs.size), int64(maxFetchRecords-rs.n))
		}
		if err != nil {
			return fmt.Errorf("fetch %s/%s at %d: %w", e.queue, e.partition, e.offset, err)
		}
	}
	out.buf = append(at.appendExtent(append(out.buf, ']')), '}')
	return nil
}

// records writes the records of one entry, up to its limits.
type records struct {
	out  *stream
	e    *fetchEntry
	n    int // records written
	size int // and the bytes of their payloads
}

// append writes the records of one append. Payloads are spliced as they are stored.
func (rs *records) append(_ int, body stages.Body) error {
	ts := appendISO6(make([]byte, 0, 32), body.Header().TS)
	for rec, err := range body.Records() {
		switch {
		case err != nil:
			return err
		case rec.Offset < rs.e.offset:
			continue
		case rs.n == maxFetchRecords || rs.n > 0 && rs.size+len(rec.Payload) > rs.e.maxBytes:
			return errFull
		}
		if rs.n > 0 {
			rs.out.buf = append(rs.out.buf, ',')
		}
		rs.n, rs.size = rs.n+1, rs.size+len(rec.Payload)
		rs.out.buf = appendRecord(rs.out.buf, rec, ts)
		if !rs.out.spill() {
			return rs.out.err
		}
	}
	return nil
}

func appendRecord(b []byte, rec stages.Record, ts []byte) []byte {
	b = appendInt(append(b, `{"offset":`...), rec.Offset)
	b = jsontext.AppendQuoted(append(b, `,"transactionId":`...), rec.TxID)
	b = append(b, `,"payload":`...)
	switch {
	case len(rec.Payload) == 0:
		b = append(b, "null"...)
	case rec.Sealed && !wellFormed(rec.Payload): // an envelope is, and is shown as it is stored
		b = jsontext.AppendLossy(b, rec.Payload)
	default:
		b = append(b, rec.Payload...)
	}
	b = append(append(b, `,"ts":`...), ts...)
	return append(b, '}')
}

func wellFormed(b []byte) bool {
	_, err := jsontext.Scan(b)
	return err == nil
}
