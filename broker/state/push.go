package state

import (
	"fmt"
	"math"
	"strings"

	"queen/broker/command"
	"queen/broker/dedup"
	"queen/broker/seal"
	"queen/broker/segment"
	"queen/stages"
)

// PushResult answers a push.
type PushResult struct {
	Stamp stages.Micros // of all records that were stored
	// Stale says that nothing was stored: since the push was prepared, encryption was switched on for one of its queues, so its
	// payloads have to be sealed, or a queue turned out to be sealed with another key. Prepare it again.
	Stale   bool
	Appends []AppendResult // one per append of the push; nil when Stale
}

// AppendResult answers one append of a push. Records that are no duplicates have the offsets Base, Base+1, ... in input order.
type AppendResult struct {
	Base int64 // offset of the first stored record; -1 = all are duplicates
	Dups []Dup
}

// Dup is a record that was not stored, because its transaction id was seen before.
type Dup struct {
	Index  int      // of the record in its append
	Offset int64    // of the message that was stored under the id
	ID     [16]byte // of that message
}

// push is a decoded push.
type push struct {
	command.Push
	appends []preparedAppend
}

// preparedAppend holds what can be known of an append before the lock is taken.
type preparedAppend struct {
	*command.PushAppend
	records []preparedRecord
}

type preparedRecord struct {
	id     [16]byte
	hash   dedup.Hash // of the transaction id; of the message id's text where the producer sent none
	sent   bool       // the producer sent a transaction id
	weight int
}

// decodePush reads a push and every record in it.
func decodePush(body []byte) (*push, error) {
	decoded, err := command.DecodePush(body)
	if err != nil {
		return nil, err
	}
	p := &push{Push: decoded, appends: make([]preparedAppend, len(decoded.Appends))}
	for i := range p.Appends {
		if p.appends[i], err = prepare(&p.Appends[i]); err != nil {
			return nil, fmt.Errorf("append %d: %w", i, err)
		}
	}
	return p, nil
}

func prepare(a *command.PushAppend) (preparedAppend, error) {
	prepared := preparedAppend{PushAppend: a, records: make([]preparedRecord, 0, a.Count)}
	var scratch [36]byte
	for m, err := range segment.Messages(a.Block) {
		if err != nil {
			return preparedAppend{}, fmt.Errorf("record %d: %w", len(prepared.records), err)
		}
		text := segment.TxText(m, scratch[:0])
		prepared.records = append(prepared.records, preparedRecord{
			id: m.ID, hash: dedup.HashOf(text), sent: len(m.TxID) > 0,
			weight: stages.RecordWeight(len(text), len(a.Partition), payloadLen(a, m.Payload)),
		})
	}
	if len(prepared.records) != a.Count {
		return preparedAppend{}, fmt.Errorf("%d records, not %d", len(prepared.records), a.Count)
	}
	return prepared, nil
}

// payloadLen is the length of a payload as its producer sent it, which is what counts (stages.RecordWeight).
func payloadLen(a *command.PushAppend, stored []byte) int {
	if a.Flags&stages.FlagSealed != 0 {
		if n, ok := seal.PlainLen(stored); ok {
			return n
		}
	}
	return len(stored)
}

// apply stores a push and returns a *PushResult. Queues and partitions that it names come into being with it.
func (p *push) apply(tx *transaction) (any, error) {
	tx.s.pushes.Add(1)
	result := &PushResult{Stamp: tx.now()}
	if p.stale(tx.s) {
		result.Stale = true
		return result, nil
	}
	result.Appends = make([]AppendResult, len(p.appends))
	queues := make([]*queue, len(p.Queues))
	for i := range p.appends {
		a := &p.appends[i]
		if queues[a.Queue] == nil {
			q, err := tx.pushQueue(p.Tenant, p.Queues[a.Queue].Name)
			if err != nil {
				return nil, err
			}
			queues[a.Queue] = q
		}
		if a.Flags&stages.FlagSealed != 0 {
			if err := tx.sealed(queues[a.Queue], seal.Fingerprint(p.Key)); err != nil {
				return nil, err
			}
		}
		var err error
		if result.Appends[i], err = tx.push(queues[a.Queue], a); err != nil {
			return nil, fmt.Errorf("append %d: %w", i, err)
		}
	}
	return result, nil
}

// stale reports whether the push holds open payloads for a queue that has been told to seal them since it was prepared, or for one that
// seals and has a key: a node without that key must not go on in plain text. Payloads that are sealed with another key than the queue's are
// as wrong. Other changes of a queue's configuration do not matter to what a push holds.
func (p *push) stale(s *State) bool {
	for i := range p.appends {
		named := p.Queues[p.appends[i].Queue]
		q := s.queue(p.Tenant, named.Name)
		switch {
		case q == nil:
		case p.appends[i].Flags&stages.FlagSealed != 0:
			if q.row.Key != 0 && q.row.Key != seal.Fingerprint(p.Key) {
				return true
			}
		case (q.row.Config != named.Config || q.row.Key != 0) && q.row.Seals():
			return true
		}
	}
	return false
}

// sealed notes the key of the first payload of a queue that is sealed.
func (tx *transaction) sealed(q *queue, key seal.Fingerprint) error {
	if q.row.Key != 0 {
		return nil
	}
	row := *q.row
	row.Key = key
	q.row = &row
	return tx.set(queueKey(tableQueue, row.ID), row.append(nil))
}

// push stores what is new of one append.
func (tx *transaction) push(q *queue, a *preparedAppend) (AppendResult, error) {
	p, err := tx.partition(q, a.Partition)
	if err != nil {
		return AppendResult{}, err
	}
	dups, weight, err := tx.dedup(q, p, a)
	if err != nil {
		return AppendResult{}, err
	}
	kept := int64(len(a.records) - len(dups))
	if kept == 0 {
		return AppendResult{Base: -1, Dups: dups}, nil
	}
	body := a.Block
	if len(dups) > 0 {
		if body, err = without(a.Block, dups); err != nil {
			return AppendResult{}, err
		}
	}
	base := p.Next
	tx.addFrame(q, segment.Frame{
		Partition: p.ID, TS: tx.now(), Base: base, Count: int32(kept),
		Weight: int32(min(weight, math.MaxInt32)), Flags: a.Flags, Body: body,
	})
	tx.s.grow(q, p, base+kept, tx.now())
	return AppendResult{Base: base, Dups: dups}, nil
}

// dedup finds the records of an append that were stored before, remembers the others under the offsets that they will have,
// and adds up their weight.
func (tx *transaction) dedup(q *queue, p *partition, a *preparedAppend) (dups []Dup, weight int64, err error) {
	ids, now, times := idTx{tx}, tx.now(), q.idTimes()
	next := p.Next
	for i, r := range a.records {
		if r.sent && times.window > 0 {
			first, found, err := q.ids.Find(ids, p.ID, r.hash, now, times.window)
			if err != nil {
				return nil, 0, err
			}
			if found {
				dups = append(dups, Dup{Index: i, Offset: first.Offset, ID: first.ID})
				continue
			}
		}
		record := dedup.Record{Offset: next, Stamp: now, ID: r.id}
		if err := q.ids.Insert(ids, p.ID, r.hash, record, times.horizon); err != nil {
			return nil, 0, err
		}
		next++
		weight += int64(r.weight)
	}
	return dups, weight, nil
}

// without returns a record block without the duplicates, which are in rising order.
func without(block []byte, dups []Dup) ([]byte, error) {
	kept := make([]byte, 0, len(block))
	i := 0
	for m, err := range segment.Messages(block) {
		if err != nil {
			return nil, err
		}
		if len(dups) > 0 && dups[0].Index == i {
			dups = dups[1:]
		} else {
			kept = segment.AppendMessage(kept, m)
		}
		i++
	}
	return kept, nil
}

// grow moves the head of a partition. Its row follows at the next flush.
func (s *State) grow(q *queue, p *partition, next int64, stamp stages.Micros) {
	p.Next, p.Last = next, stamp
	s.stain(q, p)
}

// stain notes that the R row of a partition is behind.
func (s *State) stain(q *queue, p *partition) {
	if p.dirty {
		return
	}
	p.dirty = true
	q.dirty = append(q.dirty, p)
	s.soil(q)
}

// soil notes that the R rows or the H row of a queue are behind.
func (s *State) soil(q *queue) {
	if !q.soiled {
		q.soiled = true
		s.dirty = append(s.dirty, q)
	}
}

// pushQueue returns a queue by name, making it with the defaults of a push.
func (tx *transaction) pushQueue(tenant [16]byte, name string) (*queue, error) {
	if q := tx.s.queue(tenant, name); q != nil {
		return q, nil
	}
	row := tx.s.newQueueRow(tenant, name)
	row.Options = PushDefaults()
	return tx.createQueue(row)
}

// nameParts returns the namespace and the task that a queue's name stands for: its first two parts between dots.
func nameParts(name string) (namespace, task string) {
	namespace, rest, _ := strings.Cut(name, ".")
	task, _, _ = strings.Cut(rest, ".")
	return namespace, task
}
