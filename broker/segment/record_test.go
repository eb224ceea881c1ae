package segment

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"queen/stages"
)

var id1 = [16]byte{0x01, 0x92, 0xab, 0xcd, 0xef, 0x01, 0x70, 0x02, 0x80, 0x03, 0, 0, 0, 0, 0, 0x2a}

// The stored example of docs/formats.md section 3.
func TestRecordBlockBytes(t *testing.T) {
	var block []byte
	block = AppendMessage(block, Message{ID: id1, TxID: []byte("tx"), Payload: []byte("42.00")})
	block = AppendMessage(block, Message{ID: id1, Trace: bytes.Repeat([]byte{0xee}, 16), Producer: []byte("p")})
	want := "00" + hex.EncodeToString(id1[:]) + "02" + "7478" + "05" + "34322e3030" +
		"03" + hex.EncodeToString(id1[:]) + "00" + strings.Repeat("ee", 16) + "01" + "70" + "00"
	if got := hex.EncodeToString(block); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTxText(t *testing.T) {
	if got := string(TxText(Message{ID: id1, TxID: []byte("x")}, nil)); got != "x" {
		t.Errorf("sent id: %s", got)
	}
	for _, scratch := range [][]byte{nil, make([]byte, 36), make([]byte, 0, 99)} {
		if got := string(TxText(Message{ID: id1}, scratch)); got != "0192abcd-ef01-7002-8003-00000000002a" {
			t.Errorf("message id: %s", got)
		}
	}
}

func TestRecordBlockRefusals(t *testing.T) {
	good := AppendMessage(nil, Message{ID: id1, TxID: []byte("tx"), Payload: []byte("p")})
	id := string(id1[:])
	for name, block := range map[string]string{
		"cut id":             string(good[:16]),
		"cut transaction id": string(good[:18]),
		"cut payload":        string(good[:len(good)-1]),
		"no payload length":  string(good[:20]),
		"unknown flag":       "\x04" + string(good[1:]),
		"cut trace":          "\x01" + id + "\x00" + "short",
		"empty producer":     "\x02" + id + "\x00" + "\x00" + "\x00",
		"long uvarint":       "\x00" + id + "\x80\x00" + "\x00",
		"endless uvarint":    "\x00" + id + strings.Repeat("\xff", 11),
		"huge length":        "\x00" + id + "\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + "x",
		"rest":               string(good) + "\x00",
	} {
		var last error
		for _, err := range Messages([]byte(block)) {
			last = err
		}
		if !errors.Is(last, stages.ErrDamaged) {
			t.Errorf("%s: %v", name, last)
		}
	}
}

// FuzzMessages: arbitrary bytes never panic, what decodes encodes back to the same bytes, and both the walk and the count say the same.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(AppendMessage(nil, Message{ID: id1, Payload: []byte(`{"a":1}`)}))
	f.Add(AppendMessage(nil, Message{ID: id1, TxID: bytes.Repeat([]byte("x"), 200), Trace: id1[:], Producer: []byte("p")}))
	f.Add([]byte("\x02" + string(id1[:]) + "\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, block []byte) {
		var again []byte
		var last error
		n := 0
		for m, err := range Messages(block) {
			if last = err; err == nil {
				again = AppendMessage(again, m)
				n++
			}
		}
		if last == nil && !bytes.Equal(again, block) {
			t.Errorf("%x decodes, and encodes to %x", block, again)
		}
		if last != nil && !bytes.HasPrefix(block, again) {
			t.Errorf("%x: the records before the damage encode to %x", block, again)
		}
		if count, err := countMessages(block); count != n || (err == nil) != (last == nil) {
			t.Errorf("%x: counted %d, %v; decoded %d, %v", block, count, err, n, last)
		}
	})
}

// FuzzMessageRoundTrip: decode(encode(x)) == x.
func FuzzMessageRoundTrip(f *testing.F) {
	f.Add([]byte("id"), []byte("tx"), true, []byte("producer"), []byte("payload"))
	f.Add([]byte(nil), []byte(nil), false, []byte(nil), []byte(nil))
	f.Fuzz(func(t *testing.T, id, tx []byte, trace bool, producer, payload []byte) {
		m := Message{TxID: tx, Producer: producer, Payload: payload}
		copy(m.ID[:], id)
		if trace {
			m.Trace = bytes.Repeat([]byte{1}, 16)
		}
		n := 0
		for got, err := range Messages(AppendMessage(nil, m)) {
			n++
			if err != nil || got.ID != m.ID || !bytes.Equal(got.TxID, m.TxID) || !bytes.Equal(got.Trace, m.Trace) ||
				!bytes.Equal(got.Producer, m.Producer) || !bytes.Equal(got.Payload, m.Payload) {
				t.Errorf("%+v came back as %+v, %v", m, got, err)
			}
		}
		if n != 1 {
			t.Errorf("%d records", n)
		}
	})
}
