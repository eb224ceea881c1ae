package api

import (
	"errors"
	"fmt"
	"strconv"

	"queen/internal/jsontext"
)

// Limits of a fetch.
const (
	maxFetchEntries = 1024
	maxFetchRecords = 10_000  // per entry
	defaultMaxBytes = 1 << 20 // per entry, bytes of payload
	maxMaxBytes     = 8 << 20
	maxWaitMillis   = 30_000
)

// fetchEntry asks for records of one partition from an offset on.
type fetchEntry struct {
	queue, partition string
	offset           int64
	maxBytes         int
}

// fetchRequest is a checked fetch.
type fetchRequest struct {
	entries  []fetchEntry
	waitMs   int64
	minBytes int64
}

// parseFetch checks the body of a fetch. Every error is an *Error.
func parseFetch(body []byte) (*fetchRequest, error) {
	f := &fetchRequest{minBytes: 1}
	fields := map[string]*int64{"maxWaitMs": &f.waitMs, "minBytes": &f.minBytes}
	if err := parseEntries(body, fields, f.parseEntry); err != nil {
		return nil, err
	}
	f.waitMs = min(max(f.waitMs, 0), maxWaitMillis)
	f.minBytes = min(f.minBytes, maxMaxBytes)
	return f, nil
}

// parseEntries checks the body of a read by offset or time: an object with a list of at most maxFetchEntries entries, and whole numbers
// beside it. Every error is an *Error.
func parseEntries(body []byte, fields map[string]*int64, entry func(c *jsontext.Cursor, i int) error) error {
	c := jsontext.NewCursor(body)
	seen := false
	err := c.Object(func(name jsontext.Name) error {
		if name.Is("entries") && !seen {
			seen = true
			return c.Array(func(i int) error {
				if i == maxFetchEntries {
					return refuse(codeBadRequest, fmt.Sprintf("too many entries: at most %d are allowed", maxFetchEntries))
				}
				return entry(c, i)
			})
		}
		for field, to := range fields {
			if name.Is(field) {
				return integer(c, field, to)
			}
		}
		_, err := c.Value()
		return err
	})
	if err == nil {
		err = c.End()
	}
	if err == nil && !seen {
		err = &jsontext.Error{Offset: 0, Reason: "entries is missing"}
	}
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok {
		return e
	}
	return badBody(err)
}

func (f *fetchRequest) parseEntry(c *jsontext.Cursor, i int) error {
	e := fetchEntry{partition: defaultPartition}
	maxBytes := int64(defaultMaxBytes)
	err := c.Object(func(name jsontext.Name) error {
		switch {
		case name.Is("offset"):
			return integer(c, "offset", &e.offset)
		case name.Is("maxBytes"):
			return integer(c, "maxBytes", &maxBytes)
		}
		v, err := c.Value()
		return readPlace(name, v, err, &e.queue, &e.partition)
	})
	if err != nil {
		return err
	}
	if e.queue == "" {
		return refuse(codeBadBody, fmt.Sprintf("bad body: entry %d: queue is missing", i))
	}
	if e.offset < 0 {
		return refuse(codeBadBody, fmt.Sprintf("bad body: entry %d: offset is negative", i))
	}
	e.maxBytes = int(min(max(maxBytes, 1), maxMaxBytes))
	f.entries = append(f.entries, e)
	return nil
}

// readPlace reads queue and partition of an entry; err is that of reading v. Other members are ignored.
func readPlace(name jsontext.Name, v jsontext.Value, err error, queue, partition *string) error {
	switch {
	case err != nil:
		return err
	case name.Is("queue"):
		return setText(queue, v, "queue")
	case name.Is("partition") && v.Kind() == jsontext.Number:
		*partition = string(v.Text) // a name that looks like a number, sent as one
	case name.Is("partition"):
		return setText(partition, v, "partition")
	}
	return nil
}

// setText sets a name; absent, null and empty keep what is there.
func setText(to *string, v jsontext.Value, field string) error {
	b, err := text(v, field)
	if err == nil && len(b) > 0 {
		*to = string(b)
	}
	return err
}

// integer reads a whole number; null keeps what is there. One beyond 64 bits is taken as the largest.
func integer(c *jsontext.Cursor, field string, to *int64) error {
	v, err := c.Value()
	if err != nil || v.Kind() == jsontext.Null {
		return err
	}
	n, perr := strconv.ParseInt(string(v.Text), 10, 64) // which saturates
	if perr != nil && (v.Kind() != jsontext.Number || !errors.Is(perr, strconv.ErrRange)) {
		return &jsontext.Error{Offset: v.Offset, Reason: field + " must be an integer"}
	}
	*to = n
	return nil
}
