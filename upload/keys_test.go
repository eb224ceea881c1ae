package upload

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen/stages"
)

// The keys of the published example and their variants.
func TestKeys(t *testing.T) {
	key := func(change func(*stages.Intent)) string {
		in := testIntent()
		change(&in)
		k, err := DataKey(in, Names{Tenant: testTenant, Queue: "orders", Ext: "jsonl.zst"})
		if err != nil {
			t.Error(err)
		}
		return k
	}
	const root = "queen/tenant=00000000-0000-0000-0000-000000000001/queue=orders/"
	for _, c := range []struct {
		name, got, want string
	}{
		{"hour", key(func(*stages.Intent) {}), testData},
		{"day", key(func(in *stages.Intent) { in.Align = "day" }), root + "dt=2026-10-03/w-0000000001-1791007200000000-1791009458377855.jsonl.zst"},
		{"none", key(func(in *stages.Intent) { in.Align = "none" }), testData},
		{"last microsecond of a day", key(func(in *stages.Intent) { in.Start = 1791071999999999 }), root + "dt=2026-10-03/hour=23/w-0000000001-1791071999999999-1791009458377855.jsonl.zst"},
		{"before the epoch", key(func(in *stages.Intent) { in.Start, in.End = stages.Beginning, -1 }), root + "dt=1970-01-01/hour=00/w-0000000001-0000000000000000-0000000000000000.jsonl.zst"},
		{"manifest", ManifestKey("queen", testTenant, "orders", 1), testManifest},
		{"prefix and escapes", ManifestKey("a/b", "t/1", "q=%2F", 12345678901), "a/b/_queen/tenant=t%2F1/queue=q%3D%252F/windows/12345678901.json"},
	} {
		if c.got != c.want {
			t.Errorf("%s:\n%s\n%s", c.name, c.got, c.want)
		}
	}
	for _, change := range []func(*stages.Intent){
		func(in *stages.Intent) { in.Align = "week" }, func(in *stages.Intent) { in.Layout = "by-hour" },
	} {
		in := testIntent()
		change(&in)
		if k, err := DataKey(in, Names{Tenant: testTenant, Queue: "orders", Ext: "x"}); err == nil {
			t.Errorf("a value of a later version was taken: %s", k)
		}
	}
}

// P14: names that other encoders confuse have distinct keys.
func TestP14DistinctKeys(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"a b", "a%20b", "a/b", "a=b", "a:b", "a+b", "a~b", "..", "ключ", "a"} {
		k, err := DataKey(testIntent(), Names{Tenant: testTenant, Queue: name, Ext: "jsonl"})
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[k]; ok {
			t.Errorf("%q and %q share %s", name, other, k)
		}
		seen[k] = name
		if strings.ContainsAny(k, " +:~") || strings.Count(k, "/") != 5 {
			t.Errorf("%q: %s", name, k)
		}
	}
}

// P15 and contract B9: a queue whose keys no store would take is refused when it is adopted.
func TestP15LongNames(t *testing.T) {
	for _, c := range []struct {
		name          string
		prefix, queue string
		words         string // "" = taken
	}{
		{"plain", "queen", "orders", ""},
		{"longest plain name", "queen", strings.Repeat("q", 255-len("queue=")), ""},
		{"one more", "queen", strings.Repeat("q", 256-len("queue=")), "the segment queue= of its object keys would have 256 bytes"},
		{"42 Cyrillic letters", "queen", strings.Repeat("ж", 42), "after percent-encoding, stores take 255"},
		{"41 Cyrillic letters", "queen", strings.Repeat("ж", 41), ""},
		{"prefix segment", strings.Repeat("p", 256), "orders", "QUEEN_S3_PREFIX has a segment of 256 bytes"},
		{"in all", strings.Repeat("pppppppppppp/", 60) + "p", strings.Repeat("q", 200), "stores take 1024; use a shorter prefix"},
	} {
		err := CheckNames(c.prefix, testTenant, c.queue, "merged")
		var e *KeyError
		switch {
		case c.words == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.words != "" && (!errors.As(err, &e) || e.Queue != c.queue || !strings.Contains(err.Error(), c.words)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func goldenManifest() *Manifest {
	ts := stages.Micros(1791009457501942)
	return &Manifest{
		Sink: "default", Tenant: testTenant, Queue: "orders", K: 1, Start: 1791007200000000, End: 1791009458377855,
		Format: "jsonl", Compression: "zstd", Layout: "merged",
		Objects: []Object{{Key: testData, Bytes: 207, Records: 3, SHA256: "5f2ac4baa20940c6c33a5e3c7207ef7d1087db6538fea0cce88cb16ff43def78"}},
		Records: 3, Bytes: 207, Partitions: 2, MinTS: &ts, MaxTS: &ts, Lost: []Lost{},
		Writer: "queen-s3/2.0.0 jsonl+zstd", CommittedAt: "2026-10-03T06:37:44.741000Z",
	}
}

// The manifest of the published example, byte for byte.
func TestManifestGolden(t *testing.T) {
	want, err := os.ReadFile("testdata/manifest.golden")
	if err != nil {
		t.Fatal(err)
	}
	if got := goldenManifest().Append(nil); string(got) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	m, err := ParseManifest(want)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(goldenManifest(), m); d != "" {
		t.Error(d)
	}
}

// Every string that a manifest can hold comes back, and is escaped as the format says and no further.
func TestManifestStrings(t *testing.T) {
	m := goldenManifest()
	m.Queue = "a\"\\/\b\f\n\r\t\x00\x1f\x7f<&>\u2028é😀"
	m.MinTS, m.MaxTS = nil, nil
	m.Lost = []Lost{{Partition: m.Queue, From: 9007199254740993, To: 1<<63 - 1}, {Partition: "p", From: 0, To: 0}}
	m.Objects = append(m.Objects, Object{Key: "z"})
	text := m.Append(nil)
	if want := `"queue":"a\"\\/\b\f\n\r\t\u0000\u001f` + "\x7f<&>\u2028é😀" + `","k":1`; !strings.Contains(string(text), want) {
		t.Errorf("no %s in\n%s", want, text)
	}
	got, err := ParseManifest(text)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(m, got); d != "" {
		t.Error(d)
	}
}

// Only the exact bytes of the writer are a manifest.
func TestManifestIsStrict(t *testing.T) {
	good := string(goldenManifest().Append(nil))
	for name, bad := range map[string]string{
		"empty": "", "newline": good + "\n", "cut": good[:len(good)-1], "space": strings.Replace(good, ":1,", ": 1,", 1),
		"more": strings.Replace(good, `"k":1`, `"k":1,"x":2`, 1), "order": strings.Replace(good, `"k":1,"tStart":1791007200000000`, `"tStart":1791007200000000,"k":1`, 1),
		"twice": strings.Replace(good, `"k":1`, `"k":2,"k":1`, 1), "fraction": strings.Replace(good, `"k":1`, `"k":1.0`, 1),
		"null": strings.Replace(good, `"lost":[]`, `"lost":null`, 1), "escape": strings.Replace(good, "orders", `\u006frders`, 1), "array": "[" + good + "]",
	} {
		if m, err := ParseManifest([]byte(bad)); err == nil {
			t.Errorf("%s: accepted as %+v", name, m)
		}
	}
}

// What ParseManifest accepts, Append writes back to the byte.
func FuzzParseManifest(f *testing.F) {
	f.Add(goldenManifest().Append(nil))
	f.Add([]byte(`{"sink":""}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseManifest(text)
		if err != nil {
			return
		}
		if got := m.Append(nil); string(got) != string(text) {
			t.Errorf("%q became %q", text, got)
		}
	})
}

func FuzzBodySeeks(f *testing.F) {
	f.Add([]byte("hello world"), 3, 5)
	f.Fuzz(func(t *testing.T, data []byte, size, at int) {
		if size < 1 || at < 0 || at > len(data) {
			return
		}
		b := newBody(chunked(data, size))
		if n, err := b.Seek(int64(at), 0); err != nil || n != int64(at) {
			t.Fatal(n, err)
		}
		var rest []byte
		buf := make([]byte, 3)
		for {
			n, err := b.Read(buf)
			rest = append(rest, buf[:n]...)
			if err != nil {
				break
			}
		}
		if string(rest) != string(data[at:]) {
			t.Errorf("from %d: %q, want %q", at, rest, data[at:])
		}
		if n, err := b.Seek(0, 1); err != nil || n != int64(len(data)) {
			t.Errorf("position %d, %v", n, err)
		}
	})
}
