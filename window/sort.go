package window

import (
	"cmp"
	"slices"

	"queen/stages"
)

// Sort puts a listing in the order of the object: partition name as bytes, then stamp, then offset. Two incarnations of one name are one
// partition here and interleave by stamp. Parts is sorted too, by name and then by id, and the appends point to the new places: so Part never
// falls but between incarnations of one name, and within a name (Seg, Off) rises.
//
// It works in place: the result is l.Appends itself, l.Parts is changed in place too, and beside them 4 bytes an append (stages.AppendBytes)
// and 36 bytes a partition (stages.PartBytes) are held while it runs. Within a partition, stamp order is the order of places, which is that of
// a listing; so ranking the names and one stable counting sort by rank is all of the work. A listing in another order comes out right too, only
// slower.
func Sort(l stages.Listing) []stages.Append {
	now, ranks := rank(l)
	next, inOrder := count(l.Appends, now, ranks)
	place := places(l.Appends, ranks, next)
	permute(l.Appends, place)
	if !inOrder {
		slices.SortFunc(l.Appends, func(a, b stages.Append) int {
			return cmp.Or(cmp.Compare(ranks[a.Part], ranks[b.Part]), comparePlaces(a, b))
		})
	}
	return l.Appends
}

func comparePlaces(a, b stages.Append) int {
	return cmp.Or(cmp.Compare(a.Seg, b.Seg), cmp.Compare(a.Off, b.Off))
}

// named is a partition while the names are sorted: eight bytes of its name behind what all names begin with, and where it was. The key is no
// integer because those would take 16 bytes together.
type named struct {
	key [8]byte
	at  uint32
}

// rank sorts the partitions by name and id, and returns where each is now, and the rank of the name of each that is there. Names of many
// partitions mostly differ in a few bytes behind a common prefix, so most of the work is to sort keys.
func rank(l stages.Listing) (now, ranks []uint32) {
	order := sortNames(l.Parts)
	now, ranks = make([]uint32, len(order)), make([]uint32, len(order))
	for i, o := range order {
		now[o.at] = uint32(i)
	}
	gather(l.Parts, order)
	for i := 1; i < len(ranks); i++ {
		ranks[i] = ranks[i-1]
		if l.Parts[i].Name != l.Parts[i-1].Name {
			ranks[i]++
		}
	}
	return now, ranks
}

// gather moves the partitions to their places, following the cycles; order is used up.
func gather(parts []stages.Part, order []named) {
	for i := range order {
		first, at := parts[i], i
		for from := int(order[at].at); from != i; from = int(order[at].at) {
			parts[at], order[at].at = parts[from], uint32(at)
			at = from
		}
		parts[at], order[at].at = first, uint32(at)
	}
}

// sortNames says where the partitions were that come first, second and so on by name and id.
func sortNames(parts []stages.Part) []named {
	common := commonPrefix(parts)
	order := make([]named, len(parts))
	for i := range parts {
		copy(order[i].key[:], parts[i].Name[common:])
		order[i].at = uint32(i)
	}
	order = sortKeys(order)
	for first, i := 0, 1; i <= len(order); i++ {
		if i < len(order) && order[i].key == order[first].key {
			continue
		}
		slices.SortFunc(order[first:i], func(a, b named) int {
			p, q := &parts[a.at], &parts[b.at]
			return cmp.Or(cmp.Compare(p.Name, q.Name), cmp.Compare(p.ID, q.ID))
		})
		first = i
	}
	return order
}

// sortKeys sorts by key, byte by byte from the last one on, and leaves out the bytes that are the same in all.
func sortKeys(order []named) []named {
	var differs [8]byte
	for i := range order {
		for b := range differs {
			differs[b] |= order[i].key[b] ^ order[0].key[b]
		}
	}
	other := make([]named, len(order))
	for b := 7; b >= 0; b-- {
		if differs[b] == 0 {
			continue
		}
		var next [256]uint32
		for i := range order {
			next[order[i].key[b]]++
		}
		at := uint32(0)
		for i, n := range next {
			next[i] = at
			at += n
		}
		for _, o := range order {
			other[next[o.key[b]]] = o
			next[o.key[b]]++
		}
		order, other = other, order
	}
	return order
}

// commonPrefix is how many bytes all names begin with.
func commonPrefix(parts []stages.Part) int {
	if len(parts) == 0 {
		return 0
	}
	common := parts[0].Name
	for _, p := range parts {
		n := 0
		for n < len(common) && n < len(p.Name) && common[n] == p.Name[n] {
			n++
		}
		common = common[:n]
	}
	return len(common)
}

// count points the appends to where their partitions are now, and returns the place of the first append of each name. inOrder says that
// they are in the order of their places, so that a stable sort by name is all that is needed.
func count(appends []stages.Append, now, ranks []uint32) (next []uint32, inOrder bool) {
	names := 0
	if n := len(ranks); n > 0 {
		names = int(ranks[n-1]) + 1
	}
	next = make([]uint32, names+1)
	inOrder = true
	var last uint64
	for i := range appends {
		a := &appends[i]
		a.Part = now[a.Part]
		next[ranks[a.Part]+1]++
		at := uint64(a.Seg)<<32 | uint64(a.Off)
		inOrder = inOrder && at >= last
		last = at
	}
	for r := 1; r <= names; r++ {
		next[r] += next[r-1]
	}
	return next, inOrder
}

// places returns the places of a stable sort by rank; next is used up.
func places(appends []stages.Append, ranks, next []uint32) []uint32 {
	place := make([]uint32, len(appends))
	for i := range appends {
		r := ranks[appends[i].Part]
		place[i] = next[r]
		next[r]++
	}
	return place
}

// permute moves each append to its place, following the cycles; place is used up.
func permute(appends []stages.Append, place []uint32) {
	for i := range appends {
		for place[i] != uint32(i) {
			to := place[i]
			appends[i], appends[to] = appends[to], appends[i]
			place[i], place[to] = place[to], to
		}
	}
}
