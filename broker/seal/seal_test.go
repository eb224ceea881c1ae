package seal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"

	"queen/internal/hostile"
	"queen/internal/rounds"
	"queen/stages"
)

const text = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

func key(t testing.TB, text string) *Key {
	t.Helper()
	k, err := ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func iv(first byte) (out [IVBytes]byte) {
	for i := range out {
		out[i] = first + byte(i)
	}
	return out
}

// The example of docs/formats.md section 10, made again.
func TestExample(t *testing.T) {
	k := key(t, text)
	doc, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	got := k.Seal(nil, []byte(`{"total":42.00}`), iv(0xa0), new(Work))
	if example := "envelope     " + string(got) + "\n"; !strings.Contains(string(doc), example) {
		t.Errorf("the document does not hold %s", example)
	}
	if line := "fingerprint  " + k.Fingerprint().String() + "\n"; !strings.Contains(string(doc), line) {
		t.Errorf("the document does not hold %s", line)
	}
}

// Payloads of every kind and length come back byte for byte; neither another key nor a changed byte of the envelope opens anything.
func TestRoundTrip(t *testing.T) {
	k, other := key(t, text), key(t, "ff"+text[2:])
	var seal, open, wrong Work
	for _, plain := range []string{"", "1", "12", `{ "total" : 42.00 }`, "{\r\n\"a\":\t1}", `"\ud800"`, "\"é🛒\u2028\x7f\"", `1e400`, `{"a":1,"a":2}`,
		`{"encrypted":"AA==","iv":"AA==","authTag":"AA=="}`, `"` + strings.Repeat("x", 1<<20) + `"`, strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)} {
		stored := k.Seal([]byte("before "), []byte(plain), iv(7), &seal)[len("before "):]
		if !json.Valid(stored) || len(stored) != SealedLen(len(plain)) {
			t.Fatalf("%.40q: %d bytes of %.80s, want %d", plain, len(stored), stored, SealedLen(len(plain)))
		}
		if n, ok := PlainLen(stored); !ok || n != len(plain) {
			t.Errorf("%.40q: its length is %d, %v", plain, n, ok)
		}
		if got, ok := k.Open(stored, &open); !ok || string(got) != plain {
			t.Errorf("%.40q came back as %.40q, %v", plain, got, ok)
		}
		for _, not := range []*Key{other, nil} {
			if got, ok := not.Open(stored, &wrong); ok || got != nil {
				t.Errorf("%.40q: key %v opened it: %.40q", plain, not, got)
			}
		}
		for bit := 0; bit < 8*len(stored); bit += 1 + len(stored)/rounds.Of(50, 5) {
			if got, ok := k.Open(hostile.Flip(stored, uint32(bit)), &wrong); ok && !ivTail(stored, bit/8) {
				t.Fatalf("%.40q: opened with bit %d changed: %.40q", plain, bit, got)
			}
		}
		for _, n := range []int{0, 1, len(stored) - 1} {
			if _, ok := k.Open(stored[:n], &wrong); ok {
				t.Errorf("%.40q: %d bytes of the envelope opened", plain, n)
			}
		}
	}
}

// ivTail says that a place of an envelope holds one of the four bytes that are stored with the nonce and used for nothing.
func ivTail(stored []byte, at int) bool {
	first := bytes.Index(stored, []byte(partIV)) + len(partIV)
	return at >= first+16 && at < first+shortText
}

// Two envelopes of one payload differ, since their ivs do.
func TestIV(t *testing.T) {
	k := key(t, text)
	a, b := k.Seal(nil, []byte("1"), iv(1), new(Work)), k.Seal(nil, []byte("1"), iv(2), new(Work))
	if bytes.Equal(a, b) {
		t.Errorf("twice %s", a)
	}
}

// A key that is not 64 hex digits is refused, and no text of a key or of its refusal shows it.
func TestKeyIsNeverShown(t *testing.T) {
	for _, bad := range []string{"", text[2:], text + "00", "zz" + text[2:], strings.Repeat(" ", 64)} {
		if k, err := ParseKey(bad); err == nil || k != nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v, %v", bad, k, err)
		}
	}
	k := key(t, strings.ToUpper(text))
	if k.Fingerprint() != key(t, text).Fingerprint() || k.Fingerprint() == key(t, "ff"+text[2:]).Fingerprint() {
		t.Error("fingerprints do not tell keys apart")
	}
	js, err := json.Marshal(map[string]any{"key": k})
	if err != nil {
		t.Fatal(err)
	}
	want := k.Fingerprint().String()
	for _, shown := range []string{fmt.Sprint(k), fmt.Sprintf("%v %+v %s %x", k, k, k, k), fmt.Sprintf("%#v", k), string(js)} {
		if !strings.Contains(shown, want) || strings.Contains(strings.ToLower(shown), text[:8]) {
			t.Errorf("shown as %s", shown)
		}
	}
	var none *Key
	if none.Fingerprint() != 0 || none.String() != "" {
		t.Errorf("no key is %v", none)
	}
}

// stored is a body in memory.
type stored struct {
	flags   uint32
	records []stages.Record
	err     error
}

func (b stored) Header() stages.Header {
	return stages.Header{Flags: b.flags, Count: int32(len(b.records))}
}

func (b stored) Records() iter.Seq2[stages.Record, error] {
	return func(yield func(stages.Record, error) bool) {
		for _, r := range b.records {
			if !yield(r, nil) {
				return
			}
		}
		if b.err != nil {
			yield(stages.Record{}, b.err)
		}
	}
}

// A reader sees what producers sent; what cannot be opened as it is stored, and marked. What was never sealed is not looked at, whatever it says.
func TestOpening(t *testing.T) {
	k := key(t, text)
	sealed := k.Seal(nil, []byte(`{"a":1}`), iv(1), new(Work))
	other := key(t, "ff"+text[2:]).Seal(nil, []byte(`2`), iv(1), new(Work))
	records := []stages.Record{{Offset: 0, TxID: []byte("t"), Payload: sealed}, {Offset: 1, Payload: other}, {Offset: 2, Payload: []byte("junk")}, {Offset: 3, Payload: sealed}}
	broken := fmt.Errorf("broken")
	var got []string
	into := Opening(k, func(i int, b stages.Body) error {
		for r, err := range b.Records() {
			got = append(got, fmt.Sprintf("%d %d %s %s %v %v", i, r.Offset, r.TxID, r.Payload, r.Sealed, err))
		}
		return nil
	})
	for i, b := range []stored{{stages.FlagSealed, records, nil}, {0, records[:1], nil}, {stages.FlagSealed, records[:1], broken}} {
		if err := into(i, b); err != nil {
			t.Fatal(err)
		}
	}
	want := fmt.Sprintf("0 0 t {\"a\":1} false <nil>|0 1  %s true <nil>|0 2  junk true <nil>|0 3  {\"a\":1} false <nil>|1 0 t %s false <nil>|"+
		"2 0 t {\"a\":1} false <nil>|2 0   false broken", other, sealed)
	if strings.Join(got, "|") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "|"), want)
	}
	first := Opening(k, func(_ int, b stages.Body) error { // who stops reading is asked no more
		for range b.Records() {
			break
		}
		return nil
	})
	if err := first(0, stored{stages.FlagSealed, records, nil}); err != nil {
		t.Fatal(err)
	}
}

// FuzzOpen: nothing opens that the key did not seal, and what it sealed does; neither takes more memory than a few times its input.
func FuzzOpen(f *testing.F) {
	k := key(f, text)
	f.Add([]byte(`{"a":1}`), uint32(3))
	f.Add(k.Seal(nil, []byte("1"), iv(1), new(Work)), uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, bit uint32) {
		if _, ok := k.Open(b, new(Work)); ok {
			return // a mutator may put an envelope together from pieces it was given
		}
		sealed := k.Seal(nil, b, iv(byte(bit)), new(Work))
		if got, ok := k.Open(sealed, new(Work)); !ok || !bytes.Equal(got, b) {
			t.Errorf("%q came back as %q, %v", b, got, ok)
		}
		hostile.Bounded(t, len(b), 8, func() { k.Open(b, new(Work)) })
	})
}
