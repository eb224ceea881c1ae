package command

import (
	"encoding/binary"
	"fmt"

	"queen/broker/command/wire"
	"queen/stages"
)

// MaxRetain is how many queues one retain command may name.
const MaxRetain = 256

// Retain asks for what the retention of some queues may remove now. What that is follows from the state when it is applied.
type Retain struct {
	Most   uint64 // appends that are looked at, at most, except that those of one stamp go together; the rest is left to the next command
	Queues []stages.QueueID
}

// Append appends the body.
func (r Retain) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, r.Most)
	dst = binary.AppendUvarint(dst, uint64(len(r.Queues)))
	for _, q := range r.Queues {
		dst = binary.BigEndian.AppendUint64(dst, uint64(q))
	}
	return dst
}

// DecodeRetain reads a body: 1 to MaxRetain queues, in rising order.
func DecodeRetain(body []byte) (Retain, error) {
	in := wire.NewReader(body)
	r := Retain{Most: in.Uvarint()}
	n := in.Count(8)
	if r.Most == 0 || n < 1 || n > MaxRetain {
		in.Failf("%d queues and %d appends", n, r.Most)
	}
	for range n {
		q := stages.QueueID(in.U64())
		if k := len(r.Queues); k > 0 && r.Queues[k-1] >= q {
			in.Failf("queue %d after %d", q, r.Queues[k-1])
		}
		r.Queues = append(r.Queues, q)
	}
	if err := in.End(); err != nil {
		return r, fmt.Errorf("retain: %w", err)
	}
	return r, nil
}

// Delete removes a queue.
type Delete struct {
	Tenant [16]byte
	Queue  string
}

// Append appends the body.
func (d Delete) Append(dst []byte) []byte {
	return wire.AppendString(append(dst, d.Tenant[:]...), d.Queue)
}

// DecodeDelete reads a body.
func DecodeDelete(body []byte) (Delete, error) {
	in := wire.NewReader(body)
	d := Delete{Tenant: in.ID(), Queue: in.String()}
	if err := in.End(); err != nil {
		return d, fmt.Errorf("delete: %w", err)
	}
	return d, nil
}
