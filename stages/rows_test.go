package stages_test

import (
	"fmt"
	"strings"
	"testing"

	"queen/stages"
)

// What commit and the broker read in the sink's rows, and what they refuse: both by this one reader.
func TestRows(t *testing.T) {
	pointer := func(text string) (string, error) {
		p, err := stages.ParsePointer([]byte(text))
		return fmt.Sprintf("k=%d end=%d", p.K, p.End), err
	}
	start := func(text string) (string, error) {
		at, err := stages.ParseStart([]byte(text))
		if at == stages.Beginning {
			return "beginning", err
		}
		return fmt.Sprint(at), err
	}
	intent := func(text string) (string, error) {
		in, err := stages.ParseIntent([]byte(text))
		return strings.TrimSpace(fmt.Sprintf("k=%d [%d, %d) %s", in.K, in.Start, in.End, in.Unknown)), err
	}
	const iso = `"2026-11-29T10:00:00.000005Z"`
	for _, c := range []struct {
		read func(string) (string, error)
		row  string
		want string // of a row that is read
		err  string // of one that is not
	}{
		{pointer, `{"k":7,"tEnd":` + iso + `,"manifest":"m","records":1,"bytes":2,"committedAtMs":3}`, "k=7 end=1795946400000005", ""},
		{pointer, `{"k":7,"tEnd":-900,"newer":[1]}`, "k=7 end=-900", ""},
		{pointer, `{"k":7,"tEnd":null}`, "", "tEnd is missing"},
		{pointer, `{"k":7}`, "", "tEnd is missing"},
		{pointer, `{"tEnd":1}`, "", "k is missing"},
		{pointer, `{"K":7,"tEnd":1}`, "", "k is missing"},
		{pointer, `{"k":0,"tEnd":1}`, "", "counted from 1"},
		{pointer, `{"k":-1,"tEnd":1}`, "", "k: "},
		{pointer, `{"k":7,"tEnd":"2026-11-29T10:00:00Z"}`, "", "want YYYY"},
		{pointer, `{"k":7,"tEnd":"2026-11-29T10:00:00.000005+01:00"}`, "", "want YYYY"},
		{pointer, `{"k":7,"tEnd":"soon"}`, "", "want YYYY"},
		{pointer, `{"k":7,"tEnd":1.5}`, "", "tEnd: "},
		{pointer, `{"k":7,"tEnd":1,"records":"many"}`, "", "records: "},
		{pointer, `null`, "", "no JSON object"},
		{pointer, `nonsense`, "", "no JSON object"},

		{start, `{"start":"earliest"}`, "beginning", ""},
		{start, `{"start":"latest","t":17}`, "17", ""},
		{start, `{"start":"latest"}`, "", "t is missing"},
		{start, `{"start":"latest","t":null}`, "", "t is missing"},
		{start, `{"start":"earliest","t":17}`, "", "neither"},
		{start, `{"start":"somewhere","t":17}`, "", "neither"},
		{start, `{"t":17}`, "", "start is missing"},
		{start, `[]`, "", "no JSON object"},

		{intent, `{"k":1,"tStart":2,"tEnd":3,"from":2,"at":"x","format":"jsonl","compression":"zstd","level":3,"layout":"merged","align":"hour",` +
			`"prefix":"p","bucket":"b","endpoint":"e","writer":"w","encoder":"c","key":"f","notBefore":4}`, "k=1 [2, 3)", ""},
		{intent, `{"k":1,"tStart":2,"tEnd":3}`, "k=1 [2, 3)", ""},
		{intent, `{"k":1,"tStart":2,"tEnd":3,"dictionary":"d"}`, `k=1 [2, 3) its member "dictionary"`, ""},
		{intent, `{"k":1,"tStart":2,"tEnd":3,"Format":"jsonl"}`, `k=1 [2, 3) its member "Format"`, ""},
		{intent, `{"k":1,"tStart":2,"tEnd":3,"format":["a","b"]}`, `k=1 [2, 3) what its member "format" holds`, ""},
		{intent, `{"k":1,"tStart":2,"tEnd":3,"from":"the beginning"}`, `k=1 [2, 3) what its member "from" holds`, ""},
		{intent, `{"k":1,"tStart":null,"tEnd":3}`, "", "tStart is missing"},
		{intent, `{"k":1,"tStart":2}`, "", "tEnd is missing"},
		{intent, `{"k":"one","tStart":2,"tEnd":3}`, "", "k: "},
		{intent, `{"k":1,"tStart":2,"tEnd":3`, "", "no JSON object"},
		{intent, `17`, "", "no JSON object"},
	} {
		got, err := c.read(c.row)
		switch {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("%s: %s, %v, want %s", c.row, got, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %s, %v, want an error with %q", c.row, got, err, c.err)
		}
	}
}

// What is written is read back.
func TestRowsRoundTrip(t *testing.T) {
	from := stages.Micros(5)
	p := stages.Pointer{K: 9, End: 1795946400000005, Manifest: "a&b/9.json", Records: 3, Bytes: 4, CommittedAtMs: 5}
	text, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"k":9,"tEnd":"2026-11-29T10:00:00.000005Z","manifest":"a&b/9.json","records":3,"bytes":4,"committedAtMs":5}`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	if got, err := stages.ParsePointer(text); err != nil || got != p {
		t.Errorf("%+v, %v", got, err)
	}
	in := stages.Intent{K: 9, Start: 5, End: 7, From: &from, At: "at", Format: "f", Compression: "c", Level: 3, Layout: "l", Align: "a",
		Prefix: "p", Bucket: "b", Endpoint: "e", Writer: "w", Encoder: "n", NotBefore: 8}
	if text, err = stages.MarshalRow(in); err != nil {
		t.Fatal(err)
	}
	got, err := stages.ParseIntent(text)
	if err != nil || got.From == nil || *got.From != from {
		t.Fatalf("%+v, %v", got, err)
	}
	if got.From = in.From; got != in {
		t.Errorf("%+v, want %+v", got, in)
	}
	for _, at := range []stages.Micros{stages.Beginning, 0, 17} {
		if text, err = stages.MarshalRow(stages.StartAt(at, 7)); err != nil {
			t.Fatal(err)
		}
		if got, err := stages.ParseStart(text); err != nil || got != at {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
}

// Property: whatever stands in a row, reading it gives a value or an error and never a panic; and a pointer or an intent that was read says
// the same when its bounds are written as numbers.
func FuzzRows(f *testing.F) {
	f.Add([]byte(`{"k":7,"tEnd":"2026-10-03T06:37:37.501942Z","manifest":"m","records":3,"bytes":9,"committedAtMs":1}`))
	f.Add([]byte(`{"k":7,"tEnd":1791009458377855}`))
	f.Add([]byte(`{"k":-1,"tEnd":null}`))
	f.Add([]byte(`{"k":1,"tStart":2,"tEnd":3,"from":1,"format":"jsonl","notBefore":9,"new":{}}`))
	f.Add([]byte(`{"start":"latest","t":17}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := stages.ParsePointer(text); err == nil {
			again, err := stages.ParsePointer(fmt.Appendf(nil, `{"k":%d,"tEnd":%d}`, p.K, p.End))
			if err != nil || again.K != p.K || again.End != p.End {
				t.Errorf("%+v and %+v: %v", p, again, err)
			}
		}
		if in, err := stages.ParseIntent(text); err == nil {
			again, err := stages.ParseIntent(fmt.Appendf(nil, `{"k":%d,"tStart":%d,"tEnd":%d}`, in.K, in.Start, in.End))
			if err != nil || again.K != in.K || again.Start != in.Start || again.End != in.End || again.Unknown != "" {
				t.Errorf("%+v and %+v: %v", in, again, err)
			}
		}
		if at, err := stages.ParseStart(text); err == nil {
			row, err := stages.MarshalRow(stages.StartAt(at, 7))
			if err != nil {
				t.Fatal(err)
			}
			if again, err := stages.ParseStart(row); err != nil || again != at && at != stages.Beginning {
				t.Errorf("%d and %d: %v", at, again, err)
			}
		}
	})
}
