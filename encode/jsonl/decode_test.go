package jsonl

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"queen/encode/codec"
	"queen/encode/rows"
	"queen/internal/jsontext"
	"queen/stages"
)

func plain(t testing.TB) Format {
	t.Helper()
	c, err := codec.Find("none")
	if err != nil {
		t.Fatal(err)
	}
	return New(c)
}

const goodLine = `{"partition":"p","offset":0,"transactionId":"t","ts":"2026-10-03T06:37:37.501942Z","payload":{"a":1}}`

func decode(f Format, text string) (out []rows.Row, err error) {
	for row, err := range f.Decode(strings.NewReader(text)) {
		if err != nil {
			return out, err
		}
		row.Payload = bytes.Clone(row.Payload)
		out = append(out, row)
	}
	return out, nil
}

func TestDecodeIsStrict(t *testing.T) {
	f := plain(t)
	if got, err := decode(f, goodLine+"\n"+goodLine+"\n"); err != nil || len(got) != 2 || string(got[1].Payload) != `{"a":1}` {
		t.Fatalf("%+v %v", got, err)
	}
	if got, err := decode(f, ""); err != nil || len(got) != 0 {
		t.Errorf("nothing: %v %v", got, err)
	}
	swap := func(old, new string) string { return strings.Replace(goodLine, old, new, 1) + "\n" }
	for name, bad := range map[string]string{
		"no end of line": goodLine, "empty line": "\n", "carriage return": goodLine + "\r\n", "space": swap(`":"p"`, `": "p"`),
		"order": swap(`"offset":0,"transactionId":"t"`, `"transactionId":"t","offset":0`), "float": swap(":0,", ":0.0,"), "zeros": swap(":0,", ":00,"),
		"plus": swap(":0,", ":+0,"), "minus zero": swap(":0,", ":-0,"), "too large": swap(":0,", ":9223372036854775808,"), "missing": swap(`"offset":0,`, ""),
		"more": swap(`}}`, `},"x":1}`), "escaped slash": swap(`"p"`, `"\/"`), "upper-case hex": swap(`"p"`, `"\u001F"`), "long form": swap(`"p"`, `"\u000a"`),
		"needless escape": swap(`"p"`, `"\u0041"`), "raw control": swap(`"p"`, "\"\x01\""), "not UTF-8": swap(`"p"`, "\"\xff\""), "no closing quote": swap(`"p",`, `"p`),
		"stamp short": swap(".501942Z", ".50194Z"), "stamp zone": swap("Z", "+"), "30 February": swap("2026-10-03", "2026-02-30"), "hour 24": swap("T06", "T24"),
		"payload": swap(`{"a":1}`, `{"a":1`), "no payload": swap(`{"a":1}`, ""), "raw in string": swap(`{"a":1}`, "\"\x01\""), "cr in payload": swap(`{"a":1}`, "{\"a\":\r1}"),
		"two payloads": swap(`{"a":1}`, `1 2`), "cut": goodLine[:50] + "\n",
	} {
		if got, err := decode(f, goodLine+"\n"+bad); err == nil {
			t.Errorf("%s: accepted %+v", name, got)
		} else if len(got) != 1 || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%s: %d rows, %v", name, len(got), err)
		}
	}
}

// A line is longer than any buffer on its way, and bounded.
func TestLongLines(t *testing.T) {
	f := plain(t)
	long := strings.Replace(goodLine, `{"a":1}`, `"`+strings.Repeat("x", 3<<20)+`"`, 1) + "\n"
	got, err := decode(f, goodLine+"\n"+long+goodLine+"\n")
	if err != nil || len(got) != 3 || len(got[1].Payload) != 3<<20+2 {
		t.Fatalf("%d rows, %v", len(got), err)
	}
	if _, err := decode(f, `{"partition":"`+strings.Repeat("x", MaxLine+1<<20)); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("an endless line: %v", err)
	}
}

// one is a window of one record.
type one struct {
	h stages.Header
	r stages.Record
}

func (o one) Header() stages.Header { return o.h }

func (o one) Records() iter.Seq2[stages.Record, error] {
	return func(yield func(stages.Record, error) bool) { yield(o.r, nil) }
}

// What Decode accepts, the writer writes back to the byte: there is one spelling of each record.
func FuzzDecode(f *testing.F) {
	f.Add(goodLine)
	f.Add(strings.Replace(goodLine, `"p"`, `"\"\\\b\f\n\r\t\u0000\u001f/é"`, 1))
	f.Add(strings.Replace(goodLine, `{"a":1}`, `null`, 1))
	f.Add(strings.Replace(goodLine, "2026", "0000", 1))
	f.Fuzz(func(t *testing.T, line string) {
		got, err := decode(plain(t), line+"\n")
		if err != nil || len(got) != 1 {
			return
		}
		r := got[0]
		h := stages.Header{TS: r.TS, Base: r.Offset, Count: 1}
		text, err := newLines(exactly).Append(nil, r.Partition, &h, one{h, stages.Record{Offset: r.Offset, TxID: []byte(r.TxID), Payload: r.Payload}})
		if err != nil || string(text) != line+"\n" {
			t.Errorf("%q became %q, %v", line, text, err)
		}
	})
}

// exactly makes the room that it is asked for: what takes more than it asked for has its buffer grown, by more than an offset takes.
func exactly(_ []byte, n int) ([]byte, error) { return make([]byte, 0, n), nil }

// Whatever a record holds, its line is one line, and reads back as that record.
func FuzzLine(f *testing.F) {
	f.Add("p", "t", []byte(`{"a":1}`), int64(0), int64(0), uint32(0))
	f.Add("\x00\"\\", "\n", []byte("\xff\n"), int64(-1), int64(1791009457501942), stages.FlagSealed)
	f.Add("p", strings.Repeat("\x01", 300), []byte(strings.Repeat("\xff\x02", 300)), int64(7), int64(0), stages.FlagSealed)
	f.Fuzz(func(t *testing.T, name, tx string, payload []byte, base, ts int64, flags uint32) {
		const lowest, highest = -62167219200000000, 253402300799999999 // the years 0 to 9999
		if ts < lowest || ts > highest || base == 1<<63-1 || !bytes.Equal([]byte(name), bytes.ToValidUTF8([]byte(name), nil)) || !bytes.Equal([]byte(tx), bytes.ToValidUTF8([]byte(tx), nil)) {
			return
		}
		_, bad := jsontext.Scan(payload)
		sealed := bad != nil && len(payload) > 0 // no producer sent it
		h := stages.Header{TS: stages.Micros(ts), Base: base, Count: 1, Flags: stages.FlagSealed | flags}
		text, err := newLines(exactly).Append(nil, name, &h, one{h, stages.Record{Offset: base, TxID: []byte(tx), Payload: payload, Sealed: sealed}})
		if err != nil || cap(text)-len(text) > maxInt+len(partNull) {
			t.Fatalf("%d bytes in a buffer of %d: %v", len(text), cap(text), err)
		}
		got, err := decode(plain(t), string(text))
		if err != nil || len(got) != 1 || got[0].Partition != name || got[0].TxID != tx || got[0].Offset != base || int64(got[0].TS) != ts {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	})
}

// The cached date is that of every stamp, in any order of days.
func TestStamps(t *testing.T) {
	l := &lines{}
	for _, ts := range []stages.Micros{0, -1, 1, 86_399_999_999, 86_400_000_000, -86_400_000_000, -86_400_000_001, 1791009457501942, -62167219200000000, 253402300799999999, 1709164800000000, 5} {
		if got := string(l.appendTS(nil, ts)); got != ts.ISO() {
			t.Errorf("%d: %s, want %s", ts, got, ts.ISO())
		}
	}
}

// What clean lets through is what AppendEscaped leaves as it is: for every byte, at every place, beside every other.
func TestClean(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				for _, other := range []byte{0x20, 'x', 0x7f, 0x80, 0xff, 0x21, 0x23, 0x5b, 0x5d} {
					s := bytes.Repeat([]byte{other}, n)
					s[at] = byte(c)
					if got, want := clean(s), bytes.Equal(jsontext.AppendEscaped(nil, s), s); got != want {
						t.Fatalf("%q: %v", s, got)
					}
				}
			}
		}
	}
	if !clean(nil) {
		t.Error("nothing has to be escaped in nothing")
	}
}

func BenchmarkLines(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("%d records an append", n), func(b *testing.B) {
			payload := []byte(`{"order":123456,"status":"paid","total":42.00,"note":"` + strings.Repeat("n", 240) + `"}`)
			body := many{h: stages.Header{TS: 1791009457501942, Count: int32(n)}}
			for i := range n {
				body.r = append(body.r, stages.Record{Offset: int64(i), TxID: []byte("01a1007b-855d-7001-8107-adfdabd3e51c"), Payload: payload})
			}
			l := newLines(func(dst []byte, n int) ([]byte, error) { return slices.Grow(dst, n), nil })
			var dst []byte
			for b.Loop() {
				dst, _ = l.Append(dst[:0], "cust-000123", &body.h, body)
				body.h.TS++
			}
			b.SetBytes(int64(len(dst)))
		})
	}
}

type many struct {
	h stages.Header
	r []stages.Record
}

func (m many) Header() stages.Header { return m.h }

func (m many) Records() iter.Seq2[stages.Record, error] {
	return func(yield func(stages.Record, error) bool) {
		for _, r := range m.r {
			if !yield(r, nil) {
				return
			}
		}
	}
}
