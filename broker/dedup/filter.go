package dedup

import "math/bits"

// filter says of an id that it is surely not in a level of a bucket, or that it may be: a look-up on disk costs more than all the
// rest of storing a record. It holds every id of its level, or does not exist.
//
// It is a Bloom filter of blocks of one cache line: an id sets 8 bits of one block. With 16 bits of memory an id, one look-up in
// 700 is in vain once the level is full. A level that would not fit gets half or a quarter of that, which is still better than
// nothing.
type filter []block

type block [8]uint64 // 512 bits

const (
	blockBytes = 64
	bitsPerID  = 16
	bitsSet    = 8
)

// newFilter returns an empty filter for so many ids, nil when there is no memory for it.
func newFilter(shared *Shared, ids uint64) *filter {
	for bits := uint64(bitsPerID); bits >= bitsPerID/4; bits /= 2 {
		n := max(ids*bits/8/blockBytes, 1)
		if int64(n)*blockBytes <= shared.Left {
			shared.Left -= int64(n) * blockBytes
			f := make(filter, n)
			return &f
		}
	}
	return nil
}

// add notes an id.
func (f *filter) add(at place) {
	b, bit := f.block(at)
	for range bitsSet {
		b[bit>>6&7] |= 1 << (bit & 63)
		bit = bit>>9 | bit<<55
	}
}

// has reports whether the id may have been added.
func (f *filter) has(at place) bool {
	b, bit := f.block(at)
	for range bitsSet {
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
	i, _ := bits.Mul64(at.high, uint64(len(*f)))
	return &(*f)[i], at.low
}

// release gives the memory back.
func (f *filter) release(shared *Shared) {
	if f != nil {
		shared.Left += int64(len(*f)) * blockBytes
	}
}
