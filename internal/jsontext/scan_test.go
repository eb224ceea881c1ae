package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestScanAccepts(t *testing.T) {
	for _, c := range []struct {
		in, text string
		kind     Kind
		breaks   bool
	}{
		{`null`, `null`, Null, false},
		{" \t\r\n5 \n", `5`, Number, false}, // line breaks around the value are not in it
		{`{"total":42.00}`, `{"total":42.00}`, Object, false},
		{`1e400`, `1e400`, Number, false},
		{`-0`, `-0`, Number, false},
		{`1E+2`, `1E+2`, Number, false},
		{`{"a":1,"a":2}`, `{"a":1,"a":2}`, Object, false},
		{`"\ud800"`, `"\ud800"`, String, false},
		{`"\u0000\"\\\/\b\f\n\r\t\uABcd"`, `"\u0000\"\\\/\b\f\n\r\t\uABcd"`, String, false},
		{"\"é🛒\u2028\u2029\u0085\x7f\"", "\"é🛒\u2028\u2029\u0085\x7f\"", String, false},
		{"{\n\"a\" :\r1\r\n}", "{\n\"a\" :\r1\r\n}", Object, true},
		{"[\n]", "[\n]", Array, true},
		{"[[],{} ,[1, true,false,null]]", "[[],{} ,[1, true,false,null]]", Array, false},
		{"[1\n,2]", "[1\n,2]", Array, true},
		{"[1,\n2]", "[1,\n2]", Array, true},
		{"[1,\r2]", "[1,\r2]", Array, true}, // to some readers a CR ends a line
		{"{\"a\"\n:1}", "{\"a\"\n:1}", Object, true},
		{`{"":""}`, `{"":""}`, Object, false},
		{`{"a":{},"b":[],"c":[{},1,{"d":[]},[],"e"],"f":""}`, `{"a":{},"b":[],"c":[{},1,{"d":[]},[],"e"],"f":""}`, Object, false},
	} {
		v, err := Scan([]byte(c.in))
		if err != nil || string(v.Text) != c.text || v.Kind() != c.kind || v.Breaks != c.breaks {
			t.Errorf("Scan(%q) = %q kind %d breaks %v, %v", c.in, v.Text, v.Kind(), v.Breaks, err)
		}
		if want := strings.Index(c.in, c.text); v.Offset != want {
			t.Errorf("Scan(%q) starts at %d, want %d", c.in, v.Offset, want)
		}
	}
}

func TestScanRefuses(t *testing.T) {
	for _, c := range []struct {
		in     string
		offset int
		reason string
	}{
		{"", 0, reasonEnd},
		{" \n", 2, reasonEnd},
		{"NaN", 0, reasonValue},
		{"01", 1, reasonNumber},
		{"-", 1, reasonEnd},
		{"-a", 1, reasonNumber},
		{"1.", 2, reasonEnd},
		{".5", 0, reasonValue},
		{"+1", 0, reasonValue},
		{"1.e1", 2, reasonNumber},
		{"1e", 2, reasonEnd},
		{"1ex", 2, reasonNumber},
		{"{a:1}", 1, "a member name in quotes was expected"},
		{`{"a"1}`, 4, "':' was expected"},
		{`{"a":1,}`, 7, "a member name in quotes was expected"},
		{`{"a":1]`, 6, "',' or '}' was expected"},
		{`[1,]`, 3, reasonValue},
		{`[1}`, 2, "',' or ']' was expected"},
		{`[1`, 2, reasonEnd},
		{`{"a":`, 5, reasonEnd},
		{`{"a`, 3, reasonEnd},
		{`{`, 1, reasonEnd},
		{"1 2", 2, "nothing more was expected"},
		{"{}x", 2, "nothing more was expected"},
		{"tru", 3, reasonEnd},
		{"trux", 3, "bad literal, true was expected"},
		{"\"a\x00b\"", 2, reasonControl},
		{"\"a\tb\"", 2, reasonControl},
		{"\"a\nb\"", 2, reasonControl},
		{`"\x"`, 2, reasonEscape},
		{`"\u12g4"`, 5, reasonEscape},
		{`"\u12`, 5, reasonEnd},
		{`"\`, 2, reasonEnd},
		{"\"a\xffb\"", 2, reasonUTF8},
		{"\"0123456789\xc0\x80\"", 11, reasonUTF8}, // overlong
		{"\"\xed\xa0\x80\"", 1, reasonUTF8},        // surrogate half as bytes
		{"\"\xf5\x80\x80\x80\"", 1, reasonUTF8},
		{"\"\xf4\x90\x80\x80\"", 1, reasonUTF8},
		{"\"\xe2\x82", 1, reasonUTF8},
		{"{\"a\xff\":1}", 3, reasonUTF8},
		{"\xef\xbb\xbf{}", 0, reasonBOM},
		{"[\xff]", 1, reasonValue},
		{"[\u00a01]", 1, reasonValue},
	} {
		_, err := Scan([]byte(c.in))
		var e *Error
		if !errors.As(err, &e) || e.Offset != c.offset || e.Reason != c.reason {
			t.Errorf("Scan(%q) = %v, want %s at byte %d", c.in, err, c.reason, c.offset)
		}
	}
}

func TestDepth(t *testing.T) {
	nest := func(n int) []byte {
		return []byte(strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	objects := func(n int) []byte {
		return []byte(strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n))
	}
	for _, b := range [][]byte{nest(MaxDepth), objects(MaxDepth)} {
		if _, err := Scan(b); err != nil {
			t.Errorf("depth %d refused: %v", MaxDepth, err)
		}
	}
	for _, b := range [][]byte{nest(MaxDepth + 1), objects(MaxDepth + 1), nest(1_000_000), bytes.Repeat([]byte(`[{"a":`), 1_000_000)} {
		begin := time.Now()
		_, err := Scan(b)
		var e *Error
		if !errors.As(err, &e) || e.Reason != reasonDepth {
			t.Errorf("%d bytes of brackets: %v", len(b), err)
		}
		if d := time.Since(begin); d > time.Second {
			t.Errorf("%d bytes of brackets took %v", len(b), d)
		}
	}
	// One cursor serves many values: levels of one must not show in the next.
	c := NewCursor([]byte(`[{"a":[1]},[[{}]],{"b":{}}]`))
	if err := c.Array(func(int) error { _, err := c.Value(); return err }); err != nil {
		t.Error(err)
	}
}

// walk cuts a text down to its scalars by Object and Array, so that every byte is passed by the cursor's own walking.
func walk(c *Cursor, depth int) error {
	kind, _ := c.Peek()
	switch {
	case kind == Object && depth < 50:
		return c.Object(func(Name) error { return walk(c, depth+1) })
	case kind == Array && depth < 50:
		return c.Array(func(int) error { return walk(c, depth+1) })
	}
	_, err := c.Value()
	return err
}

// FuzzAgrees: Scan takes exactly what encoding/json and unicode/utf8 both take; what it cuts is the text without the white space
// around it; Breaks says whether a CR or LF is in it; a refusal lies in the text; and walking agrees with scanning.
func FuzzAgrees(f *testing.F) {
	for _, s := range []string{
		"", "null", " [1,2.5e-3,{\"a\":\"\\u00e9\\ud800\"}]\r\n", `{"a":{"b":[]},"c":"\\\""}`, "\"a\xffb\"", "\"\xed\xa0\x80\"",
		"\"\xc0\x80\"", "\xef\xbb\xbf{}", "[1,]", "{\"a\":1,}", "01", "-0.0E+1", "\"\t\"", "{\r\"a\"\n:\t1 , \"b\":[ ]}", "[[[[[[", "\"é🛒\u2028\"",
		"\"01234567\\u0000 \"", "tru", "nul", "-", "1e", "{\"\":0}", "\"\x7f\xf4\x8f\xbf\xbf\"",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := Scan(b)
		want := json.Valid(b) && utf8.Valid(b)
		if (err == nil) != want {
			t.Fatalf("Scan(%q): %v, encoding/json and utf8 say %v", b, err, want)
		}
		c := NewCursor(b)
		werr := walk(c, 0)
		if werr == nil {
			werr = c.End()
		}
		var deep *Error
		if errors.As(err, &deep) && deep.Reason == reasonDepth {
			return // levels that a caller enters himself are not counted
		}
		if (werr == nil) != want {
			t.Fatalf("walk(%q): %v, want accepted %v", b, werr, want)
		}
		if err != nil {
			var e, we *Error
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(b) || e.Reason == "" {
				t.Fatalf("Scan(%q): %v", b, err)
			}
			if !errors.As(werr, &we) || *we != *e {
				t.Fatalf("Scan(%q) says %v, walking says %v", b, err, werr)
			}
			return
		}
		if !bytes.Equal(v.Text, bytes.Trim(b, " \t\r\n")) || !bytes.HasPrefix(b[v.Offset:], v.Text) {
			t.Fatalf("Scan(%q) cut %q at %d", b, v.Text, v.Offset)
		}
		if v.Breaks != bytes.ContainsAny(v.Text, "\r\n") {
			t.Fatalf("Scan(%q): Breaks %v", b, v.Breaks)
		}
		checkUnquote(t, v)
	})
}

func checkUnquote(t *testing.T, v Value) {
	if v.Kind() != String {
		return
	}
	got, err := v.Unquote()
	var want string
	if jerr := json.Unmarshal(v.Text, &want); jerr != nil {
		t.Fatalf("encoding/json took %q, then: %v", v.Text, jerr)
	}
	if err != nil { // only half a surrogate pair, which encoding/json replaces
		if !strings.Contains(want, "\uFFFD") {
			t.Fatalf("Unquote(%q): %v, want %q", v.Text, err, want)
		}
		return
	}
	if string(got) != want {
		t.Fatalf("Unquote(%q) = %q, want %q", v.Text, got, want)
	}
	var again string
	quoted := AppendQuoted(nil, got)
	if jerr := json.Unmarshal(quoted, &again); jerr != nil || again != want {
		t.Fatalf("AppendQuoted(%q) = %q: %q, %v", got, quoted, again, jerr)
	}
}

// payload250 is like what producers send: 250 bytes, short strings and numbers.
const payload250 = `{"orderId":"ord-2026-000123456","customer":{"id":482910,"name":"Maria Rossi","vip":true},"items":[{"sku":"A-1002","qty":2,"price":19.90},{"sku":"B-77","qty":1,"price":5.00}],"total":44.80,"currency":"EUR","note":null,"ts":"2026-10-03T06:37:37.501942Z"}`

func BenchmarkValue250(b *testing.B) {
	text := []byte(payload250)
	c := NewCursor(text)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		c.pos = 0
		if _, err := c.Value(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJSONValid250(b *testing.B) {
	text := []byte(payload250)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if !json.Valid(text) || !utf8.Valid(text) {
			b.Fatal("not valid")
		}
	}
}
