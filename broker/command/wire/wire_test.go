package wire_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"queen/broker/command/wire"
)

func TestUvarintIsMinimal(t *testing.T) {
	for _, v := range []uint64{0, 1, 127, 128, 300, 1 << 35, math.MaxUint64} {
		b := binary.AppendUvarint(nil, v)
		r := wire.NewReader(b)
		if got := r.Uvarint(); got != v || r.End() != nil {
			t.Errorf("%d: %d, %v", v, got, r.End())
		}
		long := append(append([]byte{}, b[:len(b)-1]...), b[len(b)-1]|0x80, 0)
		if r := wire.NewReader(long); r.Uvarint() != 0 || !errors.Is(r.Err(), wire.ErrMalformed) {
			t.Errorf("%x was accepted", long)
		}
	}
	for _, b := range [][]byte{nil, {0x80}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}} {
		if r := wire.NewReader(b); r.Uvarint() != 0 || r.Err() == nil {
			t.Errorf("%x was accepted", b)
		}
	}
}

// TestFaultsStick: after the first fault everything is zero and the first fault is what is reported.
func TestFaultsStick(t *testing.T) {
	r := wire.NewReader([]byte{5, 'a', 'b'})
	if s := r.String(); s != "" {
		t.Errorf("%q", s)
	}
	first := r.Err()
	r.Failf("second")
	if r.U8() != 0 || r.U32() != 0 || r.U64() != 0 || r.ID() != [16]byte{} || r.Bytes() != nil || r.Len() != 0 {
		t.Error("reads go on after a fault")
	}
	if r.End() != first || !errors.Is(first, wire.ErrMalformed) {
		t.Errorf("%v, want %v", r.End(), first)
	}
}

func TestEnd(t *testing.T) {
	r := wire.NewReader(wire.AppendBytes(wire.AppendString(nil, "a"), []byte("bc")))
	if r.String() != "a" || r.End() == nil {
		t.Error("bytes that are left over are no fault")
	}
	r = wire.NewReader(wire.AppendBytes(wire.AppendString(nil, "a"), []byte("bc")))
	if r.String() != "a" || string(r.Bytes()) != "bc" || r.End() != nil {
		t.Error(r.End())
	}
}

// TestCount: a number of items that can't be there is refused before anyone allocates for it.
func TestCount(t *testing.T) {
	for n, ok := range map[uint64]bool{0: true, 2: true, 3: false, math.MaxUint64: false} {
		r := wire.NewReader(append(binary.AppendUvarint(nil, n), 1, 2, 3, 4, 5))
		if got := r.Count(2); (r.Err() == nil) != ok || ok && got != int(n) {
			t.Errorf("%d: %d, %v", n, got, r.Err())
		}
	}
}
