package raftnode

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/hashicorp/raft"

	"queen/internal/hostile"
)

// FuzzDecodeMeta: a file that is read is, written again, the same bytes; it allocates a few times its size; one changed bit is refused.
// With the checksum put right too, since the fuzzer would not guess it.
func FuzzDecodeMeta(f *testing.F) {
	f.Add(encodeMeta(metaState(3), map[string][]byte{"a": []byte("b")}), uint32(0))
	f.Add(encodeMeta(metaState(0), nil), uint32(99))
	f.Add([]byte(metaMagic), uint32(0))
	f.Fuzz(func(t *testing.T, text []byte, bit uint32) {
		text = bytes.Clone(text)
		for range 2 {
			s, stable, err := decodeMeta(text)
			if err == nil {
				hostile.Bounded(t, len(text), 16, func() { s, stable, err = decodeMeta(text) })
				if !bytes.Equal(encodeMeta(s, stable), text) {
					t.Fatal("a file that is no encoding of what it is read as")
				}
				if _, _, err := decodeMeta(hostile.Flip(text, bit)); err == nil {
					t.Fatalf("bit %d changed, and the file is read", bit)
				}
			}
			if len(text) < metaHeader {
				return
			}
			copy(text, metaMagic)
			binary.BigEndian.PutUint32(text[metaHeader-4:], metaSum(text))
		}
	})
}

// FuzzMark: a record of the acknowledged index that is read is what is written for that index, and is refused with one bit changed.
func FuzzMark(f *testing.F) {
	f.Add(encodeMark(1<<40), uint64(7), uint32(5))
	f.Add(make([]byte, markLen), ^uint64(0), uint32(159))
	f.Fuzz(func(t *testing.T, record []byte, index uint64, bit uint32) {
		if got, err := decodeMark(encodeMark(index)); err != nil || got != index {
			t.Fatalf("%d is read as %d, %v", index, got, err)
		}
		if got, err := decodeMark(hostile.Flip(encodeMark(index), bit)); err == nil {
			t.Fatalf("%d with bit %d changed is read as %d", index, bit, got)
		}
		if len(record) != markLen {
			return
		}
		// With magic and checksum right, only version and reserved bytes are left to be wrong.
		record = bytes.Clone(record)
		copy(record, markMagic)
		binary.BigEndian.PutUint32(record[markLen-4:], crc32.Checksum(record[:markLen-4], crc32.MakeTable(crc32.Castagnoli)))
		if got, err := decodeMark(record); err == nil && !bytes.Equal(encodeMark(got), record) {
			t.Fatalf("%x is read as %d", record, got)
		}
	})
}

// FuzzEntry: an entry that carries its checksum comes back as it went in, and not in another's place, nor with any bit of it changed.
func FuzzEntry(f *testing.F) {
	f.Add(uint64(5), uint64(2), byte(0), []byte("data"), []byte(nil), uint32(3))
	f.Add(uint64(0), ^uint64(0), byte(3), []byte(nil), []byte("extensions"), uint32(77))
	f.Fuzz(func(t *testing.T, index, term uint64, kind byte, data, extensions []byte, bit uint32) {
		in := &raft.Log{Index: index, Term: term, Type: raft.LogType(kind), Data: data, Extensions: extensions}
		back := *summed(in)
		if err := unsum(index, &back); err != nil || !bytes.Equal(back.Data, data) || !bytes.Equal(back.Extensions, extensions) {
			t.Fatalf("%+v came back as %+v, %v", in, back, err)
		}
		moved := *summed(in)
		if unsum(index+1, &moved) == nil {
			t.Fatal("an entry is read in another's place")
		}
		for _, change := range []func(e *raft.Log){
			func(e *raft.Log) { e.Index ^= 1 << (bit % 64) }, func(e *raft.Log) { e.Term ^= 1 << (bit % 64) }, func(e *raft.Log) { e.Type ^= 1 << (bit % 8) },
			func(e *raft.Log) { e.Data = hostile.Flip(e.Data, bit) }, func(e *raft.Log) { e.Extensions = hostile.Flip(e.Extensions, bit) },
		} {
			bad := *summed(in)
			change(&bad)
			same := bad.Index == index && bad.Term == term && bad.Type == in.Type && bytes.Equal(bad.Data, data) && bytes.Equal(bad.Extensions, summed(in).Extensions)
			if err := unsum(index, &bad); err == nil && !same {
				t.Fatalf("one bit of %+v changed, and it is read as %+v", in, bad)
			}
		}
	})
}
