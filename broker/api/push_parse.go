package api

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"queen/broker/command"
	"queen/internal/jsontext"
	"queen/stages"
)

// Limits of names and ids, bytes.
const (
	maxTransactionID = 65_535
	nameBudget       = 447 // tenant + queue + the longer of partition and group
)

const defaultPartition = "Default"

// item is one message of a push, in input order. Its slices are the request's own bytes, except a transaction id with escapes.
type item struct {
	group   int       // index into pushRequest.groups
	tx      []byte    // empty = not sent
	quoted  []byte    // tx as an answer shows it; nil = it has to be made
	trace   *[16]byte // nil = not sent
	payload []byte
}

// group is the messages of one (queue, partition), in input order.
type group struct {
	queue     int // index into pushRequest.queues
	partition string
	flags     uint32
	count     int
	size      int // of its record block, bytes
}

// pushRequest is a checked push.
type pushRequest struct {
	queues []string // in order of first appearance
	groups []group  // likewise
	items  []item

	byQueue map[string]int
	byGroup map[groupKey]int
	// How the newest item names its queue and partition, in the request's own bytes: most pushes stay in one partition for a while.
	queueText, partitionText []byte

	cursor jsontext.Cursor
}

type groupKey struct {
	queue     int
	partition string
}

// usualItem is less than what most messages take of a push, bytes.
const usualItem = 256

func newPushRequest() *pushRequest {
	return &pushRequest{byQueue: make(map[string]int), byGroup: make(map[groupKey]int)}
}

// parse checks and cuts the body of a push in one pass, into a request that is new or was cleared. Every error is an *Error.
func (p *pushRequest) parse(body []byte) error {
	p.items = slices.Grow(p.items, len(body)/usualItem+1)
	c := &p.cursor
	c.Reset(body)
	seen := false
	err := c.Object(func(name jsontext.Name) error {
		if !name.Is("items") {
			_, err := c.Value()
			return err
		}
		if seen {
			return &jsontext.Error{Offset: name.Offset, Reason: "items is given twice"}
		}
		seen = true
		return c.Array(func(int) error { return p.parseItem(c) })
	})
	if err == nil {
		err = c.End()
	}
	if err == nil && !seen {
		err = &jsontext.Error{Offset: 0, Reason: "items is missing"}
	}
	if err != nil {
		if e, ok := err.(*Error); ok {
			return e
		}
		return badBody(err)
	}
	return nil
}

// Requests that had more items or groups than this are not kept for the next push.
const (
	keepItems  = 4096
	keepGroups = 1024
)

// clear makes the request ready for another body, and says whether what it takes is worth keeping. Nothing of the old body stays.
func (p *pushRequest) clear() bool {
	if cap(p.items) > keepItems || cap(p.groups) > keepGroups {
		return false
	}
	clear(p.items)
	clear(p.groups)
	clear(p.queues)
	clear(p.byQueue)
	clear(p.byGroup)
	p.queues, p.groups, p.items = p.queues[:0], p.groups[:0], p.items[:0]
	p.queueText, p.partitionText = nil, nil
	p.cursor.Reset(nil)
	return true
}

// fields are the members of an item that mean something.
type fields struct {
	queue, partition, payload, tx, trace jsontext.Value
}

func (f *fields) of(name jsontext.Name) *jsontext.Value {
	text, ok := name.Text()
	if !ok {
		return nil
	}
	switch string(text) {
	case "queue":
		return &f.queue
	case "partition":
		return &f.partition
	case "payload":
		return &f.payload
	case "transactionId":
		return &f.tx
	case "traceId":
		return &f.trace
	}
	return nil
}

func (p *pushRequest) parseItem(c *jsontext.Cursor) error {
	var f fields
	_, start := c.Peek()
	err := c.Object(func(name jsontext.Name) error {
		v, err := c.Value()
		if err != nil {
			return err
		}
		if at := f.of(name); at != nil {
			if at.Text != nil {
				return &jsontext.Error{Offset: name.Offset, Reason: string(name.Raw) + " is given twice"}
			}
			*at = v
		}
		return nil
	})
	if err != nil {
		return err
	}
	if f.payload.Text == nil {
		return &jsontext.Error{Offset: start, Reason: "payload is missing in item " + strconv.Itoa(len(p.items))}
	}
	queue, partition, again, err := p.names(&f, start)
	if err != nil {
		return err
	}
	it := item{payload: f.payload.Text}
	if it.tx, err = text(f.tx, "transactionId"); err != nil {
		return err
	}
	if len(it.tx)+2 == len(f.tx.Text) { // it holds no escape, so nothing that would have to be escaped
		it.quoted = f.tx.Text
	}
	if len(it.tx) > maxTransactionID {
		return refuse(codeBadRequest, fmt.Sprintf("transactionId of item %d has %d bytes, at most %d are allowed", len(p.items), len(it.tx), maxTransactionID))
	}
	it.trace = traceOf(f.trace)
	if again {
		it.group = p.items[len(p.items)-1].group
	} else if it.group, err = p.groupOf(queue, partition); err != nil {
		return err
	}
	p.queueText, p.partitionText = f.queue.Text, f.partition.Text
	p.add(&it, f.payload.Breaks)
	return nil
}

// names decodes the queue and the partition of an item that starts at a byte of the body; again says instead that they are those of the item
// before.
func (p *pushRequest) names(f *fields, start int) (queue, partition []byte, again bool, err error) {
	if len(p.items) > 0 && bytes.Equal(f.queue.Text, p.queueText) && bytes.Equal(f.partition.Text, p.partitionText) {
		return nil, nil, true, nil
	}
	if queue, err = text(f.queue, "queue"); err != nil {
		return nil, nil, false, err
	}
	if len(queue) == 0 {
		return nil, nil, false, &jsontext.Error{Offset: start, Reason: "queue is missing in item " + strconv.Itoa(len(p.items))}
	}
	partition, err = text(f.partition, "partition")
	return queue, partition, false, err
}

// add puts an item into its group.
func (p *pushRequest) add(it *item, breaks bool) {
	at := &p.groups[it.group]
	at.count++
	at.size += recordSize(it, len(it.payload))
	if breaks {
		at.flags |= stages.FlagLineBreaks
	}
	p.items = append(p.items, *it)
}

func (p *pushRequest) groupOf(queue, partition []byte) (int, error) {
	if len(partition) == 0 {
		partition = []byte(defaultPartition)
	}
	q, known := p.byQueue[string(queue)]
	if known {
		if g, ok := p.byGroup[groupKey{q, string(partition)}]; ok {
			return g, nil
		}
	}
	if err := checkNames(string(queue), string(partition)); err != nil {
		return 0, err
	}
	if len(p.groups) == command.MaxAppends {
		return 0, refuse(codeTooLarge, fmt.Sprintf("a push may go to at most %d partitions", command.MaxAppends))
	}
	if !known {
		q = len(p.queues)
		p.queues = append(p.queues, string(queue))
		p.byQueue[p.queues[q]] = q
	}
	g := len(p.groups)
	p.groups = append(p.groups, group{queue: q, partition: string(partition)})
	p.byGroup[groupKey{q, p.groups[g].partition}] = g
	return g, nil
}

// text decodes a string member; absent and null are empty.
func text(v jsontext.Value, field string) ([]byte, error) {
	if v.Absent() {
		return nil, nil
	}
	if v.Kind() != jsontext.String {
		return nil, &jsontext.Error{Offset: v.Offset, Reason: field + " must be a string"}
	}
	b, err := v.Unquote()
	if err != nil {
		return nil, &jsontext.Error{Offset: v.Offset, Reason: field + " holds half a surrogate pair"}
	}
	return b, nil
}

// traceOf reads a trace id. What is no UUID is ignored, as transactions always did.
func traceOf(v jsontext.Value) *[16]byte {
	if v.Kind() != jsontext.String {
		return nil
	}
	id, ok := parseUUID(v.Text[1 : len(v.Text)-1])
	if !ok {
		return nil
	}
	return &id
}

// checkNames keeps names within what a key of the store holds, and names the longest.
func checkNames(queue, partition string) error {
	tenant := len(stages.DefaultTenant)
	if tenant+len(queue)+len(partition) <= nameBudget {
		return nil
	}
	field, n := "queue", len(queue)
	if len(partition) > n {
		field, n = "partition", len(partition)
	}
	return refuse(codeNameTooLong, fmt.Sprintf("%s is too long: %d bytes; queue and partition may have %d together", field, n, nameBudget-tenant))
}

// recordSize is the size of the item's record when its payload is stored in so many bytes (docs/formats.md section 3).
func recordSize(it *item, payload int) int {
	n := 17 + prefixed(len(it.tx)) + prefixed(payload)
	if it.trace != nil {
		n += 16
	}
	return n
}

// prefixed is the size of n bytes behind their uvarint length.
func prefixed(n int) int {
	size := n + 1
	for n >= 0x80 {
		n >>= 7
		size++
	}
	return size
}
