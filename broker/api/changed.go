package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"queen/broker/state"
	"queen/internal/jsontext"
	"queen/stages"
)

const (
	badCursor      = "BAD_CURSOR"
	maxChangedPage = 1000 // partitions in one entry's page
)

// changedEntry asks for the partitions of one queue, page by page.
type changedEntry struct {
	queue  string
	since  stages.Micros // stages.Beginning = all
	after  jsontext.Value
	limit  int64
	cursor stages.PartitionID // what after says
}

// page is the answer to one entry.
type page struct {
	parts []state.Partition
	full  bool
	fault string
}

// changed is POST /api/v1/partitions/changed: the partitions of a queue in creation order, all of them or those written since a time, from
// this node's applied state. safeTime is taken before the first page, so a page misses nothing that is stamped at or below it.
func (s *server) changed(w http.ResponseWriter, r *http.Request, _ []string) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	entries, err := parseChanged(body)
	if err != nil {
		return err
	}
	var safe stages.Micros
	var seed [16]byte
	pages := make([]page, len(entries))
	err = s.o.Broker.State().Read(func(rd *state.Reader) error {
		safe = rd.Safe()
		for i := range entries {
			pages[i] = s.page(rd, &entries[i])
		}
		return nil
	})
	if err != nil {
		return err
	}
	seed, _ = s.o.Broker.State().Seed()
	out := &stream{w: w, status: http.StatusOK}
	out.buf = append(appendISO6(append(out.buf, `{"safeTime":`...), safe), `,"safeTimeDegraded":false,"entries":[`...)
	for i := range entries {
		if i > 0 {
			out.buf = append(out.buf, ',')
		}
		out.buf = pages[i].append(out.buf, entries[i].queue, seed)
		if !out.spill() {
			return nil
		}
	}
	out.buf = append(out.buf, "]}"...)
	out.finish()
	return nil
}

// page looks up one entry. An unknown queue is told before a bad cursor.
func (s *server) page(rd *state.Reader, e *changedEntry) page {
	q, ok := rd.Queue(s.tenant, e.queue)
	if !ok {
		return page{fault: unknownPartition}
	}
	if !e.readCursor() {
		return page{fault: badCursor}
	}
	limit := int(min(max(e.limit, 1), maxChangedPage))
	parts, _ := rd.Partitions(q.ID, e.cursor, e.since, limit)
	return page{parts: parts, full: len(parts) == limit}
}

// readCursor reads `p|` and a decimal id; absent, null and "" are the beginning.
func (e *changedEntry) readCursor() bool {
	if e.after.Absent() {
		return true
	}
	if e.after.Kind() != jsontext.String {
		return false
	}
	text, err := e.after.Unquote()
	if err != nil || len(text) == 0 {
		return err == nil
	}
	digits, ok := strings.CutPrefix(string(text), "p|")
	n, err := strconv.ParseUint(digits, 10, 63)
	if !ok || err != nil || digits[0] == '+' {
		return false
	}
	e.cursor = stages.PartitionID(n)
	return true
}

func (p *page) append(b []byte, queue string, seed [16]byte) []byte {
	b = member(append(b, '{'), "queue", queue)
	if p.fault != "" {
		return append(member(append(b, ','), "error", p.fault), '}')
	}
	b = append(b, `,"partitions":[`...)
	for i, part := range p.parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = member(append(b, '{'), "name", part.Name)
		b = member(append(b, ','), "id", state.UUID(seed, state.KindPartition, uint64(part.ID)))
		b = appendInt(append(b, `,"lastOffset":`...), part.Next-1)
		b = appendInt(append(b, `,"logStart":`...), part.Start)
		b = append(appendISO6(append(b, `,"lastWriteAt":`...), part.Last), '}')
	}
	b = append(b, `],"next":`...)
	if !p.full {
		return append(b, "null}"...)
	}
	b = append(b, `"p|`...)
	b = strconv.AppendUint(b, uint64(p.parts[len(p.parts)-1].ID), 10)
	return append(b, `"}`...)
}

// parseChanged checks the body. Every error is an *Error.
func parseChanged(body []byte) ([]changedEntry, error) {
	var entries []changedEntry
	err := parseEntries(body, nil, func(c *jsontext.Cursor, i int) error {
		e, err := parseChangedEntry(c, i)
		entries = append(entries, e)
		return err
	})
	return entries, err
}

func parseChangedEntry(c *jsontext.Cursor, i int) (changedEntry, error) {
	e := changedEntry{since: stages.Beginning, limit: maxChangedPage}
	err := c.Object(func(name jsontext.Name) error {
		if name.Is("limit") {
			return integer(c, "limit", &e.limit)
		}
		v, err := c.Value()
		if err != nil {
			return err
		}
		switch {
		case name.Is("queue"):
			return setText(&e.queue, v, "queue")
		case name.Is("after"):
			e.after = v
		case name.Is("since") && v.Kind() != jsontext.Null:
			t, ok := parseTime(v)
			if e.since = stages.MicrosOf(t); !ok {
				return refuse(codeBadBody, fmt.Sprintf("bad body: entry %d: since is not a timestamp, such as 2026-10-03T06:00:00Z", i))
			}
		}
		return nil
	})
	if err == nil && e.queue == "" {
		err = refuse(codeBadBody, fmt.Sprintf("bad body: entry %d: queue is missing", i))
	}
	return e, err
}

// timeLayouts are the forms of a time that are taken; one without a zone is UTC. A fraction may follow the seconds.
func timeLayouts() []string {
	return []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"}
}

// parseTime reads a time in one of these forms.
func parseTime(v jsontext.Value) (time.Time, bool) {
	if v.Kind() != jsontext.String {
		return time.Time{}, false
	}
	text, err := v.Unquote()
	if err != nil {
		return time.Time{}, false
	}
	for _, layout := range timeLayouts() {
		if t, err := time.Parse(layout, string(text)); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
