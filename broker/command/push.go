package command

import (
	"encoding/binary"
	"fmt"
	"slices"

	"queen/broker/command/wire"
	"queen/stages"
)

// MaxAppends is the most appends that one push may hold (contract R6).
const MaxAppends = 100_000

const knownFrameFlags = stages.FlagLineBreaks | stages.FlagSealed

// Push is the body of a push: one command, all or nothing, one stamp for all its partitions.
type Push struct {
	Tenant  [16]byte
	Queues  []PushQueue // each named once
	Appends []PushAppend
	// Key is the fingerprint of the key that payloads are sealed with: not 0 when an append has stages.FlagSealed, and else 0.
	Key uint64
}

// PushQueue names a queue and the config version that the push was prepared against; 0 = the queue did not exist.
type PushQueue struct {
	Name   string
	Config uint64
}

// PushAppend is what a push puts into one partition. One append per (queue, partition).
type PushAppend struct {
	Queue     int    // index into Push.Queues
	Partition string // name
	Flags     uint32 // of the frame: stages.FlagLineBreaks, stages.FlagSealed
	Count     int    // records in Block, at least 1
	Block     []byte // record block (docs/formats.md section 3); aliases the body it was decoded from
}

// Append appends the encoded body. The caller keeps the rules stated on the fields; DecodePush checks them.
func (p Push) Append(dst []byte) []byte {
	sizes := make([]int, len(p.Appends))
	for i, a := range p.Appends {
		sizes[i] = len(a.Block)
	}
	dst, blocks := p.AppendRoom(dst, sizes)
	for i, a := range p.Appends {
		copy(blocks[i][:sizes[i]], a.Block)
	}
	return dst
}

// AppendRoom is Append with room for a block of so many bytes instead of each Block. The caller appends the bytes to the empty
// blocks, exactly as many: what was in dst's room before is in the encoded body otherwise.
func (p Push) AppendRoom(dst []byte, sizes []int) (body []byte, blocks [][]byte) {
	start, total := make([]int, len(sizes)), 0
	for _, n := range sizes {
		total += n
	}
	dst = slices.Grow(dst, total)
	sealed := false
	dst = append(dst, p.Tenant[:]...)
	dst = binary.AppendUvarint(dst, uint64(len(p.Queues)))
	for _, q := range p.Queues {
		dst = wire.AppendString(dst, q.Name)
		dst = binary.AppendUvarint(dst, q.Config)
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Appends)))
	for i, a := range p.Appends {
		dst = binary.AppendUvarint(dst, uint64(a.Queue))
		dst = wire.AppendString(dst, a.Partition)
		dst = binary.BigEndian.AppendUint32(dst, a.Flags)
		sealed = sealed || a.Flags&stages.FlagSealed != 0
		dst = binary.AppendUvarint(dst, uint64(a.Count))
		dst = binary.AppendUvarint(dst, uint64(sizes[i]))
		start[i] = len(dst)
		dst = slices.Grow(dst, sizes[i])[:len(dst)+sizes[i]]
	}
	if sealed {
		dst = binary.BigEndian.AppendUint64(dst, p.Key)
	}
	blocks = make([][]byte, len(sizes))
	for i, n := range sizes {
		blocks[i] = dst[start[i] : start[i] : start[i]+n]
	}
	return dst, blocks
}

// DecodePush reads the body of a push. Blocks are not looked into.
func DecodePush(body []byte) (Push, error) {
	r := wire.NewReader(body)
	p := Push{Tenant: r.ID()}
	names := make(map[string]struct{})
	for range r.Count(2) {
		q := PushQueue{Name: r.String(), Config: r.Uvarint()}
		if _, twice := names[q.Name]; twice {
			r.Failf("queue %q is named twice", q.Name)
		}
		names[q.Name] = struct{}{}
		p.Queues = append(p.Queues, q)
	}
	n := r.Count(8)
	if n > MaxAppends {
		r.Failf("%d appends, at most %d", n, MaxAppends)
		n = 0
	}
	p.Appends = make([]PushAppend, 0, n)
	sealed := false
	for range n {
		p.Appends = append(p.Appends, decodeAppend(r, len(p.Queues)))
		sealed = sealed || p.Appends[len(p.Appends)-1].Flags&stages.FlagSealed != 0
	}
	if sealed {
		if p.Key = r.U64(); r.Err() == nil && p.Key == 0 {
			r.Failf("payloads are sealed and no key is named")
		}
	}
	if err := r.End(); err != nil {
		return Push{}, fmt.Errorf("push body: %w", err)
	}
	if err := p.checkOnce(); err != nil {
		return Push{}, fmt.Errorf("push body: %w", err)
	}
	return p, nil
}

// decodeAppend reads one append of a push that names so many queues.
func decodeAppend(r *wire.Reader, queues int) PushAppend {
	queue := r.Uvarint()
	if r.Err() == nil && queue >= uint64(queues) {
		r.Failf("queue %d of %d", queue, queues)
	}
	a := PushAppend{Queue: int(queue), Partition: r.String(), Flags: r.U32()}
	if a.Flags&^knownFrameFlags != 0 {
		r.Failf("unknown frame flags %#x", a.Flags)
	}
	count := r.Uvarint()
	a.Block = r.Bytes()
	if r.Err() == nil && (count == 0 || count > uint64(len(a.Block))) {
		r.Failf("%d records in a block of %d bytes", count, len(a.Block))
	}
	a.Count = int(count)
	return a
}

// checkOnce refuses two appends to one partition.
func (p Push) checkOnce() error {
	if len(p.Appends) < 2 {
		return nil
	}
	type place struct {
		queue     int
		partition string
	}
	seen := make(map[place]struct{}, len(p.Appends))
	for _, a := range p.Appends {
		at := place{a.Queue, a.Partition}
		if _, twice := seen[at]; twice {
			return fmt.Errorf("queue %q, partition %q: two appends: %w", p.Queues[a.Queue].Name, a.Partition, wire.ErrMalformed)
		}
		seen[at] = struct{}{}
	}
	return nil
}
