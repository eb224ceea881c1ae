package api

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"queen/internal/jsontext"
	"queen/internal/rounds"
	"queen/stages"
)

// payloadCase is a payload that producers send, and whether it is taken.
type payloadCase struct {
	name     string
	payload  string
	accepted bool
}

func payloadCases() []payloadCase {
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	cases := []payloadCase{
		{"deepest", nest(10_000), true},
		{"too deep", nest(10_001), false},
		{"a million brackets", strings.Repeat("[", 1_000_000), false},
		{"a million objects", strings.Repeat(`{"a":`, 1_000_000), false},
		{"1 MB string", `"` + strings.Repeat("x", 1<<20) + `"`, true},
		{"10 MB string", `"` + strings.Repeat("x", rounds.Of(10, 2)<<20) + `"`, true},
		{"20 MB string", `"` + strings.Repeat("x", rounds.Of(20, 2)<<20) + `"`, true},
		{"50,000 keys", manyKeys(50_000), true},
		{"key of 64 KB", `{"` + strings.Repeat("k", 64<<10) + `":1}`, true},
		{"incompressible", `"` + noise(1<<20) + `"`, true},
	}
	for _, p := range []string{
		`{"total":42.00}`, `{"n":9007199254740993123}`, `1e400`, `-0`, `1E+2`, `{"a":1,"a":2}`, `"\ud800"`, `"\u0000"`,
		`"\u00e9\/\u003c"`, `"\u00E9\/\u003C"`, "\"é🛒\u2028\u2029\u0085\x7f\"", `"<a href='x'>&amp;</a>"`, `{ "a" :  1 }`,
		"{\n  \"a\": [\n    1\n  ]\n}", "{\r\n  \"a\": 1\r\n}", "{\r\"a\":\r1\r}", `5`, `true`, `"hi"`, `[]`, `[1,2]`, `null`, `""`, `{"":1}`,
		nest(500), nest(2000), `{"partition":"x","offset":0,"payload":1}`, `"\n\"payload\":}\n"`, `"2026-10-03"`, `"=1+1"`,
		`"; DROP TABLE q; --"`, `"<script>alert(1)</script>"`,
		`{ "a" : 1, "h":"<a>&", "n":9007199254740993123, "t":42.00, "u":"\u00e9\/", "ls":"` + "\u2028" + `" }`,
	} {
		cases = append(cases, payloadCase{p[:min(len(p), 40)], p, true})
	}
	for _, p := range []string{
		"\"a\x00b\"", "\"a\tb\"", "\"a\nb\"", "\"a\xffb\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf5\x80\x80\x80\"", "\xef\xbb\xbf{}",
		"", "   ", "NaN", "01", "{a:1}", "[1,]", `{"a":1,}`, "1 2", "{} {}", "'x'", "tru", `"\x41"`, "\u00a01", "Infinity", "+1", ".5",
	} {
		cases = append(cases, payloadCase{fmt.Sprintf("refused %q", p), p, false})
	}
	return cases
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"key%07d":%d`, i, i)
	}
	return "{" + b.String()[1:] + "}"
}

func noise(n int) string {
	raw := make([]byte, n)
	chacha := rand.NewChaCha8([32]byte{1})
	chacha.Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
}

// TestPayloads: what is taken comes back byte for byte, through the log format and the state; what is not leaves no trace.
func TestPayloads(t *testing.T) {
	for _, c := range payloadCases() {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, nil)
			w := f.do("POST", "/api/v1/push", pushBody([]byte(c.payload)))
			if !c.accepted {
				if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"code":"bad_body"`) || !strings.Contains(w.Body.String(), " at byte ") {
					t.Errorf("%d %.200s", w.Code, w.Body)
				}
				f.untouched(t, c.name)
				return
			}
			if w.Code != http.StatusCreated {
				t.Fatalf("%d %.200s", w.Code, w.Body)
			}
			got := fetchOne(t, f, "q", "Default", 0)
			if !bytes.Equal(got, []byte(c.payload)) {
				t.Errorf("%d bytes came back as %d: %.100q", len(c.payload), len(got), got)
			}
			checkBreaks(t, f, strings.ContainsAny(c.payload, "\r\n"))
		})
	}
}

// fetchOne returns the raw payload text of the record at an offset.
func fetchOne(t *testing.T, f *fixture, queue, partition string, offset int64) []byte {
	t.Helper()
	body := fmt.Sprintf(`{"entries":[{"queue":%q,"partition":%q,"offset":%d,"maxBytes":1}]}`, queue, partition, offset)
	answer := f.ok(t, http.StatusOK, "POST", "/api/v1/fetch", body)
	var payload []byte
	c := jsontext.NewCursor([]byte(answer))
	err := c.Object(func(jsontext.Name) error {
		return c.Array(func(int) error {
			return c.Object(func(name jsontext.Name) error {
				if !name.Is("records") {
					_, err := c.Value()
					return err
				}
				return c.Array(func(int) error {
					return c.Object(func(name jsontext.Name) error {
						v, err := c.Value()
						if name.Is("payload") {
							payload = v.Text
						}
						return err
					})
				})
			})
		})
	})
	if err == nil {
		err = c.End()
	}
	if err != nil || payload == nil {
		t.Fatalf("fetch answered %.300s: %v", answer, err)
	}
	return payload
}

// checkBreaks looks at the flag of the one append in queue 1.
func checkBreaks(t *testing.T, f *fixture, want bool) {
	t.Helper()
	view := f.segments.View(1)
	n := 0
	for h, err := range view.Headers(stages.Beginning, 1<<62) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if got := h.Flags&stages.FlagLineBreaks != 0; got != want {
			t.Errorf("flag for line breaks is %v, want %v", got, want)
		}
	}
	if n != 1 {
		t.Errorf("%d appends", n)
	}
}

// A body over the limit is refused before it is parsed, whether its length is known or not.
func TestBodyLimit(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.MaxBody = 1000 })
	big := pushBody([]byte(`"` + strings.Repeat("x", 1000) + `"`))
	if w := f.do("POST", "/api/v1/push", big); w.Code != http.StatusRequestEntityTooLarge || strings.HasPrefix(w.Body.String(), "{") {
		t.Errorf("known length: %d %s", w.Code, w.Body)
	}
	r, _ := http.NewRequest("POST", "/api/v1/push", struct{ *bytes.Reader }{bytes.NewReader(big)})
	r.ContentLength = -1
	w := newRecorder()
	f.h.ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("unknown length: %d %s", w.Code, w.Body)
	}
	f.untouched(t, "too large")
}
