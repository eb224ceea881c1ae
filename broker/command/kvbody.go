package command

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"queen/broker/command/wire"
	"queen/broker/kv"
	"queen/stages"
)

// Flags of a KV operation.
const (
	opExpect   = 1 << 0
	opRequired = 1 << 1
	opForever  = 1 << 2
	opKeysOnly = 1 << 3
	opAfter    = 1 << 4
	opMin      = 1 << 5
	opMax      = 1 << 6
)

// KV is the body of a KV command: a batch of operations of one tenant.
type KV struct {
	Tenant [16]byte
	Ops    []kv.Op
}

// Append appends the encoded body. The caller has checked the operations (kv.Validate).
func (k KV) Append(dst []byte) []byte {
	dst = slices.Grow(dst, k.size())
	dst = append(dst, k.Tenant[:]...)
	dst = binary.AppendUvarint(dst, uint64(len(k.Ops)))
	for i := range k.Ops {
		dst = appendOp(dst, &k.Ops[i])
	}
	return dst
}

// size is about what the encoded body has, in bytes.
func (k KV) size() int {
	const fixed = 48 // kind, flags, lengths, numbers
	n := fixed
	for i := range k.Ops {
		n += fixed + len(k.Ops[i].NS) + len(k.Ops[i].Key) + len(k.Ops[i].Value)
	}
	return n
}

// appendOp appends one operation. Fields that its kind does not have are left out.
func appendOp(dst []byte, op *kv.Op) []byte {
	flags := opFlags(op) & allowedFlags(op.Kind)
	dst = append(dst, byte(op.Kind), flags)
	dst = wire.AppendString(dst, op.NS)
	dst = wire.AppendString(dst, op.Key)
	switch op.Kind {
	case kv.GetMany:
		dst = binary.AppendUvarint(dst, uint64(len(op.Keys)))
		for _, key := range op.Keys {
			dst = wire.AppendString(dst, key)
		}
	case kv.GetPrefix:
		dst = binary.AppendUvarint(dst, uint64(op.Limit))
		if op.After != nil {
			dst = wire.AppendString(dst, *op.After)
		}
	case kv.Put, kv.PutIfAbsent:
		dst = wire.AppendBytes(dst, op.Value)
	case kv.Incr:
		dst = binary.BigEndian.AppendUint64(dst, uint64(op.Delta))
		for _, bound := range []*int64{op.Min, op.Max} {
			if bound != nil {
				dst = binary.BigEndian.AppendUint64(dst, uint64(*bound))
			}
		}
	}
	if op.Kind.Expires() && !op.Forever {
		dst = binary.BigEndian.AppendUint64(dst, uint64(op.TTL))
	}
	if flags&opExpect != 0 {
		dst = binary.BigEndian.AppendUint64(dst, *op.Expect)
	}
	return dst
}

func opFlags(op *kv.Op) (flags byte) {
	for _, f := range []struct {
		set  bool
		flag byte
	}{
		{op.Expect != nil, opExpect},
		{op.Required, opRequired},
		{op.Forever, opForever},
		{op.KeysOnly, opKeysOnly},
		{op.After != nil, opAfter},
		{op.Min != nil, opMin},
		{op.Max != nil, opMax},
	} {
		if f.set {
			flags |= f.flag
		}
	}
	return flags
}

// allowedFlags returns the flags that an operation of this kind may have.
func allowedFlags(kind kv.Kind) byte {
	switch kind {
	case kv.GetPrefix:
		return opKeysOnly | opAfter
	case kv.Put:
		return opExpect | opRequired | opForever
	case kv.PutIfAbsent:
		return opRequired | opForever
	case kv.Delete, kv.Check:
		return opExpect | opRequired
	case kv.Incr:
		return opRequired | opForever | opMin | opMax
	}
	return 0
}

// DecodeKV reads the body of a KV command. Limits of the HTTP interface (lengths, numbers) are not checked again.
func DecodeKV(body []byte) (KV, error) {
	r := wire.NewReader(body)
	k := KV{Tenant: r.ID()}
	n := r.Count(4)
	k.Ops = make([]kv.Op, 0, min(n, kv.MaxOps))
	for range n {
		k.Ops = append(k.Ops, decodeOp(r))
	}
	if err := r.End(); err != nil {
		return KV{}, fmt.Errorf("kv body: %w", err)
	}
	return k, nil
}

func decodeOp(r *wire.Reader) kv.Op {
	op := kv.Op{Kind: kv.Kind(r.U8())}
	flags := r.U8()
	if op.Kind < kv.Get || op.Kind > kv.Check || flags&^allowedFlags(op.Kind) != 0 {
		r.Failf("unknown operation %d or flags %#x", op.Kind, flags)
		return op
	}
	op.Required, op.Forever, op.KeysOnly = flags&opRequired != 0, flags&opForever != 0, flags&opKeysOnly != 0
	op.NS, op.Key = r.String(), r.String()
	if n := len(op.NS); n == 0 || n > kv.MaxNamespace {
		r.Failf("namespace of %d bytes", n)
		return op
	}
	decodeFields(r, &op, flags)
	if op.Kind.Expires() && !op.Forever {
		ttl := r.U64()
		if r.Err() == nil && (ttl == 0 || ttl > math.MaxInt64) {
			r.Failf("ttl of %d", ttl)
		}
		op.TTL = stages.Micros(ttl)
	}
	if flags&opExpect != 0 {
		expect := r.U64()
		op.Expect = &expect
	} else if op.Kind == kv.Check {
		r.Failf("check without expect")
	}
	return op
}

// decodeFields reads what follows the key, up to the expiry.
func decodeFields(r *wire.Reader, op *kv.Op, flags byte) {
	switch op.Kind {
	case kv.GetMany:
		if op.Key != "" {
			r.Failf("getMany with a key")
		}
		for range r.Count(1) {
			op.Keys = append(op.Keys, r.String())
		}
	case kv.GetPrefix:
		limit := r.Uvarint()
		if r.Err() == nil && (limit == 0 || limit > kv.MaxLimit) {
			r.Failf("limit of %d", limit)
		}
		op.Limit = int(limit)
		if flags&opAfter != 0 {
			after := r.String()
			op.After = &after
		}
	case kv.Put, kv.PutIfAbsent:
		op.Value = r.Bytes()
		if r.Err() == nil && len(op.Value) == 0 {
			r.Failf("empty value")
		}
	case kv.Incr:
		op.Delta = r.I64()
		op.Min, op.Max = readBound(r, flags&opMin != 0), readBound(r, flags&opMax != 0)
	}
}

func readBound(r *wire.Reader, present bool) *int64 {
	if !present {
		return nil
	}
	v := r.I64()
	return &v
}
