package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"queen/broker/command"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/internal/jsontext"
)

// pushTimeout is how long a push may wait for its command to be stored.
const pushTimeout = 30 * time.Second

// push is POST /api/v1/push: one command, all or nothing, one stamp for all its partitions (contract R6). The body is walked once;
// payloads are its own bytes up to the record blocks of the command.
func (s *server) push(w http.ResponseWriter, r *http.Request, _ []string) error {
	body, err := s.bodyInto(w, r, s.buffers.get)
	if err != nil {
		return err
	}
	defer func() { s.buffers.put(body) }() // nothing is left of the push by then
	p, ok := s.pushes.Get().(*pushRequest)
	if !ok {
		p = newPushRequest()
	}
	defer func() {
		if p.clear() {
			s.pushes.Put(p)
		}
	}()
	if err := p.parse(body); err != nil {
		return err
	}
	out := &stream{w: w, status: http.StatusCreated}
	if len(p.items) == 0 {
		out.buf = append(out.buf, "[]"...)
		out.finish()
		return nil
	}
	ids, err := s.ids.mint(len(p.items))
	if err != nil {
		return err
	}
	result, err := s.propose(r.Context(), p, ids)
	if err != nil {
		return err
	}
	s.messages.Add(int64(len(p.items)))
	for _, a := range result.Appends {
		s.messages.Add(-int64(len(a.Dups)))
	}
	return p.render(out, &s.buffers, ids, result)
}

// propose stores a push. A push that was prepared against settings which no longer hold has stored nothing: it is prepared again,
// once something was applied here since it was prepared, which is how it became stale.
func (s *server) propose(ctx context.Context, p *pushRequest, ids [][16]byte) (*state.PushResult, error) {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	for {
		changed := s.o.Broker.State().Changed()
		cmd, err := s.pushCommand(p, ids)
		if err != nil {
			return nil, err
		}
		answer, err := s.o.Broker.Propose(ctx, command.KindPush, cmd)
		s.buffers.put(cmd)
		if err != nil {
			return nil, err
		}
		result, ok := answer.(*state.PushResult)
		switch {
		case ok && result.Stale:
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		case !ok || len(result.Appends) != len(p.groups):
			return nil, fmt.Errorf("push: the state answered %T", answer)
		}
		return result, nil
	}
}

// pushCommand encodes the push into a buffer of the pool.
func (s *server) pushCommand(p *pushRequest, ids [][16]byte) ([]byte, error) {
	total, overhead := 0, 64
	for _, g := range p.groups {
		overhead += len(g.partition) + 32
	}
	cmd := command.Push{Tenant: s.tenant, Appends: make([]command.PushAppend, len(p.groups))}
	var sealing sealing
	err := s.o.Broker.State().Read(func(rd *state.Reader) error {
		for i, name := range p.queues {
			q := command.PushQueue{Name: name}
			if row, ok := rd.Queue(s.tenant, name); ok {
				q.Config = row.Config
				if row.Seals() {
					sealing.want(i, len(p.queues), row)
				}
			}
			cmd.Queues = append(cmd.Queues, q)
			overhead += len(name) + 16
		}
		return nil
	})
	if err == nil {
		err = s.prepareSealing(&sealing, p)
	}
	if err != nil {
		return nil, err
	}
	cmd.Key = uint64(sealing.key.Fingerprint())
	sizes := sealing.sizes(p)
	for i, g := range p.groups {
		total += sizes[i]
		cmd.Appends[i] = command.PushAppend{Queue: g.queue, Partition: g.partition, Flags: g.flags | sealing.flag(g.queue), Count: g.count}
	}
	if total > command.MaxEntry {
		return nil, pushTooLarge(total)
	}
	out, blocks := cmd.AppendRoom(s.buffers.get(total+overhead), sizes)
	if 1+command.HeaderSize+len(out) > command.MaxEntry {
		return nil, pushTooLarge(len(out))
	}
	for i := range p.items {
		it := &p.items[i]
		m := segment.Message{ID: ids[i], TxID: it.tx, Payload: it.payload}
		if it.trace != nil {
			m.Trace = it.trace[:]
		}
		if sealing.on {
			sealing.seal(&m, p.groups[it.group].queue, i)
		}
		blocks[it.group] = segment.AppendMessage(blocks[it.group], m)
	}
	for i, g := range p.groups {
		if len(blocks[i]) != sizes[i] { // then it is not in out, and what is there instead may be of another push
			return nil, fmt.Errorf("push: partition %q has %d bytes of records, %d were expected", g.partition, len(blocks[i]), sizes[i])
		}
	}
	return out, nil
}

func pushTooLarge(n int) error {
	return refuse(codeTooLarge, fmt.Sprintf("the push has %d bytes encoded, at most %d are allowed", n, command.MaxEntry))
}

// tally walks the records of one append while its items are rendered.
type tally struct {
	index int // of the next record in the append
	dups  []state.Dup
	next  int64 // offset of the next record that was stored
}

// render writes one element per item, in input order. A duplicate shows the message that was stored first.
func (p *pushRequest) render(out *stream, buffers *buffers, ids [][16]byte, result *state.PushResult) error {
	at := make([]tally, len(p.groups))
	for i, a := range result.Appends {
		at[i] = tally{dups: a.Dups, next: a.Base}
	}
	names := make([][]byte, len(p.queues))
	for i, q := range p.queues {
		names[i] = jsontext.AppendQuoted(nil, q)
	}
	out.buf = append(buffers.get(min(len(p.items)*220, flushAt+1024)), '[')
	defer func() { buffers.put(out.buf) }()
	for i := range p.items {
		it := &p.items[i]
		t := &at[it.group]
		id, offset, status := ids[i], t.next, "queued"
		if len(t.dups) > 0 && t.dups[0].Index == t.index {
			id, offset, status = t.dups[0].ID, t.dups[0].Offset, "duplicate"
			t.dups = t.dups[1:]
		} else {
			t.next++
		}
		t.index++
		if i > 0 {
			out.buf = append(out.buf, ',')
		}
		out.buf = appendPushed(out.buf, i, id, it, names[p.groups[it.group].queue], status, offset)
		if !out.spill() {
			return nil // the client is gone; what was pushed is stored
		}
	}
	out.buf = append(out.buf, ']')
	out.finish()
	return nil
}

func appendPushed(b []byte, index int, id [16]byte, it *item, queue []byte, status string, offset int64) []byte {
	b = appendInt(append(b, `{"index":`...), int64(index))
	b = appendUUID(append(b, `,"message_id":"`...), id)
	b = append(b, `","transaction_id":`...)
	switch {
	case len(it.tx) == 0:
		b = append(appendUUID(append(b, '"'), id), '"')
	case it.quoted != nil:
		b = append(b, it.quoted...)
	default:
		b = jsontext.AppendQuoted(b, it.tx)
	}
	b = append(append(b, `,"queueName":`...), queue...)
	b = append(append(append(b, `,"status":"`...), status...), '"')
	b = appendInt(append(b, `,"offset":`...), offset)
	return append(b, '}')
}
