package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"queen/test/harness"
)

// payload is one text that a producer may send, and whether a push takes it.
type payload struct {
	name, text string
	refused    bool
}

// payloads are what real producers push, and what breaks careless systems. Texts are Go strings: escapes in back quotes are the producer's.
func payloads() []payload {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	keys := make([]string, 50_000)
	for i := range keys {
		keys[i] = fmt.Sprintf(`"key-%d":%d`, i, i)
	}
	return []payload{
		{"decimal", `{"total":42.00}`, false},
		{"31 digits", `{"n":9007199254740993123}`, false},
		{"30 digits", `123456789012345678901234567890`, false},
		{"exponent", `1e400`, false},
		{"minus zero", `-0`, false},
		{"capital exponent", `1E+2`, false},
		{"doubled key", `{"a":1,"a":2}`, false},
		{"lone surrogate escape", `"\ud800"`, false},
		{"escaped NUL", `"\u0000"`, false},
		{"raw NUL", "\"a\x00b\"", true},
		{"raw tab", "\"a\tb\"", true},
		{"byte ff", "\"a\xffb\"", true},
		{"overlong", "\"\xc0\x80\"", true},
		{"surrogate in UTF-8", "\"\xed\xa0\x80\"", true},
		{"BOM", "\xef\xbb\xbf{}", true},
		{"escapes", `"\u00e9\/\u003c\u00E9"`, false},
		{"raw non-ASCII", "\"é 🛒 \u2028 \u2029 \u0085 \x7f\"", false},
		{"HTML", `"<a href='x'>&amp;</a>"`, false},
		{"spaces", `{ "a" :  1 }`, false},
		{"LF", "{\n \"a\": 1\n}", false},
		{"CRLF", "{\r\n \"a\":\r1\r\n}", false},
		{"number", `5`, false}, {"true", `true`, false}, {"string", `"hi"`, false}, {"empty array", `[]`, false}, {"array", `[1,2]`, false},
		{"null", `null`, false},
		{"empty string", `""`, false},
		{"nothing", ``, true}, {"space", `  `, true}, {"NaN", `NaN`, true}, {"leading zero", `01`, true}, {"bare key", `{a:1}`, true},
		{"trailing comma", `[1,]`, true}, {"two values", `1 2`, true},
		{"500 deep", nested(500), false}, {"2,000 deep", nested(2_000), false}, {"10,000 deep", nested(10_000), false},
		{"10,001 deep", nested(10_001), true}, {"1,000,000 deep", nested(1_000_000), true},
		{"1 MB string", `"` + strings.Repeat("x", 1_000_000) + `"`, false},
		{"10 MB string", `"` + strings.Repeat("y", 10_000_000) + `"`, false},
		{"20 MB string", `"` + strings.Repeat("z", 20_000_000) + `"`, false},
		{"above 32 MB", `"` + strings.Repeat("z", 33<<20) + `"`, true},
		{"50,000 keys", "{" + strings.Join(keys, ",") + "}", false},
		{"64 KB key", `{"` + strings.Repeat("k", 64<<10) + `":1}`, false}, {"empty key", `{"":0}`, false},
		{"our envelope", `{"partition":"x","offset":0,"payload":1}`, false},
		{"envelope in a string", `"\n\"payload\":1}\n{\"partition\":\"x\""`, false},
		{"dates and formulas", `["2026-10-03","0001-01-01","1791009457","=1+1","'; DROP TABLE x","127.0.0.1","<script>alert(1)</script>"]`, false},
	}
}

// TestPayloads sends every payload through push, restart, object and fetch. What is refused stores nothing; what is taken comes back byte for
// byte, and in the object each raw line break is one space.
func TestPayloads(t *testing.T) {
	g := harness.StartGateway(t, t.TempDir(), "lake")
	env := harness.SinkEnv(g.URL, "lake").With("QUEEN_S3_MAX_WINDOW_MS", "1000", "QUEEN_S3_SAFE_GUARD_MS", "100", "QUEEN_S3_DISCOVERY_INTERVAL_MS", "50")
	dir := t.TempDir()
	b := harness.StartBroker(t, dir, env.With("QUEEN_S3_EMBEDDED", ""))
	want := map[string]string{} // partition -> payload
	for i, p := range payloads() {
		partition := fmt.Sprintf("%02d %s", i, p.name)
		body := harness.PushBody([]harness.Item{{Queue: "orders", Partition: partition, TxID: "tx", Payload: p.text}})
		status, out, err := b.Do("POST", "/api/v1/push", body)
		switch {
		case err != nil && !(p.refused && len(body) > 32<<20): // a server may close before it has read all of a body that is too large
			t.Errorf("%s: %v", p.name, err)
		case p.refused && err == nil && status != 400 && status != 413:
			t.Errorf("%s: %d %.200s, want a refusal", p.name, status, out)
		case !p.refused && status != 201:
			t.Errorf("%s: %d %.200s, want 201", p.name, status, out)
		case !p.refused:
			want[partition] = p.text
		}
	}
	thousand(t, b, want)
	compare(t, b, want, "before the restart")
	b.Kill()
	b = harness.StartBroker(t, dir, env)
	compare(t, b, want, "after the restart")
	b.WaitWindows(t, "orders", 1, 60*time.Second)
	drained(t, b)
	lines(t, g.Lake("lake"), want)
	harness.MustBeClean(t, g.Lake("lake"), "")
}

// thousand pushes 1,000 records of one stamp, and one transaction id twice.
func thousand(t *testing.T, b *harness.Broker, want map[string]string) {
	t.Helper()
	items := make([]harness.Item, 1000)
	for i := range items {
		partition := fmt.Sprintf("many-%03d", i)
		items[i] = harness.Item{Queue: "orders", Partition: partition, TxID: "tx", Payload: fmt.Sprint(i)}
		want[partition] = fmt.Sprint(i)
	}
	for range 2 { // the second time all are duplicates
		if err := b.Push(items...); err != nil {
			t.Fatal(err)
		}
	}
}

func compare(t *testing.T, b *harness.Broker, want map[string]string, when string) {
	t.Helper()
	for partition, text := range want {
		if got := only(t, b, partition); got != text {
			t.Errorf("%s, %s: fetch gives %.100q, not %.100q", when, partition, got, text)
		}
	}
	for i, p := range payloads() {
		if p.refused {
			if n := len(fetchAll(t, b, "orders", fmt.Sprintf("%02d %s", i, p.name))); n != 0 {
				t.Errorf("%s, %s: refused, and yet %d records are stored", when, p.name, n)
			}
		}
	}
}

// only returns the payload of a partition's only record, cut from the answer's text: some payloads are deeper than a parser that reads the
// answer around them allows.
func only(t *testing.T, b *harness.Broker, partition string) string {
	t.Helper()
	name, err := json.Marshal(partition)
	if err != nil {
		t.Fatal(err)
	}
	status, out, err := b.Do("POST", "/api/v1/fetch", fmt.Appendf(nil, `{"entries":[{"queue":"orders","partition":%s,"offset":0}]}`, name))
	if err != nil || status != 200 || !strings.HasSuffix(string(out), `"highWatermark":1,"logStartOffset":0}]}`) {
		t.Errorf("fetch %s: %d %v %.100s...%s", partition, status, err, out, out[max(0, len(out)-100):])
		return ""
	}
	text := string(out[bytes.Index(out, []byte(`"payload":`))+len(`"payload":`):])
	return text[:strings.LastIndex(text, `,"ts":"`)]
}

// lines reads the objects and compares the text behind "payload": with what was sent.
func lines(t *testing.T, lake string, want map[string]string) {
	t.Helper()
	objects, err := filepath.Glob(filepath.Join(lake, "queen", "tenant=*", "queue=orders", "dt=*", "hour=*", "*.jsonl.zst"))
	if err != nil || len(objects) == 0 {
		t.Fatalf("no objects: %v", err)
	}
	sort.Strings(objects)
	found := 0
	for _, o := range objects {
		for _, line := range decode(t, o) {
			found++
			partition := strings.Split(line, `"`)[3]
			_, text, _ := bytes.Cut([]byte(line), []byte(`Z","payload":`))
			sent := strings.NewReplacer("\r", " ", "\n", " ").Replace(want[partition])
			if string(text) != sent+"}" {
				t.Errorf("%s: object holds %.120q, want %.120q", partition, text, sent)
			}
		}
	}
	if found != len(want) {
		t.Errorf("objects hold %d records, want %d", found, len(want))
	}
}
