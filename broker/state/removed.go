package state

import (
	"encoding/binary"

	"queen/broker/command/wire"
	"queen/broker/retention"
	"queen/broker/segment"
	"queen/stages"
)

// Rows of what was removed (docs/formats.md section 5): W, Z and F.

func appendRemoved(r retention.Removed) []byte {
	b := binary.BigEndian.AppendUint64([]byte{rowVersion}, uint64(r.Below))
	b = binary.AppendUvarint(b, uint64(len(r.Kept)))
	for _, k := range r.Kept {
		b = binary.BigEndian.AppendUint64(b, uint64(k.From))
		b = binary.BigEndian.AppendUint64(b, uint64(k.To))
	}
	return b
}

func decodeRemoved(row []byte) (removed retention.Removed, err error) {
	r, err := versioned(row)
	if err != nil {
		return removed, err
	}
	removed.Below = stages.Micros(r.I64())
	last := stages.Beginning
	for range r.Count(16) {
		k := retention.Span{From: stages.Micros(r.I64()), To: stages.Micros(r.I64())}
		if k.Empty() || k.From < last || k.To > removed.Below {
			r.Failf("the span %d to %d is out of place", k.From, k.To)
		}
		last = k.To
		removed.Kept = append(removed.Kept, k)
	}
	return removed, r.End()
}

func appendDropped(d segment.Dropped) []byte {
	b := binary.AppendUvarint([]byte{rowVersion}, uint64(len(d)))
	for _, r := range d {
		b = binary.BigEndian.AppendUint32(b, r.From)
		b = binary.BigEndian.AppendUint32(b, r.To)
	}
	return b
}

func decodeDropped(row []byte) (dropped segment.Dropped, err error) {
	r, err := versioned(row)
	if err != nil {
		return nil, err
	}
	last := uint32(0)
	for range r.Count(8) {
		run := segment.Run{From: r.U32(), To: r.U32()}
		if run.From <= last || run.To < run.From {
			r.Failf("the run %d to %d is out of place", run.From, run.To)
		}
		last = run.To
		dropped = append(dropped, run)
	}
	return dropped, r.End()
}

// appendHidden is the row of a queue that was deleted at a stamp and is kept for open windows.
func appendHidden(at stages.Micros, holders []holder) []byte {
	b := binary.BigEndian.AppendUint64([]byte{rowVersion}, uint64(at))
	b = binary.AppendUvarint(b, uint64(len(holders)))
	for _, h := range holders {
		b = wire.AppendString(b, h.sink)
		b = binary.BigEndian.AppendUint64(b, uint64(h.window.From))
		b = binary.BigEndian.AppendUint64(b, uint64(h.window.To))
	}
	return b
}

func decodeHidden(row []byte) (at stages.Micros, holders []holder, err error) {
	r, err := versioned(row)
	if err != nil {
		return 0, nil, err
	}
	at = stages.Micros(r.I64())
	for range r.Count(17) {
		holders = append(holders, holder{r.String(), retention.Span{From: stages.Micros(r.I64()), To: stages.Micros(r.I64())}})
	}
	return at, holders, r.End()
}

func (s *State) loadRemoved(key, row []byte) error {
	q, err := s.owner(key)
	if err == nil {
		q.removed, err = decodeRemoved(row)
	}
	return err
}

func (s *State) loadDropped(key, row []byte) error {
	q, err := s.owner(key)
	if err == nil {
		q.dropped, err = decodeDropped(row)
	}
	return err
}

func (s *State) loadHidden(key, row []byte) error {
	q, err := s.owner(key)
	if err == nil {
		_, q.holders, err = decodeHidden(row)
	}
	if err == nil {
		s.hide(q)
	}
	return err
}

// passed moves the lowest offset of a partition over an append that was removed, or that readers do not see any more.
func (s *State) passed(q *queue, p *partition, h stages.Header) {
	if next := h.Base + int64(h.Count); next > p.Start {
		p.Start = next
		s.stain(q, p)
	}
}

// dead says that no record of a queue is there any more, for readers and for sinks.
func (q *queue) dead() bool { return q.last < q.removed.Below && len(q.removed.Kept) == 0 }
