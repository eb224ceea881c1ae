package dedup

import (
	"math/bits"
	"sync/atomic"
)

// filter says of an id that it is surely not in a level of a bucket, or that it may be: a look-up on disk costs more than all the
// rest of storing a record. It holds every id of its level, or does not exist.
//
// It is a Bloom filter of blocks of one cache line: an id sets some bits of one block. With 16 bits of memory an id, one look-up in
// 700 is in vain once the level is full; with 8 bits one in 40, with 4 one in 6, with 2 two in 5. A level gets the most for which there is
// memory, and every step down is still better than nothing.
type filter struct {
	blocks []block
	set    int // bits that an id sets
}

type block [8]uint64 // 512 bits

const blockBytes = 64

// densities is how much memory an id may take, in bits, and how many of them it sets then: about 0.7 of it would be best; less is read faster.
var densities = []struct {
	bits uint64
	set  int
}{{16, 8}, {8, 5}, {4, 3}, {2, 1}}

// newFilter returns an empty filter for so many ids, nil when there is no memory for it.
func newFilter(shared *Shared, ids uint64) *filter {
	for _, d := range densities {
		n := max(ids*d.bits/8/blockBytes, 1)
		if int64(n)*blockBytes <= shared.Left {
			shared.Left -= int64(n) * blockBytes
			return &filter{blocks: make([]block, n), set: d.set}
		}
	}
	return nil
}

// add notes an id.
func (f *filter) add(at place) {
	b, bit := f.block(at)
	for range f.set {
		b[bit>>6&7] |= 1 << (bit & 63)
		bit = bit>>9 | bit<<55
	}
}

// addBeside notes an id, beside others who do. Nobody may ask has meanwhile.
func (f *filter) addBeside(at place) {
	b, bit := f.block(at)
	for range f.set {
		atomic.OrUint64(&b[bit>>6&7], 1<<(bit&63))
		bit = bit>>9 | bit<<55
	}
}

// has reports whether the id may have been added.
func (f *filter) has(at place) bool {
	b, bit := f.block(at)
	for range f.set {
		if b[bit>>6&7]&(1<<(bit&63)) == 0 {
			return false
		}
		bit = bit>>9 | bit<<55
	}
	return true
}

// block returns the block of an id and what picks its bits: nine bits of low for each, the last ones with bits of high, of which
// the block's number takes others.
func (f *filter) block(at place) (b *block, bit uint64) {
	i, _ := bits.Mul64(at.high, uint64(len(f.blocks)))
	return &f.blocks[i], at.low
}

// release gives the memory back.
func (f *filter) release(shared *Shared) {
	if f != nil {
		shared.Left += int64(len(f.blocks)) * blockBytes
	}
}
