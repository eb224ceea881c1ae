package dedup

import (
	"math/bits"
	"runtime"
	"sync/atomic"
)

// filter says of an id that it is surely not in a level of a bucket, or that it may be: a look-up on disk costs more than all the
// rest of storing a record. It holds every id of its level, or is nil: then each new id is looked for on disk.
//
// It is one Bloom filter, or several one behind the other in a large level, of which nobody knows whether it will be filled; the last one takes
// ids. When there is no memory for one more, the last one takes them still, and more look-ups are in vain.
type filter []*bloom

// partIDs is for how many ids of a large level a Bloom filter is made at once: a quarter of the largest levels that are met would be
// half a gigabyte, and to look into twenty small ones for each id would take time.
func partIDs(number uint8) uint64 {
	return min(max(levelIDs(max(number, 1)-1), 1<<24), 1<<26)
}

// grow makes room for more ids of a level, of which ahead may still come. When more come than that, the last filter takes them.
func (f *filter) grow(shared *Shared, number uint8, more, ahead uint64) {
	if n := len(*f); n > 0 && ((*f)[n-1].room >= more || ahead == 0) {
		return
	}
	if b := newBloom(shared, min(ahead, partIDs(number))); b != nil {
		*f = append(*f, b)
	}
}

// add notes an id, for which grow has made room.
func (f filter) add(at place) {
	b := f[len(f)-1]
	b.add(at)
	b.room = max(b.room, 1) - 1
}

// has reports whether the id may have been added.
func (f filter) has(at place) bool {
	for _, b := range f {
		if b.has(at) {
			return true
		}
	}
	return false
}

// release gives the memory back.
func (f filter) release(shared *Shared) {
	for _, b := range f {
		b.release(shared)
	}
}

// bloom is a Bloom filter of blocks of one cache line: an id sets some bits of one block. With 16 bits of memory an id, one look-up in 700
// is in vain once it is full; with 8 bits one in 40, with 4 one in 6, with 2 two in 5. It gets the most for which there is memory, and every
// step down is still better than nothing.
type bloom struct {
	blocks []block
	set    int    // bits that an id sets
	room   uint64 // ids that it may still take
}

type block [8]uint64 // 512 bits

const blockBytes = 64

// densities is how much memory an id may take, in bits, and how many of them it sets then: about 0.7 of it would be best; less is read faster.
var densities = []struct {
	bits uint64
	set  int
}{{16, 8}, {8, 5}, {4, 3}, {2, 1}}

// newBloom returns an empty filter for so many ids, nil when there is no memory for it. It takes no more than an eighth of what is left, so that
// those that follow get some too; the least that is worth having may take all.
func newBloom(shared *Shared, ids uint64) *bloom {
	for i, d := range densities {
		n := max(ids*d.bits/8/blockBytes, 1)
		most := shared.Left / 8
		if i == len(densities)-1 {
			most = shared.Left
		}
		if int64(n)*blockBytes > most {
			continue
		}
		b := &bloom{set: d.set, room: ids}
		if !b.allocate(n) {
			return nil
		}
		shared.Left -= int64(n) * blockBytes
		return b
	}
	return nil
}

// add notes an id.
func (b *bloom) add(at place) {
	to, bit := b.block(at)
	for range b.set {
		to[bit>>6&7] |= 1 << (bit & 63)
		bit = bit>>9 | bit<<55
	}
	runtime.KeepAlive(b)
}

// addBeside notes an id, beside others who do. Nobody may ask has meanwhile.
func (b *bloom) addBeside(at place) {
	to, bit := b.block(at)
	for range b.set {
		atomic.OrUint64(&to[bit>>6&7], 1<<(bit&63))
		bit = bit>>9 | bit<<55
	}
	runtime.KeepAlive(b)
}

// has reports whether the id may have been added.
func (b *bloom) has(at place) bool {
	of, bit := b.block(at)
	for range b.set {
		if of[bit>>6&7]&(1<<(bit&63)) == 0 {
			return false
		}
		bit = bit>>9 | bit<<55
	}
	runtime.KeepAlive(b)
	return true
}

// block returns the block of an id and what picks its bits: nine bits of low for each, the last ones with bits of high, of which
// the block's number takes others.
func (b *bloom) block(at place) (to *block, bit uint64) {
	i, _ := bits.Mul64(at.high, uint64(len(b.blocks)))
	return &b.blocks[i], at.low
}

// release gives the memory back.
func (b *bloom) release(shared *Shared) {
	if b != nil {
		shared.Left += int64(len(b.blocks)) * blockBytes
	}
}
