package raftnode

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

func TestChecksumRoundTrip(t *testing.T) {
	for _, ext := range [][]byte{nil, []byte("extensions of raft's own")} {
		e := &raft.Log{Index: 7, Term: 3, Type: raft.LogCommand, Data: []byte("data"), Extensions: ext, AppendedAt: time.Unix(1, 2)}
		before := *e
		s := summed(e)
		if !reflect.DeepEqual(*e, before) || bytes.Equal(s.Extensions, ext) {
			t.Fatal("the entry that raft uses was changed")
		}
		if err := unsum(7, s); err != nil || !reflect.DeepEqual(*s, before) {
			t.Errorf("read as %+v, %v, want %+v", s, err, before)
		}
	}
}

// Every bit of an entry as raft-wal stores it, in the places that no checksum of raft-wal's is read for: it is found, or raft
// acts on none of what changed.
func TestEveryBitOfAnEntry(t *testing.T) {
	s := newMemStore()
	l := &logs{store: s, limit: -1}
	e := &raft.Log{Index: 300, Term: 2, Type: raft.LogCommand, Data: []byte("forty-two"), AppendedAt: time.Unix(1_700_000_000, 5)}
	var stored bytes.Buffer
	codec := &wal.BinaryCodec{}
	if err := codec.Encode(summed(e), &stored); err != nil {
		t.Fatal(err)
	}
	decode := &decoding{memStore: s, codec: codec}
	l.store = decode
	passed := 0
	for bit := range 8 * stored.Len() {
		decode.text = bytes.Clone(stored.Bytes())
		decode.text[bit/8] ^= 1 << (bit % 8)
		var got raft.Log
		err := l.GetLog(300, &got)
		if err != nil {
			if !strings.Contains(err.Error(), "raft log entry 300: ") {
				t.Fatalf("bit %d: %v", bit, err)
			}
			continue
		}
		passed++
		got.AppendedAt = e.AppendedAt
		if !reflect.DeepEqual(&got, e) {
			t.Fatalf("bit %d: served as %+v", bit, got)
		}
	}
	if passed > 8*15 { // the time of 15 bytes
		t.Errorf("%d bits pass", passed)
	}
}

// decoding reads every entry from one text, as raft-wal does.
type decoding struct {
	*memStore
	codec *wal.BinaryCodec
	text  []byte
}

func (d *decoding) GetLog(_ uint64, into *raft.Log) error { return d.codec.Decode(d.text, into) }

func TestEntryWithoutChecksum(t *testing.T) {
	s := raft.NewInmemStore()
	if err := s.StoreLog(&raft.Log{Index: 1, Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	l := &logs{store: s, limit: -1}
	var e raft.Log
	if err := l.GetLog(1, &e); err == nil || !strings.Contains(err.Error(), "raft log entry 1: it carries no checksum") {
		t.Error(err)
	}
	if err := l.GetLog(2, &e); err != raft.ErrLogNotFound {
		t.Errorf("an absent entry: %v, raft compares with ErrLogNotFound", err)
	}
}
