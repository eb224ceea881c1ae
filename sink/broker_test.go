package sink

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"queen/commit"
	"queen/commit/committest"
	"queen/stages"
)

// memory is a broker in memory: its log clock is the clock of the test, and every push is applied at once.
type memory struct {
	kv *committest.KV

	mu     sync.Mutex
	clock  stages.Micros
	queues []*memQueue
	nextID stages.QueueID
	parts  stages.PartitionID
	behind bool                   // this node has not applied the intents yet
	broken error                  // bodies cannot be read
	panics bool                   // reading bodies panics
	deaf   error                  // what moved cannot be asked
	faults faults                 // at "moved" and "list"
	looks  int                    // how often it was asked
	stuck  chan struct{}          // reads of bodies wait for it
	reads  map[stages.QueueID]int // of bodies, that wait, by queue
	pad    int                    // length of a field of payloads
}

type memQueue struct {
	info    stages.QueueInfo
	parts   map[string]stages.PartitionID
	names   map[stages.PartitionID]string
	next    map[stages.PartitionID]int64
	appends []memAppend
	lost    []memLost
}

// shown is the queue as it is now.
func (q *memQueue) shown() stages.QueueInfo {
	info := q.info
	info.Partitions = len(q.parts)
	return info
}

type memAppend struct {
	h       stages.Header
	records []stages.Record
}

type memLost struct {
	r     stages.Range
	first stages.Micros
}

var (
	_ stages.Log    = (*memory)(nil)
	_ stages.Queues = (*memory)(nil)
)

func newMemory() *memory { return &memory{kv: committest.New(time.Now)} }

func (m *memory) Safe() stages.Micros {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.safe()
}

func (m *memory) safe() stages.Micros {
	m.clock = max(m.clock, stages.MicrosOf(time.Now()))
	return m.clock
}

// leap moves the log clock forward, as a leader does whose wall clock was set. Nothing else runs on it here.
func (m *memory) leap(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock = m.safe().Add(d)
}

// push puts n records into a partition, in one append.
func (m *memory) push(queue, partition string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queue(queue)
	if q == nil {
		m.nextID++
		q = &memQueue{info: stages.QueueInfo{ID: m.nextID, Name: queue}, parts: map[string]stages.PartitionID{},
			names: map[stages.PartitionID]string{}, next: map[stages.PartitionID]int64{}}
		m.queues = append(m.queues, q)
	}
	id, ok := q.parts[partition]
	if !ok {
		m.parts++
		id = m.parts
		q.parts[partition], q.names[id] = id, partition
	}
	m.clock = max(m.safe(), m.clock+1) + 1
	a := memAppend{h: stages.Header{TS: m.clock, Partition: id, Base: q.next[id], Count: int32(n)}}
	for i := range n {
		offset := q.next[id] + int64(i)
		r := stages.Record{Offset: offset, TxID: fmt.Appendf(nil, "tx-%d-%d", id, offset),
			Payload: fmt.Appendf(nil, `{"queue":%q,"n":%d.50,"text":"%0*d"}`, queue, offset, max(32, m.pad), offset)}
		a.h.Weight += int32(stages.RecordWeight(len(r.TxID), len(partition), len(r.Payload)))
		a.records = append(a.records, r)
	}
	q.next[id] += int64(n)
	q.appends = append(q.appends, a)
}

// trim removes all that is stored of a queue, as an overrun of retention does.
func (m *memory) trim(queue string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queue(queue)
	for _, a := range q.appends {
		q.lost = append(q.lost, memLost{stages.Range{Partition: q.names[a.h.Partition], From: a.h.Base, To: a.h.Base + int64(a.h.Count) - 1}, a.h.TS})
	}
	q.appends = nil
}

// seal says that a queue holds payloads that are sealed with a key.
func (m *memory) seal(queue, key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue(queue).info.Key = key
}

func (m *memory) drop(queue string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queues = slices.DeleteFunc(m.queues, func(q *memQueue) bool { return q.info.Name == queue })
}

func (m *memory) queue(name string) *memQueue {
	for _, q := range m.queues {
		if q.info.Name == name {
			return q
		}
	}
	return nil
}

func (m *memory) byID(id stages.QueueID) *memQueue {
	for _, q := range m.queues {
		if q.info.ID == id {
			return q
		}
	}
	return &memQueue{}
}

func (m *memory) Find(name string) (stages.QueueInfo, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if q := m.queue(name); q != nil {
		return q.shown(), true
	}
	return stages.QueueInfo{}, false
}

func (m *memory) List() (all []stages.QueueInfo) {
	m.faults.at("list")
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.queues {
		all = append(all, q.shown())
	}
	return all
}

func (m *memory) Moved(_ context.Context, since stages.Micros) (moved []stages.QueueID, safe stages.Micros, err error) {
	m.faults.at("moved")
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deaf != nil {
		return nil, 0, m.deaf
	}
	m.looks++
	safe = m.safe()
	for _, q := range m.queues {
		if n := len(q.appends); n > 0 && q.appends[n-1].h.TS >= since {
			moved = append(moved, q.info.ID)
		}
	}
	return moved, safe, nil
}

func (m *memory) between(id stages.QueueID, from, before stages.Micros) []memAppend {
	q := m.byID(id)
	at := func(t stages.Micros) int {
		i, _ := slices.BinarySearchFunc(q.appends, t, func(a memAppend, t stages.Micros) int { return cmp.Compare(a.h.TS, t) })
		return i
	}
	return slices.Clone(q.appends[at(from):max(at(from), at(before))])
}

func (m *memory) Headers(_ context.Context, id stages.QueueID, from, before stages.Micros) iter.Seq2[stages.Header, error] {
	m.mu.Lock()
	appends := m.between(id, from, before)
	m.mu.Unlock()
	return func(yield func(stages.Header, error) bool) {
		for _, a := range appends {
			if !yield(a.h, nil) {
				return
			}
		}
	}
}

// Positions counts what is stamped below a moment, and what retention took of that.
func (m *memory) Positions(_ context.Context, id stages.QueueID, at stages.Micros) (out []stages.Position, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.byID(id)
	next := map[stages.PartitionID]int64{}
	for _, a := range q.appends {
		if a.h.TS < at {
			next[a.h.Partition] = a.h.Base + int64(a.h.Count)
		}
	}
	for part, n := range next {
		out = append(out, stages.Position{Name: q.names[part], Offset: n, ID: [16]byte{15: byte(part)}})
	}
	slices.SortFunc(out, func(a, b stages.Position) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func (m *memory) Listing(_ context.Context, id stages.QueueID, sink string, k uint64) (stages.Listing, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.byID(id)
	keys := commit.NewKeys(sink, stages.Esc(q.info.Name))
	in, err := stages.ParseIntent(m.kv.Get(keys.Intent()).Value)
	if err != nil || in.K != k || m.behind {
		return stages.Listing{}, stages.ErrNoIntent
	}
	start := stages.Beginning
	if in.From != nil {
		start = *in.From
	}
	if row := m.kv.Get(keys.Committed()); row.Version != 0 {
		p, err := stages.ParsePointer(row.Value)
		if err != nil || p.K+1 != k || p.End != start {
			return stages.Listing{}, stages.ErrNoIntent
		}
	}
	l := stages.Listing{K: k, Start: start, End: in.End, Queue: id}
	places := map[stages.PartitionID]uint32{}
	for _, a := range m.between(id, start, in.End) {
		part, ok := places[a.h.Partition]
		if !ok {
			part = uint32(len(l.Parts))
			places[a.h.Partition] = part
			l.Parts = append(l.Parts, stages.Part{ID: a.h.Partition, Name: q.names[a.h.Partition]})
		}
		if len(l.Appends) == 0 {
			l.MinTS = a.h.TS
		}
		l.MaxTS = a.h.TS
		l.Records += int64(a.h.Count)
		l.Weight += int64(a.h.Weight)
		// The place of an append is its stamp.
		l.Appends = append(l.Appends, stages.Append{Part: part, Seg: uint32(uint64(a.h.TS) >> 32), Off: uint32(a.h.TS), Len: uint32(a.h.Weight)})
	}
	for _, lost := range q.lost {
		if start <= lost.first && lost.first < in.End {
			l.Lost = append(l.Lost, lost.r)
		}
	}
	return l, nil
}

// reading waits while bodies cannot be read, and counts who does.
func (m *memory) reading(ctx context.Context, id stages.QueueID) error {
	m.mu.Lock()
	stuck := m.stuck
	if stuck != nil {
		m.reads[id]++
	}
	m.mu.Unlock()
	if stuck == nil {
		return nil
	}
	select {
	case <-stuck:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *memory) Bodies(ctx context.Context, list *stages.Listing, appends []stages.Append, into func(int, stages.Body) error) error {
	if err := m.reading(ctx, list.Queue); err != nil {
		return err
	}
	for i, a := range appends {
		ts := stages.Micros(uint64(a.Seg)<<32 | uint64(a.Off))
		m.mu.Lock()
		found := m.between(list.Queue, ts, ts+1)
		err, panics := m.broken, m.panics
		m.mu.Unlock()
		if panics {
			panic("in the log")
		}
		if err != nil {
			return err
		}
		if len(found) != 1 {
			return stages.ErrStaleRef
		}
		if err := into(i, memBody(found[0])); err != nil {
			return err
		}
	}
	return ctx.Err()
}

type memBody memAppend

func (b memBody) Header() stages.Header { return b.h }

func (b memBody) Records() iter.Seq2[stages.Record, error] {
	return func(yield func(stages.Record, error) bool) {
		for _, r := range b.records {
			if !yield(r, nil) {
				return
			}
		}
	}
}
