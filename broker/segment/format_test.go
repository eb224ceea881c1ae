package segment

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"

	"queen/internal/hostile"
)

// The stored example of docs/formats.md section 4: header and frame, byte by byte. The checksums were computed by another
// CRC32C (Castagnoli, bit by bit) in the test below.
func TestFrameBytes(t *testing.T) {
	got := appendSegmentHeader(nil, 7, 3)
	want := append([]byte("QUEENSEG"), 0, 1, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0)
	want = binary.BigEndian.AppendUint32(want, slowCRC(want))
	if !bytes.Equal(got, want) {
		t.Errorf("segment header\ngot  %x\nwant %x", got, want)
	}
	body := bytes.Repeat([]byte("0123456789abcdef"), blockLen/16+1)
	got = appendFrame(nil, 7, Frame{Partition: 5, TS: 0x0102030405, Base: 9, Count: 2, Weight: 300, Flags: 3, Body: body})
	rest, _ := hex.DecodeString("51465231" + "0000000000000007" + "0000000000000005" + "0000000102030405" + "0000000000000009" +
		"00000002" + "0000012c" + "00000003" + "00040010" + "0000000000000000")
	rest = binary.BigEndian.AppendUint32(rest, slowCRC(body[:blockLen]))
	rest = binary.BigEndian.AppendUint32(rest, slowCRC(body[blockLen:]))
	want = append(binary.BigEndian.AppendUint32(nil, slowCRC(rest)), rest...)
	want = append(want, body...)
	if !bytes.Equal(got, want) {
		t.Errorf("frame\ngot  %x\nwant %x", got[:80], want[:80])
	}
	if int64(len(got)) != frameLen(len(body)) {
		t.Errorf("%d bytes, frameLen says %d", len(got), frameLen(len(body)))
	}
}

func slowCRC(b []byte) uint32 {
	crc := ^uint32(0)
	for _, x := range b {
		crc ^= uint32(x)
		for range 8 {
			crc = crc>>1 ^ 0x82F63B78&-(crc&1)
		}
	}
	return ^crc
}

func TestIndexBytes(t *testing.T) {
	h := head{partition: 8, ts: 100, base: 1, count: 2, weight: 30, flags: 1}
	entries := appendEntry(nil, h, 32, 100)
	h.partition, h.ts = 4, 101
	entries = appendEntry(entries, h, 132, 90)
	got := hex.EncodeToString(encodeIndex(7, 3, entries, sortedPositions(entries)))
	body := "0000000000000064" + "0000000000000008" + "0000000000000001" + "00000002" + "0000001e" + "00000001" + "00000020" + "00000064" + "00000000" +
		"0000000000000065" + "0000000000000004" + "0000000000000001" + "00000002" + "0000001e" + "00000001" + "00000084" + "0000005a" + "00000000" +
		"00000001" + "00000000"
	raw, _ := hex.DecodeString(body)
	want := "515545454e494458" + "0001" + "0000" + "00000003" + "0000000000000007" + "00000002" +
		hex.EncodeToString(binary.BigEndian.AppendUint32(nil, slowCRC(raw))) + body
	if got != want {
		t.Errorf("index\ngot  %s\nwant %s", got, want)
	}
}

func TestFrameEveryCutAndFlip(t *testing.T) {
	frame := appendFrame(nil, 7, newMaker(1, 3).frame(40))
	if _, _, err := decodeFrame(frame); err != nil {
		t.Fatal(err)
	}
	for n := range len(frame) {
		if _, _, err := decodeFrame(frame[:n]); err == nil {
			t.Errorf("cut at %d of %d decodes", n, len(frame))
		}
	}
	for bit := range 8 * len(frame) {
		b := slices.Clone(frame)
		b[bit/8] ^= 1 << (bit % 8)
		if _, _, err := decodeFrame(b); err == nil {
			t.Errorf("bit %d flipped decodes", bit)
		}
	}
}

// FuzzFrame: arbitrary bytes never panic; with their checksums put right (else hardly any would pass) those that decode encode
// back to the same bytes, and do not decode with one bit changed. Decoding allocates next to nothing.
func FuzzFrame(f *testing.F) {
	f.Add([]byte(nil), uint32(0))
	f.Add(appendFrame(nil, 7, newMaker(1, 3).frame(40)), uint32(1000))
	f.Add(appendFrame(nil, 1<<60, Frame{Partition: 1 << 50, TS: -5, Base: 1 << 40, Count: 1 << 20, Weight: 1, Body: make([]byte, blockLen+1)}), uint32(8*blockLen))
	f.Fuzz(func(t *testing.T, b []byte, bit uint32) {
		decodeFrame(b) // must not panic; its checksums are as they are
		b = slices.Clone(b)
		if len(b) >= frameHeaderLen {
			if n, err := headLen(b); err == nil && n <= len(b) {
				for i, rest := 0, b[n:]; len(rest) > 0 && frameHeaderLen+4*i < n; i++ {
					k := min(len(rest), blockLen)
					binary.BigEndian.PutUint32(b[frameHeaderLen+4*i:], checksum(rest[:k]))
					rest = rest[k:]
				}
				binary.BigEndian.PutUint32(b, checksum(b[4:n]))
			}
		}
		var h head
		var body []byte
		var err error
		hostile.Bounded(t, len(b), 0, func() { h, body, err = decodeFrame(b) })
		if err != nil {
			return
		}
		if _, _, err := decodeFrame(hostile.Flip(b, bit)); err == nil {
			t.Errorf("bit %d changed, and it decodes\n%x", bit, b)
		}
		again := appendFrame(nil, h.queue, Frame{Partition: h.partition, TS: h.ts, Base: h.base, Count: h.count,
			Weight: h.weight, Flags: h.flags, Body: body})
		if !bytes.Equal(again, b) {
			t.Errorf("decodes, and encodes to other bytes\n%x\n%x", b, again)
		}
	})
}

// FuzzIndex: arbitrary bytes with the checksum put right never panic, and what is accepted encodes back to the same bytes, and is not
// accepted with one bit changed. What is kept of an index is less than the index.
func FuzzIndex(f *testing.F) {
	entries := appendEntry(nil, head{partition: 8, ts: 100, base: 1, count: 2}, 32, 100)
	entries = appendEntry(entries, head{partition: 4, ts: 101, base: 0, count: 1}, 132, 90)
	f.Add(encodeIndex(7, 3, entries, sortedPositions(entries)), uint32(100))
	f.Fuzz(func(t *testing.T, b []byte, bit uint32) {
		b = slices.Clone(b)
		if len(b) > indexHeaderLen {
			binary.BigEndian.PutUint32(b[indexHeaderLen-4:], checksum(b[indexHeaderLen:]))
		}
		var x *sealed
		var err error
		hostile.Bounded(t, len(b), 1, func() { x, err = decodeIndex(b, 7, 3) })
		if err != nil {
			return
		}
		if _, err := decodeIndex(hostile.Flip(b, bit), 7, 3); err == nil {
			t.Errorf("bit %d changed, and it is accepted\n%x", bit, b)
		}
		entries := b[indexHeaderLen:][:x.n*entryLen]
		if again := encodeIndex(7, 3, entries, sortedPositions(entries)); !bytes.Equal(again, b) {
			t.Errorf("accepted, and encodes to other bytes\n%x\n%x", b, again)
		}
	})
}

func TestSortedPositions(t *testing.T) {
	m := newMaker(3, 700)
	var entries []byte
	for i := range 5000 {
		f := m.frame(0)
		p := f.Partition
		if i%3 == 0 {
			p |= 1 << 40 // ids that differ in a high byte
		}
		entries = appendEntry(entries, head{partition: p, base: f.Base, count: f.Count}, uint32(i), 1)
	}
	checkSorted(t, entries)
	for i := range 50 { // bases that do not rise: the comparing sort
		entries = appendEntry(entries, head{partition: 1, base: int64(50 - i), count: 1}, uint32(5000+i), 1)
	}
	checkSorted(t, entries)
	checkSorted(t, nil)
}

func checkSorted(t *testing.T, entries []byte) {
	t.Helper()
	got := sortedPositions(entries)
	want := make([]uint32, len(entries)/entryLen)
	for i := range want {
		want[i] = uint32(i)
	}
	slices.SortStableFunc(want, func(a, b uint32) int { return compareEntries(entryAt(entries, int(a)), entryAt(entries, int(b))) })
	if !slices.Equal(got, want) {
		t.Errorf("positions differ from a stable comparing sort")
	}
}

func TestParseName(t *testing.T) {
	for name, want := range map[string]uint32{"00000001.seg": 1, "0000abcd.idx": 0xabcd, "ffffffff.seg.tmp": 1<<32 - 1,
		"00000000.seg": 0, "0000ABCD.seg": 0, "1.seg": 0, "00000001": 0, "+0000001.seg": 0, "": 0} {
		if seg, _, ok := parseName(name); seg != want && ok || ok != (want != 0) {
			t.Errorf("%q: %d %v", name, seg, ok)
		}
	}
	if _, ext, _ := parseName("ffffffff.seg.tmp"); ext != segmentExt+tempExt {
		t.Error(ext)
	}
}
