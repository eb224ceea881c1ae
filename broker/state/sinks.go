package state

import (
	"strings"

	"queen/broker/kv"
	"queen/broker/retention"
	"queen/stages"
)

// SinkNamespace is the KV namespace that the rows of sinks are in (docs/formats.md section 8). HTTP clients cannot write there.
const SinkNamespace = "queen-s3"

const sinkPrefix = "s3:"

// sinkRows reads the rows of the sinks of one tenant, as they are when they are read. They are looked up where they are needed: a sink that
// is renamed or gone needs no list of sinks to be forgotten from.
type sinkRows struct {
	tx interface {
		Get(key []byte) ([]byte, error)
		Scan(lower, upper []byte, fn func(key, value []byte) bool) error
	}
	tenant   [16]byte
	now, led stages.Micros
}

func (tx *transaction) sinkRows(tenant [16]byte) sinkRows {
	return sinkRows{tx.documents(), tenant, tx.s.meta.now, tx.s.meta.led}
}

func (r sinkRows) get(key string) ([]byte, error) {
	doc, ok, err := kv.Find(r.tx, r.tenant, r.now, r.led, SinkNamespace, key)
	if !ok || err != nil {
		return nil, err
	}
	return doc.Value, nil
}

// of returns the sinks that have adopted the queue of this name, in the order of their names: those with a start row. Names of sinks hold no
// colon, so it takes a step or two a sink, however many queues they have.
func (r sinkRows) of(queue string) (sinks []retention.Sink, err error) {
	for from := sinkPrefix; ; {
		key, ok, err := kv.NextKey(r.tx, r.tenant, SinkNamespace, from)
		if err != nil || !ok || !strings.HasPrefix(key, sinkPrefix) {
			return sinks, err
		}
		sink, _, ok := strings.Cut(key[len(sinkPrefix):], ":")
		if !ok {
			from = key + "\x00"
			continue
		}
		from = sinkPrefix + sink + ";" // above all keys of this sink
		if s, adopted, err := r.sink(sink, queue); err != nil {
			return nil, err
		} else if adopted {
			sinks = append(sinks, s)
		}
	}
}

// sink reads where a sink stands. What the sink itself cannot read stops it there until somebody restores the row, so everything from its
// start on counts as not mirrored, and up to the end of an intent as frozen.
func (r sinkRows) sink(name, queue string) (s retention.Sink, adopted bool, err error) {
	base := baseOf(name, queue)
	row, err := r.get(base + "start")
	if row == nil || err != nil {
		return s, false, err
	}
	s = retention.Sink{Name: name, Wait: stages.ParseWait(row)}
	if s.Position, err = stages.ParseStart(row); err != nil {
		s.Position = stages.Beginning
	}
	k, known := uint64(0), true
	if row, err = r.get(base + "committed"); err != nil {
		return s, false, err
	}
	if row != nil {
		pointer, err := stages.ParsePointer(row)
		if known = err == nil; known {
			k, s.Position = pointer.K, pointer.End
		}
	}
	if row, err = r.get(base + "intent"); err != nil {
		return s, false, err
	}
	if in, err := stages.ParseIntent(row); row != nil && err == nil && (in.K == k+1 || !known) {
		s.Open = retention.Span{From: s.Position, To: in.End}
	}
	return s, true, nil
}

// pointer returns the tEnd of the pointer of a sink, whose rows begin with base; a row that is missing or cannot be read has none.
func (r sinkRows) pointer(base string) (end stages.Micros, known bool, err error) {
	row, err := r.get(base + "committed")
	if row == nil || err != nil {
		return 0, false, err
	}
	p, err := stages.ParsePointer(row)
	return p.End, err == nil, nil
}

// baseOf is what the keys of the rows of a sink and a queue begin with.
func baseOf(sink, queue string) string { return sinkPrefix + sink + ":" + stages.Esc(queue) + ":" }

// pointersMoved is called when documents have changed: what was lost and belongs to a window that is real by now is forgotten, and a queue that
// was kept, deleted, for such a window goes.
func (tx *transaction) pointersMoved(tenant [16]byte, ops []kv.Op) error {
	for i := range ops {
		if ops[i].NS != SinkNamespace {
			continue
		}
		base, ok := strings.CutSuffix(ops[i].Key, "committed")
		sink, rest, is := strings.Cut(strings.TrimPrefix(base, sinkPrefix), ":")
		queue, colon := strings.CutSuffix(rest, ":")
		if !ok || !is || !colon {
			continue
		}
		if end, known, err := tx.sinkRows(tenant).pointer(base); err != nil {
			return err
		} else if known {
			if err := tx.forgetLost(lostPrefix(tenant, sink, queue), end); err != nil {
				return err
			}
		}
		if err := tx.release(tenant, queue); err != nil {
			return err
		}
	}
	return nil
}

// release removes what is left of deleted queues of this name, escaped, that nobody's open window needs any more.
func (tx *transaction) release(tenant [16]byte, escaped string) error {
	t := tx.s.tenants[tenant]
	if t == nil || len(t.hidden) == 0 {
		return nil
	}
	var same []*queue
	for _, q := range t.hidden {
		if stages.Esc(q.row.Name) == escaped {
			same = append(same, q)
		}
	}
	for _, q := range same {
		most := Unbounded
		if _, err := tx.retain(q, &most); err != nil {
			return err
		}
	}
	return nil
}
