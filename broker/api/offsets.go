package api

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"queen/broker/state"
	"queen/internal/jsontext"
	"queen/stages"
)

// offsetsEntry asks for the first record of one partition that is stamped at or after a time.
type offsetsEntry struct {
	queue, partition string
	from             stages.Micros
	given            bool // from was sent
}

// offsets is POST /api/v1/fetch/offsets: from times to offsets, from this node's applied state. A time behind the last record has
// neither offset nor ts: they are null.
func (s *server) offsets(w http.ResponseWriter, r *http.Request, _ []string) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	entries, err := parseOffsets(body)
	if err != nil {
		return err
	}
	all := make([]found, len(entries))
	err = s.o.Broker.State().Read(func(rd *state.Reader) error {
		for i, e := range entries {
			p, ok := s.extent(rd, e.queue, e.partition, &all[i])
			if ok && p.Last >= e.from {
				all[i].view = rd.Segments(all[i].queue)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b := []byte(`{"entries":[`)
	for i := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = entries[i].append(b, &all[i]); err != nil {
			return err
		}
	}
	writeJSON(w, http.StatusOK, append(b, "]}"...))
	return nil
}

// append looks up one entry and writes its answer. An empty view has no records.
func (e *offsetsEntry) append(b []byte, at *found) ([]byte, error) {
	h, ok, err := at.view.First(at.part, e.from, at.low)
	if err != nil {
		return nil, fmt.Errorf("offset of %s/%s at %s: %w", e.queue, e.partition, e.from.ISO(), err)
	}
	b = member(append(b, '{'), "queue", e.queue)
	b = member(append(b, ','), "partition", e.partition)
	if ok {
		b = appendInt(append(b, `,"offset":`...), max(h.Base, at.low))
		b = appendISO6(append(b, `,"ts":`...), h.TS)
	} else {
		b = append(b, `,"offset":null,"ts":null`...)
	}
	return append(at.appendExtent(b), '}'), nil
}

// parseOffsets checks the body. Every error is an *Error.
func parseOffsets(body []byte) ([]offsetsEntry, error) {
	var entries []offsetsEntry
	err := parseEntries(body, nil, func(c *jsontext.Cursor, i int) error {
		e := offsetsEntry{partition: defaultPartition}
		err := c.Object(func(name jsontext.Name) error {
			v, err := c.Value()
			if err != nil || !name.Is("timestamp") || v.Kind() == jsontext.Null {
				return readPlace(name, v, err, &e.queue, &e.partition)
			}
			if e.from, e.given = parseTimestamp(v); !e.given {
				return refuse(codeBadBody, fmt.Sprintf("bad body: entry %d: timestamp is neither whole milliseconds since the epoch nor a time such as 2026-10-03T06:00:00Z", i))
			}
			return nil
		})
		switch {
		case err != nil:
			return err
		case e.queue == "":
			return refuse(codeBadBody, fmt.Sprintf("bad body: entry %d: queue is missing", i))
		case !e.given:
			return refuse(codeBadBody, fmt.Sprintf("bad body: entry %d: timestamp is missing", i))
		}
		entries = append(entries, e)
		return nil
	})
	return entries, err
}

// parseTimestamp reads whole milliseconds since the epoch, or a time as `since` takes it. What lies between two microseconds is the
// later one: the records wanted are stamped at or after it.
func parseTimestamp(v jsontext.Value) (stages.Micros, bool) {
	if v.Kind() != jsontext.Number {
		t, ok := parseTime(v)
		at := stages.MicrosOf(t)
		if t.Nanosecond()%1000 != 0 {
			at++
		}
		return at, ok
	}
	ms, err := strconv.ParseInt(string(v.Text), 10, 64) // which saturates
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return stages.Micros(min(max(ms, math.MinInt64/1000), math.MaxInt64/1000) * 1000), true
}
