package dedup_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"queen/broker/dedup"
	"queen/stages"
)

// TestWindow: a record as old as the window is outside, one a microsecond younger is inside, also over the edge of a bucket.
func TestWindow(t *testing.T) {
	for _, m := range modes() {
		for _, stamp := range []stages.Micros{1, hour - 1, hour, 5*hour + 17} {
			for _, window := range []stages.Micros{second, hour - 1, hour, 3 * hour, 1000 * hour} {
				s := newStore(t, m, newTx(), 1)
				s.insert("first", 6, stamp, window)
				s.insert("a", 7, stamp, window)
				s.want("a", stamp, window, 7)
				s.want("a", stamp+window-1, window, 7)
				s.want("a", stamp+window, window, -1)
				s.want("b", stamp, window, -1)
			}
		}
	}
}

// TestNewestCounts: when an id was stored again after its window, the younger record decides and answers, wherever both are.
func TestNewestCounts(t *testing.T) {
	for i, first := range modes() {
		for _, then := range modes()[:i+1] { // what was in RAM first is not followed by a row of an earlier build
			if first == inRAM {
				then = inRows
			}
			s := newStore(t, first, newTx(), 1)
			s.insert("a", 1, 10*second, 2*hour)
			s.mode = then
			s.insert("a", 2, 20*second, 2*hour)
			s.want("a", 21*second, hour, 2)
			s.insert("a", 3, hour+20*second, 2*hour)
			s.want("a", hour+21*second, hour, 3)
			s.want("a", hour+21*second, second, -1)
			s.want("a", hour+21*second, 2*hour, 3)
			s.insert("a", 4, hour+30*second, 2*hour)
			s.want("a", hour+31*second, hour, 4)
		}
	}
}

// TestNewestLevelCounts: an id that is in two levels of a bucket is answered from the one that was filled later.
func TestNewestLevelCounts(t *testing.T) {
	s := newStore(t, inRows, newTx(), 1)
	s.insert("a", 1, 10, hour)
	s.mode = inRAM
	for i := range 500 {
		s.insert(fmt.Sprint(i), 9, 20, hour)
	}
	s.insert("a", 2, 30, hour)
	s.store()
	s.want("a", 40, hour, 2)
	s.want("a", 40, 15, 2)
	s.want("a", 40, 10, -1)
}

func TestPlaces(t *testing.T) {
	for _, m := range modes() {
		s := newStore(t, m, newTx(), 1)
		s.insert("a", 1, hour, hour)
		s.p = 3
		s.want("a", hour, hour, -1)
		other := newStore(t, m, s.tx, 2)
		other.insert("b", 2, hour, hour)
		other.want("a", hour, hour, -1)
	}
}

// TestDrop: a bucket goes when the queue moves on to a new one and the bucket ended a horizon ago, not before; other queues
// keep theirs; rows of an earlier build go like the others.
func TestDrop(t *testing.T) {
	for _, m := range modes() {
		horizon := 2 * hour
		s := newStore(t, m, newTx(), 1)
		other := newStore(t, m, s.tx, 2)
		s.insert("a", 1, hour-1, horizon)
		s.insert("b", 2, hour, horizon)
		other.insert("a", 3, hour-1, horizon)
		s.mode = inRows
		s.insert("c", 4, 3*hour-1, horizon) // bucket 0 ended at 1 h, less than 2 h ago
		if len(s.tx.rows) != 4 {
			t.Fatalf("%s: %d rows", m, len(s.tx.rows))
		}
		s.insert("d", 5, 3*hour, horizon) // now it is
		if len(s.tx.rows) != 4 {
			t.Fatalf("%s: %d rows", m, len(s.tx.rows))
		}
		s.want("a", 3*hour, 100*hour, -1)
		s.want("b", 3*hour, 100*hour, 2)
		other.want("a", 3*hour, 100*hour, 3)
		s.insert("e", 6, 100*hour, horizon)
		if len(s.tx.rows) != 2 {
			t.Errorf("%s: %d rows", m, len(s.tx.rows))
		}
	}
}

// TestDropOfRecent: an id in RAM goes with its bucket, before and after it would have become a row, and an id in RAM whose bucket
// stays becomes a row of that bucket.
func TestDropOfRecent(t *testing.T) {
	s := newStore(t, inRAM, newTx(), 1)
	s.insert("first", 0, 1, hour)
	h := dedup.HashOf([]byte("a"))
	for _, tc := range []struct{ then, horizon stages.Micros }{{90 * hour, hour}, {91 * hour, 2 * hour}} {
		at := tc.then - hour
		if tc.then == 90*hour {
			at = 2
		}
		if err := s.index.Insert(s.tx, s.p, h, dedup.Record{Offset: 1, Stamp: at, ID: [16]byte{1}}, hour); err != nil {
			t.Fatal(err)
		}
		if err := s.index.Insert(s.tx, s.p, dedup.HashOf([]byte("b")), dedup.Record{Offset: 2, Stamp: tc.then}, tc.horizon); err != nil {
			t.Fatal(err)
		}
		want := int64(-1)
		if at > 2 {
			want = 1
		}
		s.want("a", tc.then, 100*hour, want)
		s.store()
		s.want("a", tc.then, 100*hour, want)
		if ids, begun := s.index.Pending(); ids != 0 || begun || s.shared.Recent() != 0 {
			t.Errorf("%d ids pending, begun %v, %d in all", ids, begun, s.shared.Recent())
		}
	}
}

// TestLoad: an index read off the rows finds what the one that made them finds, with all, some and none of the filters.
func TestLoad(t *testing.T) {
	for _, m := range []mode{inRows, single} {
		s := newStore(t, m, newTx(), 2)
		for i, at := range []stages.Micros{1, 2, hour, 7 * hour, 8*hour - 1} {
			s.insert(string(rune('a'+i)), int64(i), at, 100*hour)
			s.mode = inRows
		}
		newStore(t, m, s.tx, 1).insert("x", 1, 3*hour, hour)
		newStore(t, m, s.tx, 3).insert("x", 1, 9*hour, hour)
		for _, memory := range []int64{0, 64, 256, 300, 1 << 20} {
			for _, budget := range []int{0, 1, 2, 3, 100} {
				for _, since := range []stages.Micros{-5, hour, 100 * hour} {
					loaded := *s
					loaded.tx, loaded.mode = &memTx{rows: maps.Clone(s.tx.rows)}, inRAM
					loaded.index = loaded.load(2, since, memory, budget)
					for i := range 5 {
						loaded.want(string(rune('a'+i)), 8*hour, 100*hour, int64(i))
					}
					loaded.want("x", 8*hour, 100*hour, -1)
					loaded.insert("f", 9, 8*hour-1, 100*hour)
					loaded.want("f", 8*hour, hour, 9)
					loaded.insert("g", 10, 9*hour, 2*hour)
					loaded.want("f", 9*hour, 2*hour, 9)
					loaded.want("a", 9*hour, 100*hour, -1)
				}
			}
		}
		if x := s.load(4, 0, 0, 0); x == nil {
			t.Error("a queue without ids has no index")
		}
	}
}

// TestRecall: ids that were in RAM alone are found again after a boot; those of another bucket than the newest are damage.
func TestRecall(t *testing.T) {
	s := newStore(t, inRAM, newTx(), 1)
	s.insert("first", 0, 5*hour, hour)
	s.index = s.load(1, 0, 1<<20, 100)
	r := dedup.Record{Offset: 3, Stamp: 5*hour + 1, ID: [16]byte{3}}
	if err := s.index.Recall(s.p, dedup.HashOf([]byte("a")), r); err != nil {
		t.Fatal(err)
	}
	s.want("a", 5*hour+2, hour, 3)
	for _, at := range []stages.Micros{4 * hour, 6 * hour} {
		r.Stamp = at
		if err := s.index.Recall(s.p, dedup.HashOf([]byte("a")), r); !errors.Is(err, stages.ErrDamaged) {
			t.Errorf("a frame at %d: %v", at, err)
		}
	}
	if err := dedup.NewIndex(1, s.shared).Recall(s.p, dedup.HashOf([]byte("a")), r); !errors.Is(err, stages.ErrDamaged) {
		t.Errorf("without a bucket: %v", err)
	}
}

// TestManyIDs: however many ids a bucket has, all are found and no others, a row stays small, few look-ups are in vain, the memory
// is kept to and comes back, and an index read off the rows does as well and goes on in the same rows.
func TestManyIDs(t *testing.T) {
	const n = 30_000
	s := newStore(t, inRAM, newTx(), 1)
	s.shared.Left = 8 << 20
	insert := func(from, end int) {
		for i := from; i < end; i++ {
			if err := s.index.Insert(s.tx, stages.PartitionID(i%7), numbered(i), dedup.Record{Offset: int64(i), Stamp: 1}, hour); err != nil {
				t.Fatal(err)
			}
			if i%997 == 0 || i == end-1 {
				s.store()
			}
		}
	}
	check := func() {
		t.Helper()
		s.tx.gets = 0
		for i := range n {
			if r, found, err := s.index.Find(s.tx, stages.PartitionID(i%7), numbered(i), 1, hour); !found || err != nil || r.Offset != int64(i) {
				t.Fatalf("id %d: %v %v %v", i, r, found, err)
			}
			if _, found, _ := s.index.Find(s.tx, stages.PartitionID(i%7+1), numbered(i), 1, hour); found {
				t.Fatalf("id %d was found in another partition", i)
			}
		}
		if vain := s.tx.gets - n; vain > n/100 {
			t.Errorf("%d of %d look-ups in vain", vain, n)
		}
		if used := int64(8<<20) - s.shared.Left; used > 12*n {
			t.Errorf("%d bytes for %d ids", used, n)
		}
	}
	insert(0, n)
	check()
	longest := 0
	for _, row := range s.tx.rows {
		longest = max(longest, len(row))
	}
	if longest > 57*1400 || s.tx.count('I') > 400 {
		t.Errorf("%d rows, the longest has %d bytes", s.tx.count('I'), longest)
	}
	rows, old := s.tx.count('I'), s.index
	s.index = s.load(1, 0, 8<<20, 2*n)
	check()
	if s.index.Stored() != n || old.Stored() != n {
		t.Errorf("%d stored, %d before", s.index.Stored(), old.Stored())
	}
	insert(n, n+2000)
	if got := s.tx.count('I'); got != rows {
		t.Errorf("%d rows after a boot, %d before", got, rows)
	}
	if err := s.index.Insert(s.tx, 1, numbered(0), dedup.Record{Stamp: 100 * hour}, hour); err != nil {
		t.Fatal(err)
	}
	s.store()
	if used := int64(8<<20) - s.shared.Left; used > 1024 {
		t.Errorf("%d bytes did not come back", used)
	}
}

// TestRowBytes pins docs/formats.md section 5, spelled out by hand.
func TestRowBytes(t *testing.T) {
	s := newStore(t, inRows, newTx(), 0x0102030405060708)
	s.shared.Seed = [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	s.insert("o-1", 5, hour+1, hour)
	sum := sha256.Sum256([]byte("o-1"))
	record := "01" + "0000000000000002" + hex.EncodeToString(sum[:16]) + "0000000000000005" + "00000000d693a401" + "05" + strings.Repeat("00", 15)
	if got := hex.EncodeToString([]byte(s.tx.rows["I\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x01\x00\x00\x00\x00\x00"])); got != record {
		t.Errorf("%s, want %s", got, record)
	}
	for i := range 5000 {
		s.mode = inRAM
		s.insert(fmt.Sprint(i), int64(i), hour+2, hour)
	}
	s.store()
	// 5,001 ids are in level 4, whose rows share 4 bits.
	at := "I\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x01\x04\x00\x00\x00"
	for group := range 16 {
		row := s.tx.rows[at+string(byte(group))]
		if len(row) < 57*200 {
			t.Errorf("row %d has %d bytes", group, len(row))
		}
		for ; len(row) > 0; row = row[57:] {
			if got := placeByHand(s.shared.Seed, row); got != group {
				t.Fatalf("row %d holds an id of row %d", group, got)
			}
		}
	}
}

// placeByHand computes the first four bits of a record's place as docs/formats.md says.
func placeByHand(seed [16]byte, row string) int {
	u64 := func(s string) uint64 { return binary.BigEndian.Uint64([]byte(s)) }
	a := u64(row[9:17]) ^ u64(string(seed[:8])) ^ 0x2d358dccaa6c78a5
	b := u64(row[17:25]) ^ u64(string(seed[8:])) ^ u64(row[1:9])*0x9e3779b97f4a7c15 ^ 0x8bb84b93962eacc9
	// 128-bit product in 32-bit digits
	a0, a1, b0, b1 := a&0xffffffff, a>>32, b&0xffffffff, b>>32
	mid := a1*b0 + a0*b0>>32
	mid2 := mid&0xffffffff + a0*b1
	high := a1*b1 + mid>>32 + mid2>>32
	return int((high ^ a*b) >> 60)
}

func TestDamagedRow(t *testing.T) {
	for _, m := range []mode{inRows, single} {
		size := map[mode]int{inRows: 57, single: 33}[m]
		for _, row := range []string{"", "\x02" + strings.Repeat("\x00", size-1), "\x01", strings.Repeat("\x01", size+1)} {
			s := newStore(t, m, newTx(), 2)
			s.insert("a", 1, 1, hour)
			for k := range s.tx.rows {
				s.tx.rows[k] = row
			}
			if _, _, err := s.index.Find(s.tx, 2, dedup.HashOf([]byte("a")), 2, hour); err == nil {
				t.Errorf("%s: row %q was accepted", m, row)
			}
			budget := 100
			if _, err := dedup.Load(2, s.shared, s.tx.scan, 0, &budget, 1); err == nil && m == inRows {
				t.Errorf("row %q was accepted at boot", row)
			}
		}
	}
}

func TestSpans(t *testing.T) {
	if got := dedup.Seconds(-1); got != 0 {
		t.Errorf("%d", got)
	}
	if got := dedup.Seconds(1 << 62); got <= 0 || got+hour <= got {
		t.Errorf("%d overflows", got)
	}
	for _, tc := range []struct{ window, completed, want int64 }{{0, 0, 900}, {3600, 0, 3600}, {10, 7200, 7200}} {
		if got := dedup.Horizon(tc.window, tc.completed); got != stages.Micros(tc.want)*second {
			t.Errorf("%+v: %d", tc, got)
		}
	}
	sum := sha256.Sum256([]byte("o-1"))
	if h := dedup.HashOf([]byte("o-1")); !bytes.Equal(h[:], sum[:16]) {
		t.Errorf("hash %x", h)
	}
}
