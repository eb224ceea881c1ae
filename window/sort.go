package window

import (
	"cmp"
	"fmt"
	"slices"

	"queen/stages"
)

// Sort puts the appends of a listing in the order of the object: partition name as bytes, then stamp, then offset. Two
// incarnations of one name are one partition here and interleave by stamp.
//
// It works in place: the result is l.Appends itself, which the listing must not be used for afterwards, and beside it 4 bytes an append
// are held while it runs. A listing is in stamp order, which within a partition is offset order, so that ranking the names and one stable
// counting sort by rank is all of the work. A listing in another order comes out right too, only slower.
//
// A partition without a name in the listing is a broken invariant, and a panic.
func Sort(l stages.Listing) []stages.Header {
	ranks, names := rank(l)
	place := countingSort(ranks, names)
	permute(l.Appends, place)
	if byStamp := inOrder(l); !byStamp {
		slices.SortFunc(l.Appends, func(a, b stages.Header) int { return compare(l.Names, a, b) })
	}
	return l.Appends
}

// compare orders two appends as in the object. Equal names of two incarnations at one stamp cannot be, but the order is total.
func compare(names map[stages.PartitionID]string, a, b stages.Header) int {
	return cmp.Or(
		cmp.Compare(names[a.Partition], names[b.Partition]),
		cmp.Compare(a.TS, b.TS),
		cmp.Compare(a.Base, b.Base),
		cmp.Compare(a.Partition, b.Partition),
	)
}

// inOrder says whether appends, sorted by name, are in stamp and offset order within each name.
func inOrder(l stages.Listing) bool {
	for i := 1; i < len(l.Appends); i++ {
		a, b := &l.Appends[i-1], &l.Appends[i]
		if a.TS < b.TS || a.Partition == b.Partition && a.TS == b.TS && a.Base <= b.Base {
			continue
		}
		if compare(l.Names, *a, *b) > 0 {
			return false
		}
	}
	return true
}

// rank gives each append the rank of its partition's name among the names that occur, and says how many these are.
func rank(l stages.Listing) (ranks []uint32, names int) {
	ids := make([]uint32, len(l.Appends)) // place of the partition in the list of those that occur
	seen := newLookup(l.Appends)
	var parts []stages.PartitionID
	for i := range l.Appends {
		p := l.Appends[i].Partition
		at, ok := seen.get(p)
		if !ok {
			at = uint32(len(parts))
			parts = append(parts, p)
			seen.set(p, at)
		}
		ids[i] = at
	}
	order := make([]uint32, len(parts))
	text := make([]string, len(parts))
	for i, p := range parts {
		name, ok := l.Names[p]
		if !ok {
			panic(fmt.Sprintf("window %d: partition %d has no name in the listing", l.K, p))
		}
		order[i], text[i] = uint32(i), name
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(text[a], text[b]) })
	of := make([]uint32, len(parts))
	for i, at := range order {
		if i == 0 || text[order[i-1]] != text[at] {
			names++
		}
		of[at] = uint32(names - 1)
	}
	for i, at := range ids {
		ids[i] = of[at]
	}
	return ids, names
}

// countingSort turns ranks, in place, into the places of a stable sort by rank.
func countingSort(ranks []uint32, names int) []uint32 {
	next := make([]uint32, names+1)
	for _, r := range ranks {
		next[r+1]++
	}
	for r := 1; r <= names; r++ {
		next[r] += next[r-1]
	}
	for i, r := range ranks {
		ranks[i] = next[r]
		next[r]++
	}
	return ranks
}

// permute moves each append to its place, following the cycles; place is used up.
func permute(appends []stages.Header, place []uint32) {
	for i := range appends {
		for place[i] != uint32(i) {
			to := place[i]
			appends[i], appends[to] = appends[to], appends[i]
			place[i], place[to] = place[to], to
		}
	}
}

// lookup maps partition ids to small numbers: a table where the ids lie close together, as those of one queue mostly do, else a map.
type lookup struct {
	low   stages.PartitionID
	table []uint32 // number + 1, 0 = none
	far   map[stages.PartitionID]uint32
}

// newLookup makes an empty lookup for the partitions of appends.
func newLookup(appends []stages.Header) *lookup {
	if len(appends) == 0 {
		return &lookup{}
	}
	low, high := appends[0].Partition, appends[0].Partition
	for i := range appends {
		low, high = min(low, appends[i].Partition), max(high, appends[i].Partition)
	}
	if span := uint64(high - low); span < uint64(len(appends))+1024 {
		return &lookup{low: low, table: make([]uint32, span+1)}
	}
	return &lookup{far: make(map[stages.PartitionID]uint32)}
}

func (l *lookup) get(p stages.PartitionID) (uint32, bool) {
	if l.table != nil {
		at := l.table[p-l.low]
		return at - 1, at != 0
	}
	at, ok := l.far[p]
	return at, ok
}

func (l *lookup) set(p stages.PartitionID, at uint32) {
	if l.table != nil {
		l.table[p-l.low] = at + 1
		return
	}
	l.far[p] = at
}
