package kv

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"queen/stages"
)

// MaxSweep is the most expired documents that one sweep removes (docs/formats.md 5.2).
const MaxSweep = 512

// getter is the part of a Tx that looks rows up.
type getter interface {
	Get(key []byte) ([]byte, error)
}

// scanner is the part of a Tx that reads rows in order.
type scanner interface {
	Scan(lower, upper []byte, fn func(key, value []byte) bool) error
}

// load returns the stored document under a document key, live or expired; nil = none.
func load(tx getter, key []byte) (*document, error) {
	row, err := tx.Get(key)
	if err != nil || row == nil {
		return nil, err
	}
	d, err := decodeDocument(row)
	if err != nil {
		return nil, fmt.Errorf("row %q: %w", key, err)
	}
	return &d, nil
}

// replace makes a change under a document key and keeps the expiry rows right.
func replace(tx Tx, key []byte, c change) error {
	old, next := c.old, c.next
	if old != nil && old.expires != Never {
		if err := tx.Delete(expiryKey(old.expires, key)); err != nil {
			return err
		}
	}
	if next == nil {
		if old == nil {
			return nil
		}
		return tx.Delete(key)
	}
	if next.expires != Never {
		if err := tx.Set(expiryKey(next.expires, key), []byte{rowVersion}); err != nil {
			return err
		}
	}
	return tx.Set(key, next.append(nil))
}

// multi answers one multi-key read.
func (b *batch) multi(i int, op *Op) error {
	r := &b.results[i]
	r.Kind = op.Kind
	if op.Kind == GetMany {
		return b.many(op, r)
	}
	return b.prefix(b.tx, op, r)
}

// prefix answers a getPrefix.
func (b *batch) prefix(tx scanner, op *Op, r *Result) error {
	lower := documentKey(b.tenant, op.NS, op.Key)
	upper := prefixEnd(lower)
	if op.After != nil {
		after := append(documentKey(b.tenant, op.NS, *op.After), 0)
		if bytes.Compare(after, lower) > 0 {
			lower = after
		}
	}
	var fault error
	cut := len(documentKey(b.tenant, op.NS, ""))
	err := tx.Scan(lower, upper, func(key, value []byte) bool {
		d, err := decodeDocument(value)
		if err != nil {
			fault = fmt.Errorf("row %q: %w", key, err)
			return false
		}
		if !d.live(b.led) {
			return true
		}
		if op.KeysOnly {
			d.text = nil
		}
		d.text = bytes.Clone(d.text)
		if len(r.Rows) == op.Limit || !b.fits(d.shown(string(key[cut:]), b.now, b.led), r) {
			r.Truncated = true
			return false
		}
		return true
	})
	if err == nil {
		err = fault
	}
	return err
}

// many answers a getMany: every key once, in byte order.
func (b *batch) many(op *Op, r *Result) error {
	keys := slices.Clone(op.Keys)
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		d, err := load(b.tx, documentKey(b.tenant, op.NS, key))
		if err != nil {
			return err
		}
		if d == nil || !d.live(b.led) {
			r.Missing = append(r.Missing, key)
			continue
		}
		if !b.fits(d.shown(key, b.now, b.led), r) {
			r.Truncated = true
			return nil
		}
	}
	return nil
}

// fits adds a row to a result unless the batch has returned enough. The first row of all always fits.
func (b *batch) fits(row Row, r *Result) bool {
	size := len(row.Key) + len(row.Value)
	if size > b.budget && b.budget < MaxRead {
		return false
	}
	b.budget -= size
	r.Rows = append(r.Rows, row)
	return true
}

// prefixEnd returns the first key above all keys with this prefix; prefix begins with a table byte, so there is one.
func prefixEnd(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	end[len(end)-1]++
	return end
}

// Sweep removes up to MaxSweep documents whose life is over at this time of the led clock, lowest expiry first.
func Sweep(tx Tx, led stages.Micros) error {
	var gone [][]byte
	upper := binary.BigEndian.AppendUint64([]byte{tableExpiry}, uint64(led)+1)
	err := tx.Scan([]byte{tableExpiry}, upper, func(key, _ []byte) bool {
		gone = append(gone, bytes.Clone(key))
		return len(gone) < MaxSweep
	})
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	for _, key := range gone {
		document := append([]byte{tableDocument}, key[9:]...)
		if err := tx.Delete(document); err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
		if err := tx.Delete(key); err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
	}
	return nil
}

// NextExpiry returns the lowest expiry that is stored, on the led clock; Never when nothing will expire.
func NextExpiry(tx scanner) (stages.Micros, error) {
	next := Never
	err := tx.Scan([]byte{tableExpiry}, []byte{tableExpiry + 1}, func(key, _ []byte) bool {
		next = stages.Micros(binary.BigEndian.Uint64(key[1:]))
		return false
	})
	return next, err
}

// Find returns one live document as it is at the given times of the log clock and the led clock.
func Find(tx getter, tenant [16]byte, now, led stages.Micros, ns, key string) (Row, bool, error) {
	d, err := load(tx, documentKey(tenant, ns, key))
	if err != nil || d == nil || !d.live(led) {
		return Row{}, false, err
	}
	return d.shown(key, now, led), true, nil
}

// NextKey returns the first key of a namespace at or above another, of a document that is live or not.
func NextKey(tx scanner, tenant [16]byte, ns, from string) (next string, ok bool, err error) {
	base := documentKey(tenant, ns, "")
	err = tx.Scan(documentKey(tenant, ns, from), prefixEnd(base), func(key, _ []byte) bool {
		next, ok = string(key[len(base):]), true
		return false
	})
	return next, ok, err
}

// List returns up to limit live documents whose keys begin with a prefix, in byte order; more says that there are others.
func List(tx scanner, tenant [16]byte, now, led stages.Micros, ns, prefix string, limit int) (rows []Row, more bool, err error) {
	r := Result{}
	b := batch{tenant: tenant, now: now, led: led, budget: MaxRead}
	err = b.prefix(tx, &Op{NS: ns, Key: prefix, Limit: limit}, &r)
	return r.Rows, r.Truncated, err
}
