package dedup

import (
	"testing"

	"queen/stages"
)

// TestCapacity: with an eighth of a machine of 16 GiB, 360 million ids an hour, hour after hour, all have filters of 8 bits an id and more; with
// a quarter of that they have some still, and what ends gives its memory back. Filters that nobody writes to take no memory of the machine.
func TestCapacity(t *testing.T) {
	const hourly, batch = 360_000_000, 16 << 10
	for memory, least := range map[int64]float64{2 << 30: 8, 512 << 20: 1.5} {
		shared := &Shared{Left: memory}
		x := NewIndex(1, shared)
		for hour := range uint32(4) {
			x.buckets = append(x.buckets, bucket{number: hour})
			if n := len(x.buckets); n > 2 {
				x.buckets[0].release(shared)
				x.buckets = x.buckets[1:]
			}
			b := &x.buckets[len(x.buckets)-1]
			for b.stored < hourly {
				l := x.levelFor(b, batch)
				if l.filter == nil {
					t.Fatalf("%d MiB: in hour %d, from id %d on there is no filter", memory>>20, hour, b.stored)
				}
				last := l.filter[len(l.filter)-1]
				last.room -= min(last.room, batch)
				b.stored += batch
			}
			if bits := float64(b.bytes()) * 8 / hourly; bits < least {
				t.Errorf("%d MiB: %.1f bits an id in hour %d, want %.1f", memory>>20, bits, hour, least)
			}
			for i := range b.levels {
				if parts := len(b.levels[i].filter); parts > 4 {
					t.Errorf("%d filters of level %d", parts, b.levels[i].number)
				}
			}
		}
		for i := range x.buckets {
			x.buckets[i].release(shared)
		}
		if shared.Left != memory {
			t.Errorf("%d MiB: %d bytes did not come back", memory>>20, memory-shared.Left)
		}
	}
}

// bytes is what the filters of a bucket take.
func (b *bucket) bytes() (n int64) {
	for i := range b.levels {
		for _, f := range b.levels[i].filter {
			n += int64(len(f.blocks)) * blockBytes
		}
	}
	return n
}

// TestOutside: a filter outside of Go's heap is zero at first and holds what it is given.
func TestOutside(t *testing.T) {
	const ids = 1 << 20
	shared := &Shared{}
	f := &bloom{set: 8}
	if !f.allocate(outside / blockBytes) {
		t.Fatal("no memory")
	}
	at := func(i int) place { return shared.placeOf(stages.PartitionID(i), Hash{}) }
	for i := 0; i < ids; i += 2 {
		f.add(at(i))
	}
	vain := 0
	for i := range ids {
		switch found := f.has(at(i)); {
		case i%2 == 0 && !found:
			t.Fatalf("id %d is lost", i)
		case i%2 == 1 && found:
			vain++
		}
	}
	if vain > ids/10_000 {
		t.Errorf("%d of %d look-ups in vain, in a filter that is nearly empty", vain, ids/2)
	}
}
