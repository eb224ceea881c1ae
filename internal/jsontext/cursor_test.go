package jsontext

import (
	"strings"
	"testing"
)

func TestCursorCuts(t *testing.T) {
	body := ` {"items":[ {"queue":"o\u0072ders","payload": {"t":42.00} }, {"p\u0061yload":null}],"x":[1,[2]] } `
	c := NewCursor([]byte(body))
	var got []string
	err := c.Object(func(n Name) error {
		if !n.Is("items") {
			v, err := c.Value()
			got = append(got, string(n.Raw)+"="+string(v.Text))
			return err
		}
		return c.Array(func(int) error {
			return c.Object(func(n Name) error {
				v, err := c.Value()
				if n.Is("payload") {
					got = append(got, "payload:"+string(v.Text))
					if body[v.Offset:v.Offset+len(v.Text)] != string(v.Text) {
						t.Errorf("offset %d of %q", v.Offset, v.Text)
					}
				}
				if n.Is("queue") {
					name, uerr := v.Unquote()
					if uerr != nil {
						t.Error(uerr)
					}
					got = append(got, "queue:"+string(name))
				}
				return err
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.End(); err != nil {
		t.Fatal(err)
	}
	if want := `queue:orders payload:{"t":42.00} payload:null x=[1,[2]]`; strings.Join(got, " ") != want {
		t.Errorf("got %v", got)
	}
}

func TestCursorWrongShape(t *testing.T) {
	for in, want := range map[string]string{
		`[1]`:    `'{' was expected at byte 0`,
		` "x"`:   `'{' was expected at byte 1`,
		`"x`:     `unexpected end at byte 2`,
		``:       `unexpected end at byte 0`,
		`{"a":1`: `unexpected end at byte 6`,
		`{,}`:    `a member name in quotes was expected at byte 1`,
	} {
		c := NewCursor([]byte(in))
		err := c.Object(func(Name) error { _, err := c.Value(); return err })
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
	}
}

func TestUnquote(t *testing.T) {
	for in, want := range map[string]string{
		`"plain"`:              "plain",
		`"\ud83d\uded2"`:       "🛒",
		`"a\u0000\/\\\"\n"`:    "a\x00/\\\"\n",
		`"\uD83D\uDED2\u00e9"`: "🛒é",
	} {
		v, err := Scan([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Unquote()
		if err != nil || string(got) != want {
			t.Errorf("Unquote(%s) = %q, %v", in, got, err)
		}
	}
	for _, in := range []string{`"\ud800"`, `"\udc00x"`, `"\ud800\u0041"`, `"\ud800\ud800"`, `5`} {
		v, err := Scan([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := v.Unquote(); err == nil {
			t.Errorf("Unquote(%s) = %q, want an error", in, got)
		}
	}
}

func TestAppendQuoted(t *testing.T) {
	for in, want := range map[string]string{
		"a\"\\/<&>\x7f\u2028é": "\"a\\\"\\\\/<&>\x7f\u2028é\"",
		"\b\f\n\r\t\x00\x1f":   `"\b\f\n\r\t\u0000\u001f"`,
		"x\xffy":               "\"x\uFFFDy\"",
	} {
		if got := string(AppendQuoted(nil, in)); got != want {
			t.Errorf("AppendQuoted(%q) = %s, want %s", in, got, want)
		}
	}
}
