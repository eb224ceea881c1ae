package state_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"queen/internal/crashdisk"
)

// TestShared: what every node has at an index does not depend on when it flushed, on which files it did away with, or on how often it was opened.
func TestShared(t *testing.T) {
	entries := removals(7, 300)
	one, other := newNode(t), openNode(t, crashdisk.New(), 1)
	rng := rand.New(rand.NewPCG(5, 5))
	for i, e := range entries {
		for _, n := range []*node{one, other} {
			if _, err := n.Apply(uint64(i+1), e); err != nil {
				t.Fatal(err)
			}
		}
		switch rng.IntN(10) {
		case 0:
			if err := other.Flush(); err != nil {
				t.Fatal(err)
			}
		case 1:
			gone, err := other.Reclaim()
			if err == nil {
				err = other.segments.Remove(gone)
			}
			if err != nil {
				t.Fatal(err)
			}
		case 2:
			other.close()
			other = openNode(t, other.fs, uint32(i+2))
		}
		want, err := one.DumpShared()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := other.DumpShared(); got != want || err != nil {
			t.Fatalf("%v, after entry %d:\n%s\nwant\n%s", err, i+1, got, want)
		}
	}
	all, err := one.Dump()
	rest, err2 := other.Dump()
	if all == rest || err != nil || err2 != nil {
		t.Errorf("the nodes decided nothing for themselves, so nothing was seen: %v, %v", err, err2)
	}
	other.close()
	shared, err := one.DumpShared()
	if got, want := linesOf(shared, "PQR"), linesOf(all, "PQR"); got == "" || got != want || err != nil {
		t.Errorf("%v, queues and partitions are\n%s\nand after a flush\n%s", err, got, want)
	}
}

// linesOf are the rows of some tables.
func linesOf(dump, tables string) string {
	var b strings.Builder
	for line := range strings.Lines(dump) {
		if strings.Contains(tables, line[:1]) {
			b.WriteString(line)
		}
	}
	return b.String()
}
