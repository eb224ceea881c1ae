package dedup

import (
	"encoding/binary"
	"math/bits"

	"queen/stages"
)

// Memory is what the filters of all queues may still take, in bytes. A bucket whose filter would not fit has none.
type Memory struct{ Left int64 }

// filter says of an id that it is surely not in a bucket, or that it may be: a look-up on disk costs ten times as much as the
// rest of storing a record. It holds every id of its bucket, or does not exist.
//
// It is a list of layers, each four times the one before, so that it fits a quiet queue as well as a busy one. A layer is a
// Bloom filter of blocks of one cache line: an id sets 6 bits of one block, at 10 bits of memory an id.
type filter struct {
	layers []layer
	room   int // ids that the last layer still takes
}

type layer []block

type block [8]uint64 // 512 bits

const (
	blockBytes  = 64
	bitsPerID   = 10
	firstLayer  = 4 // blocks
	layerGrowth = 4
)

// add notes an id. ok is false when there is no memory for it: the filter is then of no more use.
func (f *filter) add(memory *Memory, p stages.PartitionID, h Hash) (ok bool) {
	if f.room == 0 && !f.grow(memory) {
		return false
	}
	f.room--
	a, b := spread(p, h)
	blk := f.layers[len(f.layers)-1].block(a)
	for range 6 {
		blk[b>>6&7] |= 1 << (b & 63)
		b >>= 9
	}
	return true
}

// has reports whether the id may have been added.
func (f *filter) has(p stages.PartitionID, h Hash) bool {
	a, b := spread(p, h)
	for i := len(f.layers) - 1; i >= 0; i-- {
		if f.layers[i].block(a).has(b) {
			return true
		}
	}
	return false
}

// grow begins a layer.
func (f *filter) grow(memory *Memory) bool {
	size := firstLayer
	if n := len(f.layers); n > 0 {
		size = len(f.layers[n-1]) * layerGrowth
	}
	if memory.Left < int64(size)*blockBytes {
		return false
	}
	memory.Left -= int64(size) * blockBytes
	f.layers = append(f.layers, make(layer, size))
	f.room = size * blockBytes * 8 / bitsPerID
	return true
}

// release gives the memory back.
func (f *filter) release(memory *Memory) {
	if f == nil {
		return
	}
	for _, l := range f.layers {
		memory.Left += int64(len(l)) * blockBytes
	}
}

func (l layer) block(a uint64) *block {
	i, _ := bits.Mul64(a, uint64(len(l)))
	return &l[i]
}

func (b *block) has(bit uint64) bool {
	for range 6 {
		if b[bit>>6&7]&(1<<(bit&63)) == 0 {
			return false
		}
		bit >>= 9
	}
	return true
}

// spread turns an id of a partition into what picks a block and what picks bits in it. The hash is good as it is; the
// partition is mixed in so that the same id in all partitions does not fill one block.
func spread(p stages.PartitionID, h Hash) (blockOf, bitsOf uint64) {
	mixed := uint64(p) * 0x9e3779b97f4a7c15
	return binary.BigEndian.Uint64(h[:8]) ^ mixed, binary.BigEndian.Uint64(h[8:]) ^ bits.ReverseBytes64(mixed)
}
