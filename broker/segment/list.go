package segment

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"queen/broker/retention"
	"queen/stages"
)

// List is ListOf of one span: from <= TS < before.
func (v View) List(ctx context.Context, from, before stages.Micros) (stages.Listing, error) {
	return v.ListOf(ctx, []retention.Span{{From: from, To: before}})
}

// ListOf lists the appends of some spans, in order and apart. K, Start, End, Lost and the names of the
// partitions are left to the caller.
//
// It is the inner loop of a window's listing: about 20 ns an append, its memory taken once, and nothing but the list itself kept.
func (v View) ListOf(ctx context.Context, spans []retention.Span) (stages.Listing, error) {
	room := 0
	for _, x := range spans {
		room += v.count(x.From, x.To)
	}
	if int64(room) > math.MaxUint32 {
		return stages.Listing{}, fmt.Errorf("queue %d: %d appends are too many for one listing", v.queue, room)
	}
	l := newLister(v.queue, v.s.o.Generation, room)
	for _, x := range spans {
		err := v.between(x.From, x.To, func(seg uint32, entries []byte) (bool, error) {
			l.add(seg, entries)
			return true, ctx.Err()
		})
		if err != nil {
			return stages.Listing{}, err
		}
	}
	return l.done(), nil
}

// Pick makes a listing of a few appends, so that their bodies can be read. They are of one queue, and of one generation of the store.
func Pick(queue stages.QueueID, headers []stages.Header) stages.Listing {
	l := newLister(queue, 0, len(headers))
	var e []byte
	for _, h := range headers {
		l.list.Gen = h.Ref.Gen
		e = appendEntry(e[:0], head{partition: h.Partition, ts: h.TS, base: h.Base, count: h.Count, weight: h.Weight, flags: h.Flags}, h.Ref.Off, h.Ref.Len)
		l.add(h.Ref.Seg, e)
	}
	return l.done()
}

// lister turns entries into a listing.
type lister struct {
	list   stages.Listing // without Parts, until it is done
	seen   places
	parts  uint32   // partitions seen
	begins uint32   // checksum of what all frames of the queue begin with: magic and queue
	shown  [40]byte // what stands behind it in a header: partition id to length of the body
}

func newLister(queue stages.QueueID, gen uint32, room int) *lister {
	l := &lister{list: stages.Listing{Queue: queue, Gen: gen, Appends: make([]stages.Append, 0, room)}}
	l.seen.limit = uint64(room) + 1024
	l.begins = checksum(binary.BigEndian.AppendUint64([]byte(frameMagic), uint64(queue)))
	return l
}

// add takes entries of one segment, in stamp order.
func (l *lister) add(seg uint32, entries []byte) {
	if len(entries) == 0 {
		return
	}
	list := &l.list
	if len(list.Appends) == 0 {
		list.MinTS = entryTS(entries)
	}
	list.MaxTS = entryTS(entries[len(entries)-entryLen:])
	for ; len(entries) > 0; entries = entries[entryLen:] {
		e := entries[:entryLen:entryLen]
		id := entryPartition(e)
		part, ok := l.seen.get(id)
		if !ok {
			part = l.parts
			l.parts++
			l.seen.set(id, part)
		}
		list.Records += int64(entryCount(e))
		list.Weight += int64(entryWeight(e))
		list.Appends = append(list.Appends, stages.Append{Part: part, Seg: seg, Off: entryOff(e), Len: entryFrame(e), Sum: l.sum(e)})
	}
}

// done returns the listing. Its Parts are made last: only then it is known how many there are, and what was seen says which.
func (l *lister) done() stages.Listing {
	if l.parts > 0 {
		l.list.Parts = make([]stages.Part, l.parts)
		l.seen.each(func(id stages.PartitionID, at uint32) { l.list.Parts[at].ID = id })
	}
	return l.list
}

// sum is the fingerprint of the frame that an entry describes: what decodeHead finds in the frame itself.
func (l *lister) sum(e []byte) uint32 {
	b := &l.shown
	copy(b[:8], e[8:16])
	copy(b[8:16], e[:8])
	copy(b[16:36], e[16:36])
	binary.BigEndian.PutUint32(b[36:], bodyLen(entryFrame(e)))
	return checksumMore(l.begins, b[:])
}

// bodyLen is the length of the body in a frame of so many bytes.
func bodyLen(frame uint32) uint32 {
	n := frame - frameHeaderLen
	return n - 4*((n+blockLen+3)/(blockLen+4))
}

// count is how many appends have from <= TS < before, or up to two chunks a segment more where from or before lie in it.
func (v View) count(from, before stages.Micros) (n int) {
	for _, x := range v.sealed {
		if first, last := x.chunksOf(from, before); first < last {
			n += min(last*chunkEntries, x.n) - first*chunkEntries
		}
	}
	return n + len(v.openBetween(from, before))/entryLen
}

// chunksOf returns the chunks, first to last-1, that hold what a segment has with from <= TS < before.
func (x *sealed) chunksOf(from, before stages.Micros) (first, last int) {
	if x.last < from || x.first >= before {
		return 0, 0
	}
	// Appends stamped `from` may begin in the chunk before the first one that starts at or above it.
	first = sort.Search(len(x.chunks), func(i int) bool { return x.chunks[i].first >= from })
	last = sort.Search(len(x.chunks), func(i int) bool { return x.chunks[i].first >= before })
	return max(first-1, 0), last
}

// openBetween returns the entries of the open segment with from <= TS < before.
func (v View) openBetween(from, before stages.Micros) []byte {
	n := len(v.entries) / entryLen
	at := func(ts stages.Micros) int {
		return sort.Search(n, func(i int) bool { return entryTS(entryAt(v.entries, i)) >= ts })
	}
	first := at(from)
	return v.entries[first*entryLen : max(first, at(before))*entryLen]
}

// between calls fn with the entries of from <= TS < before in stamp order, some of one segment at a time, until it says no or an error.
func (v View) between(from, before stages.Micros, fn func(seg uint32, entries []byte) (more bool, err error)) error {
	for _, x := range v.sealed {
		first, last := x.chunksOf(from, before)
		if first >= last {
			continue
		}
		more, err := v.eachPiece(x, first, last, func(part []byte) (bool, error) {
			for len(part) > 0 && entryTS(part) < from {
				part = part[entryLen:]
			}
			for len(part) > 0 && entryTS(part[len(part)-entryLen:]) >= before {
				part = part[:len(part)-entryLen]
			}
			return fn(x.seg, part)
		})
		if !more || err != nil {
			return err
		}
	}
	_, err := fn(v.tail.Seg, v.openBetween(from, before))
	return err
}

// places maps partition ids to small numbers: by a table while the ids lie close together, as those of one queue mostly do, and else by
// a map. The table takes 4 bytes an id and never more than limit of them, at least 1.
type places struct {
	limit    uint64
	min, max stages.PartitionID // of those set
	low      stages.PartitionID // where the table begins
	table    []uint32           // number + 1, 0 = none
	far      map[stages.PartitionID]uint32
}

func (p *places) get(id stages.PartitionID) (uint32, bool) {
	if p.far == nil {
		i := uint64(id - p.low) // ids below low are far above it here
		if i >= uint64(len(p.table)) {
			return 0, false
		}
		at := p.table[i]
		return at - 1, at != 0
	}
	at, ok := p.far[id]
	return at, ok
}

func (p *places) set(id stages.PartitionID, at uint32) {
	if p.far == nil && !p.reach(id) {
		far := make(map[stages.PartitionID]uint32)
		p.each(func(id stages.PartitionID, at uint32) { far[id] = at })
		p.far, p.table = far, nil
	}
	if p.far != nil {
		p.far[id] = at
		return
	}
	p.table[id-p.low] = at + 1
}

// each calls fn with all that is set, in no order.
func (p *places) each(fn func(id stages.PartitionID, at uint32)) {
	for i, at := range p.table {
		if at != 0 {
			fn(p.low+stages.PartitionID(i), at-1)
		}
	}
	for id, at := range p.far {
		fn(id, at)
	}
}

// reach makes the table reach to id, with room on that side for as much again, and says whether it could.
func (p *places) reach(id stages.PartitionID) bool {
	if id > math.MaxInt64 { // no counter gets there, and sums below would overflow
		return false
	}
	if len(p.table) == 0 {
		p.min, p.max, p.low, p.table = id, id, id, make([]uint32, min(64, p.limit))
		return true
	}
	low, high := min(p.min, id), max(p.max, id)
	if uint64(id-p.low) >= uint64(len(p.table)) {
		span := uint64(high-low) + 1
		if span > p.limit {
			return false
		}
		room, start := min(2*span, p.limit), low
		if id < p.min {
			start -= min(start, stages.PartitionID(room-span))
		}
		table := make([]uint32, room)
		copy(table[p.min-start:], p.table[p.min-p.low:][:p.max-p.min+1])
		p.low, p.table = start, table
	}
	p.min, p.max = low, high
	return true
}
