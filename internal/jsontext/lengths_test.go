package jsontext

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestStringsOfEveryLength: strings are stepped over by words and blocks of words, so one byte that has to be looked at is put at each place of
// strings of each length, as a value, as a name and inside of a value, with little and with much behind it.
func TestStringsOfEveryLength(t *testing.T) {
	odd := []string{"x", `\n`, `\"`, `\\`, "\x1f", "\n", "é", "🛒", "\xff", `\x`, `\u12g4`, "\x7f"}
	for n := range 90 {
		for at := 0; at <= n; at += 1 + n/30 {
			for _, special := range odd {
				inner := strings.Repeat("a", at) + special + strings.Repeat("b", n-at)
				for _, form := range [][2]string{{`"`, `"`}, {`{"`, `":1}`}, {`{"k":"`, `"}`}, {`["`, `",2]`}, {`{"k":[{"`, `":"v"},"w"],"l":"` + strings.Repeat("z", 70) + `"}`}} {
					text := []byte(form[0] + inner + form[1])
					v, err := Scan(text)
					if want := json.Valid(text) && utf8.Valid(text); (err == nil) != want {
						t.Fatalf("Scan(%q): %v, encoding/json and utf8 say %v", text, err, want)
					}
					if err == nil {
						checkUnquote(t, v)
					}
					c := NewCursor(text)
					if werr := walk(c, 0); (werr == nil) != (err == nil) {
						t.Fatalf("walk(%q): %v, Scan says %v", text, werr, err)
					}
				}
			}
		}
	}
}

// TestReset: a cursor that failed in the middle of a text reads the next one as a new one would.
func TestReset(t *testing.T) {
	c := NewCursor([]byte(`[[{"a":[{"b`))
	if _, err := c.Value(); err == nil {
		t.Fatal("half a text was accepted")
	}
	c.Reset([]byte(` {"a":[1,"x"]} `))
	v, err := c.Value()
	if err != nil || string(v.Text) != `{"a":[1,"x"]}` || v.Offset != 1 || c.End() != nil {
		t.Errorf("%q at %d: %v", v.Text, v.Offset, err)
	}
}
