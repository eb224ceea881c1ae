package dedup

import "queen/stages"

// id is a transaction id of a partition; at follows from the other two.
type id struct {
	at        place
	partition stages.PartitionID
	hash      Hash
}

// entry is an id with its message.
type entry struct {
	id
	record Record
}

// recent is the ids of a queue that are in RAM alone: the entries in the order in which they came, and an open hash table of
// places in that list. A slot holds bits of the id too, so that hardly any entry is looked at that is not the one.
type recent struct {
	entries []entry
	slots   []slot // a power of two, at least twice the entries
}

// slot is 32 bits of an id's place, and 1 + the place of its entry in the list; 0 = free.
type slot uint64

func slotOf(at place, n int) slot { return slot(at.high<<32) | slot(n) }

func (s slot) entry() int { return int(uint32(s)) - 1 }

const firstSlots = 16

// find returns the newest record of an id.
func (t *recent) find(wanted id) (Record, bool) {
	if len(t.entries) == 0 {
		return Record{}, false
	}
	if s := t.slots[t.place(&wanted)]; s != 0 {
		return t.entries[s.entry()].record, true
	}
	return Record{}, false
}

// place returns the number of the slot that holds an id, or of the free one where it belongs.
func (t *recent) place(wanted *id) uint64 {
	mask, bits := uint64(len(t.slots)-1), slotOf(wanted.at, 0)
	for i := wanted.at.low & mask; ; i = (i + 1) & mask {
		s := t.slots[i]
		if s == 0 || s>>32 == bits>>32 && t.entries[s.entry()].id == *wanted {
			return i
		}
	}
}

// add appends an entry, which hides an older one of the same id.
func (t *recent) add(e entry) {
	t.entries = append(t.entries, e)
	if 2*len(t.entries) <= len(t.slots) {
		t.slots[t.place(&e.id)] = slotOf(e.at, len(t.entries))
		return
	}
	t.slots = make([]slot, max(firstSlots, 2*len(t.slots)))
	for i := range t.entries {
		t.slots[t.place(&t.entries[i].id)] = slotOf(t.entries[i].at, i+1)
	}
}

// clear removes all entries. What it takes is kept for as many again when keep is set.
func (t *recent) clear(keep bool) {
	if !keep {
		*t = recent{}
		return
	}
	t.entries = t.entries[:0]
	clear(t.slots)
}
