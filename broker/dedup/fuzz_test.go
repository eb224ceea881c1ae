package dedup

import (
	"bytes"
	"encoding/binary"
	"testing"

	"queen/internal/hostile"
	"queen/stages"
)

// FuzzRow: a row of many ids that is read is, record by record, what is written for what was read of it, and of several records of one id the
// last counts; a row of one id is read when it has its one length and version. Reading allocates nothing but errors.
func FuzzRow(f *testing.F) {
	e := entry{id: id{partition: 3, hash: HashOf([]byte("tx"))}, record: Record{Offset: 7, Stamp: 9, ID: [16]byte{1}}}
	one := appendRecord(nil, &e)
	e.record.Offset = 8
	two := appendRecord(bytes.Clone(one), &e)
	f.Add(one)
	f.Add(two)
	f.Add(two[:len(two)-1])
	f.Add(append(bytes.Clone(one), append([]byte{2}, one[1:]...)...))
	f.Add(append([]byte{rowVersion}, make([]byte, singleValueSize-1)...))
	f.Fuzz(func(t *testing.T, row []byte) {
		var bad error
		hostile.Bounded(t, len(row), 0, func() { bad = checkGroup(row) })
		if (bad == nil) != whole(row) {
			t.Fatalf("%x: %v", row, bad)
		}
		for i := 0; bad == nil && i < len(row); i += recordSize {
			p, h := recordAt(row[i:])
			r, found, err := newestIn(row[:i+recordSize], p, h)
			again := appendRecord(nil, &entry{id: id{partition: p, hash: h}, record: r})
			if err != nil || !found || !bytes.Equal(again, row[i:i+recordSize]) {
				t.Fatalf("record %d of %x is read as %+v %v, %v, and written as %x", i/recordSize, row, r, found, err, again)
			}
			if _, found, _ := newestIn(row[i:i+recordSize], p+1, h); found {
				t.Fatalf("record %d of %x is found in another partition", i/recordSize, row)
			}
		}
		single, err := decodeSingle(row)
		if (err == nil) != (len(row) == singleValueSize && row[0] == rowVersion) {
			t.Fatalf("%x: %v", row, err)
		}
		if err == nil && (uint64(single.Offset) != binary.BigEndian.Uint64(row[1:]) || single.Stamp != stages.Micros(binary.BigEndian.Uint64(row[9:])) || !bytes.Equal(single.ID[:], row[17:])) {
			t.Fatalf("%x is read as %+v", row, single)
		}
	})
}

// whole says what docs/formats.md says of a row of many ids: records of one size, each with the version.
func whole(row []byte) bool {
	for i := range row {
		if i%recordSize == 0 && row[i] != rowVersion {
			return false
		}
	}
	return len(row) > 0 && len(row)%recordSize == 0
}
