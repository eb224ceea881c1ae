package api

import (
	"net/http"

	"queen/broker/state"
	"queen/stages"
)

// countPage is how many partitions are counted under one hold of the state's lock.
const countPage = 4096

// queues is GET /api/v1/resources/queues: all queues in creation order. With ?stats=lanes nothing is counted but partitions.
//
// Nothing consumes yet, so every message that is kept is pending; what the broker does not count is null.
func (s *server) queues(w http.ResponseWriter, r *http.Request, _ []string) error {
	lanes := r.URL.Query().Get("stats") == "lanes"
	var rows []*state.QueueRow
	var counts []int
	err := s.o.Broker.State().Read(func(rd *state.Reader) error {
		rows = rd.Queues(s.tenant)
		counts = make([]int, len(rows))
		for i, row := range rows {
			counts[i] = rd.PartitionCount(row.ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	out := &stream{w: w, status: http.StatusOK, buf: []byte(`{"queues":[`)}
	for i, row := range rows {
		if i > 0 {
			out.buf = append(out.buf, ',')
		}
		if lanes {
			out.buf = s.appendLane(out.buf, row, counts[i])
		} else {
			messages, segments, err := s.count(row.ID)
			if err != nil {
				return s.abort(out, err)
			}
			out.buf = s.appendQueue(out.buf, row, counts[i], messages, segments)
		}
		if !out.spill() {
			return nil
		}
	}
	if lanes {
		out.buf = append(out.buf, `],"stats":"lanes"}`...)
	} else {
		out.buf = append(out.buf, `],"kvRows":null,"kvBytes":null,"timerRows":0,"timerBytes":0}`...)
	}
	out.finish()
	return nil
}

// count adds up the messages that a queue keeps, a page of partitions at a time, and its segments.
func (s *server) count(id stages.QueueID) (messages, segments int64, err error) {
	after, more := stages.PartitionID(0), true
	for more && err == nil {
		err = s.o.Broker.State().Read(func(rd *state.Reader) error {
			var page []state.Partition
			page, more = rd.Partitions(id, after, stages.Beginning, countPage)
			for _, p := range page {
				messages += p.Next - p.Start
				after = p.ID
			}
			segments = int64(rd.Segments(id).Tail().Seg)
			return nil
		})
	}
	return messages, segments, err
}

func (s *server) appendLane(b []byte, row *state.QueueRow, partitions int) []byte {
	b = member(append(b, '{'), "id", s.queueUUID(row))
	b = member(append(b, ','), "name", row.Name)
	b = member(append(b, ','), "queue", row.Name)
	b = appendInt(append(b, `,"partitions":`...), int64(partitions))
	b = appendISO6(append(b, `,"createdAt":`...), row.Created)
	return append(b, '}')
}

func (s *server) appendQueue(b []byte, row *state.QueueRow, partitions int, messages, segments int64) []byte {
	b = member(append(b, '{'), "id", s.queueUUID(row))
	b = member(append(b, ','), "name", row.Name)
	b = member(append(b, ','), "queue", row.Name)
	b = member(append(b, ','), "namespace", row.Namespace)
	b = member(append(b, ','), "task", row.Task)
	b = append(b, `,"storage":"segments"`...)
	b = appendInt(append(b, `,"partitions":`...), int64(partitions))
	b = appendInt(append(b, `,"segments":{"segments":`...), segments)
	b = appendInt(append(b, `,"messages":`...), messages)
	b = appendInt(append(b, `},"messages":{"total":`...), messages)
	b = appendInt(append(b, `,"pending":`...), messages)
	b = append(b, `,"processing":0,"completed":0,"deadLetter":0},"retainedBytes":null,"options":`...)
	b = appendOptions(b, row)
	b = appendISO6(append(b, `,"createdAt":`...), row.Created)
	return append(b, '}')
}
