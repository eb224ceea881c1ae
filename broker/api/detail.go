package api

import (
	"context"
	"fmt"
	"net/http"

	"queen/broker/segment"
	"queen/broker/state"
	"queen/stages"
)

// detailPage is how many partitions are read under one hold of the state's lock, and then looked up and written.
const detailPage = 1024

// queue is GET /api/v1/resources/queues/:queue: one queue with all its partitions, in creation order.
//
// As in the listing, every message that is kept is pending, and what the broker does not count is null.
func (s *server) queue(w http.ResponseWriter, r *http.Request, params []string) error {
	var row *state.QueueRow
	var segments int64
	err := s.o.Broker.State().Read(func(rd *state.Reader) error {
		var ok bool
		if row, ok = rd.Queue(s.tenant, params[0]); !ok {
			return refuse(codeNotFound, "Queue not found")
		}
		segments = int64(rd.Segments(row.ID).Tail().Seg)
		return nil
	})
	if err != nil {
		return err
	}
	out := &stream{w: w, status: http.StatusOK}
	out.buf = member(append(out.buf, '{'), "id", s.queueUUID(row))
	out.buf = member(append(out.buf, ','), "name", row.Name)
	out.buf = member(append(out.buf, ','), "namespace", row.Namespace)
	out.buf = member(append(out.buf, ','), "task", row.Task)
	out.buf = appendISO6(append(out.buf, `,"createdAt":`...), row.Created)
	out.buf = appendOptions(append(out.buf, `,"options":`...), row)
	out.buf = append(out.buf, `,"partitions":[`...)
	messages, err := s.appendPartitions(r.Context(), out, row.ID)
	if err != nil {
		return s.abort(out, fmt.Errorf("partitions of queue %s: %w", row.Name, err))
	}
	out.buf = appendInt(append(out.buf, `],"segments":{"segments":`...), segments)
	out.buf = appendInt(append(out.buf, `,"messages":`...), messages)
	out.buf = appendStats(append(out.buf, `},"totals":`...), messages)
	out.buf = append(out.buf, `,"retainedBytes":null}`...)
	out.finish()
	return nil
}

// appendPartitions writes the partitions of a queue and returns how many messages they keep.
func (s *server) appendPartitions(ctx context.Context, out *stream, id stages.QueueID) (messages int64, err error) {
	seed, _ := s.o.Broker.State().Seed()
	first, after, more := true, stages.PartitionID(0), true
	for more {
		if err := ctx.Err(); err != nil { // the client has left
			return 0, err
		}
		var page []state.Partition
		var view segment.View
		err := s.o.Broker.State().Read(func(rd *state.Reader) error {
			page, more = rd.Partitions(id, after, stages.Beginning, detailPage)
			view = rd.Segments(id)
			return nil
		})
		if err != nil {
			return 0, err
		}
		for _, p := range page {
			if !first {
				out.buf = append(out.buf, ',')
			}
			first, after = false, p.ID
			if out.buf, err = appendPartition(out.buf, seed, p, view); err != nil {
				return 0, fmt.Errorf("%s: %w", p.Name, err)
			}
			messages += p.Next - p.Start
			if !out.spill() {
				return 0, out.err
			}
		}
	}
	return messages, nil
}

// appendPartition writes one partition. Its oldest message is looked up in the view: no append of it is stamped before it was made.
func appendPartition(b []byte, seed [16]byte, p state.Partition, view segment.View) ([]byte, error) {
	kept := p.Next - p.Start
	b = member(append(b, '{'), "id", state.UUID(seed, state.KindPartition, uint64(p.ID)))
	b = member(append(b, ','), "name", p.Name)
	b = appendISO6(append(b, `,"createdAt":`...), p.Created)
	b = appendInt(append(b, `,"messages":`...), kept)
	b = appendStats(append(b, `,"stats":`...), kept)
	b = append(b, `,"cursor":{"totalConsumed":0,"batchesConsumed":0},"lastActivity":`...)
	b = appendStamp(b, p.Last, p.Last != 0)
	var oldest stages.Header
	if kept > 0 {
		h, ok, err := view.First(p.ID, p.Created, p.Start)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("offset %d: %w", p.Start, stages.ErrDamaged)
		}
		oldest = h
	}
	b = appendStamp(append(b, `,"oldestMessage":`...), oldest.TS, kept > 0)
	b = appendStamp(append(b, `,"newestMessage":`...), p.Last, kept > 0)
	return append(b, `,"retainedBytes":null}`...), nil
}

// appendStats writes how many messages are in which state.
func appendStats(b []byte, kept int64) []byte {
	b = appendInt(append(b, `{"total":`...), kept)
	b = appendInt(append(b, `,"pending":`...), kept)
	return append(b, `,"processing":0,"completed":0,"failed":null,"deadLetter":0}`...)
}

// appendStamp writes a stamp, or null.
func appendStamp(b []byte, at stages.Micros, known bool) []byte {
	if !known {
		return append(b, "null"...)
	}
	return appendISO6(b, at)
}
