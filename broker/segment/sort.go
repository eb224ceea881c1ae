package segment

import (
	"cmp"
	"encoding/binary"
	"slices"

	"queen/stages"
)

// sortedBlock is how many entries of the open segment share one sorted list. It bounds the linear part of a look-up in RAM.
const sortedBlock = 4096

// sortBlocks adds a list of positions sorted by (partition, base) for each block of entries that became full.
func sortBlocks(sorted [][]uint32, entries []byte) [][]uint32 {
	n := len(entries) / entryLen
	for first := len(sorted) * sortedBlock; n-first >= sortedBlock; first += sortedBlock {
		block := sortedPositions(entries[first*entryLen : (first+sortedBlock)*entryLen])
		for i := range block {
			block[i] += uint32(first)
		}
		sorted = append(sorted, block)
	}
	return sorted
}

// sortedPositions returns the positions of entries sorted by (partition, base). In a queue's log the bases of a partition rise,
// so a stable sort by partition does it: a radix sort over the bytes in which partition ids differ. That is 5 to 20 ns an entry
// where a comparing sort takes 100. Should bases not rise, a comparing sort follows.
func sortedPositions(entries []byte) []uint32 {
	n := len(entries) / entryLen
	positions := make([]uint32, n)
	var same, any uint64 = ^uint64(0), 0
	for i := range positions {
		positions[i] = uint32(i)
		p := uint64(entryPartition(entryAt(entries, i)))
		same, any = same&p, any|p
	}
	other := make([]uint32, n)
	for b := range 8 {
		if byte((any&^same)>>(8*b)) == 0 {
			continue // this byte is the same in all ids
		}
		var next [257]uint32
		for i := range n {
			next[int(entries[i*entryLen+15-b])+1]++
		}
		for i := 1; i < len(next); i++ {
			next[i] += next[i-1]
		}
		for _, p := range positions {
			k := entries[int(p)*entryLen+15-b]
			other[next[k]] = p
			next[k]++
		}
		positions, other = other, positions
	}
	byKey := func(a, b uint32) int { return compareEntries(entryAt(entries, int(a)), entryAt(entries, int(b))) }
	if !slices.IsSortedFunc(positions, byKey) {
		slices.SortStableFunc(positions, byKey)
	}
	return positions
}

func compareEntries(a, b []byte) int {
	return compareKey(entryPartition(a), entryBase(a), entryPartition(b), entryBase(b))
}

func compareKey(p stages.PartitionID, base int64, q stages.PartitionID, offset int64) int {
	return cmp.Or(cmp.Compare(p, q), cmp.Compare(base, offset))
}

// lastAtOrBelow returns how many of the n sorted items have a key at or below the one looked for; key(i) may fail.
func lastAtOrBelow(n int, p stages.PartitionID, offset int64, key func(i int) (stages.PartitionID, int64, error)) (int, error) {
	low, high := 0, n
	for low < high {
		mid := int(uint(low+high) >> 1)
		kp, kb, err := key(mid)
		if err != nil {
			return 0, err
		}
		if compareKey(kp, kb, p, offset) <= 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, nil
}

// holds says whether the append of this entry has the record with this offset.
func holds(e []byte, p stages.PartitionID, offset int64) bool {
	base := entryBase(e)
	return entryPartition(e) == p && base <= offset && offset-base < int64(entryCount(e))
}

func appendPositions(dst []byte, positions []uint32) []byte {
	for _, p := range positions {
		dst = binary.BigEndian.AppendUint32(dst, p)
	}
	return dst
}
