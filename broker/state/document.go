package state

import (
	"errors"

	"queen/broker/command"
	"queen/broker/kv"
)

// documents is a batch of operations on documents.
type documents struct{ command.KV }

// apply returns a *kv.Outcome.
func (d documents) apply(tx *transaction) (any, error) {
	m, docs := &tx.s.meta, tx.documents()
	docs.ordered = true
	out, err := kv.Apply(docs, d.Tenant, m.now, m.led, d.Ops)
	if err := errors.Join(err, docs.leave()); err != nil {
		return nil, err
	}
	if out.Lost == nil {
		if err := tx.pointersMoved(d.Tenant, d.Ops); err != nil {
			return nil, err
		}
		for i := range d.Ops {
			if op := &d.Ops[i]; op.Kind.Expires() && !op.Forever && op.TTL < kv.Never-m.led {
				tx.s.expiry = min(tx.s.expiry, m.led+op.TTL) // a lower bound: it may have lost, or met a longer life
			}
		}
	}
	return &out, nil
}

// sweep removes documents whose life is over. State.expiry spares entries that can't find any from looking.
func (tx *transaction) sweep() error {
	s := tx.s
	if s.meta.led < s.expiry {
		return nil
	}
	if err := kv.Sweep(tx.documents(), s.meta.led); err != nil {
		return err
	}
	next, err := kv.NextExpiry(tx.documents())
	s.expiry = next
	return err
}
