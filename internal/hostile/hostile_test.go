package hostile

import (
	"bytes"
	"math/bits"
	"testing"
)

func TestFlipChangesOneBit(t *testing.T) {
	whole := []byte("some bytes")
	seen := map[string]bool{}
	for bit := range uint32(8 * len(whole)) {
		got := Flip(whole, bit)
		changed := 0
		for i := range got {
			changed += bits.OnesCount8(got[i] ^ whole[i])
		}
		if changed != 1 || seen[string(got)] {
			t.Errorf("bit %d: %q", bit, got)
		}
		seen[string(got)] = true
	}
	if !bytes.Equal(Flip(whole, 3), Flip(whole, uint32(3+8*len(whole)))) || Flip(nil, 1) != nil {
		t.Error("a number beyond the last bit")
	}
}

// note is a T that remembers whether it failed.
type note struct {
	testing.TB
	failed bool
}

func (n *note) Helper()               {}
func (n *note) Errorf(string, ...any) { n.failed = true }

var kept []byte

func TestBounded(t *testing.T) {
	for _, c := range []struct {
		size int
		bad  bool
	}{{1000, false}, {slack + 4000, false}, {slack + 64<<10, true}, {10 << 20, true}} {
		n := &note{TB: t}
		Bounded(n, 1000, 10, func() { kept = make([]byte, c.size) })
		if n.failed != c.bad {
			t.Errorf("%d bytes for 1000, ten times: failed %v", c.size, n.failed)
		}
	}
}
