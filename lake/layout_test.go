package lake

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"testing"
)

// The partitions of the per-partition lake, in order, with their lines in window 1: one name that is escaped, one that is cut, and one that was deleted and
// made anew in the window.
var parts = []struct{ name, key, first, last, lines string }{
	{"a b", "a%20b-000000000000-000000000001", "0", "1",
		`{"partition":"a b","offset":0,"transactionId":"t0","ts":"2026-10-03T06:10:00.000000Z","payload":1}` + "\n" +
			`{"partition":"a b","offset":1,"transactionId":"t1","ts":"2026-10-03T06:10:00.000000Z","payload":2.50}` + "\n"},
	{"b", "b-000000000000-000000000009", "0", "9",
		`{"partition":"b","offset":9,"transactionId":"t9","ts":"2026-10-03T06:11:00.000000Z","payload":null}` + "\n" +
			`{"partition":"b","offset":0,"transactionId":"t0","ts":"2026-10-03T06:12:00.000000Z","payload":""}` + "\n"},
	{strings.Repeat("ж", 21), strings.Repeat("%D0%B6", 16) + "%D0%~918ca55c14a1ae16-999999999999-1000000000000", "999999999999", "1000000000000",
		`{"partition":"` + strings.Repeat("ж", 21) + `","offset":999999999999,"transactionId":"x","ts":"2026-10-03T06:00:00.000000Z","payload":[]}` + "\n" +
			`{"partition":"` + strings.Repeat("ж", 21) + `","offset":1000000000000,"transactionId":"y","ts":"2026-10-03T06:13:00.000000Z","payload":[]}` + "\n"},
}

const (
	stem1     = orders + "hour=06/w-0000000001-1791007200000000-1791009458377855"
	emptyMark = `"layout":"per-partition","objects":[],"records":0,"bytes":0,"partitions":0,"lost":[{"partition":"b","from":1,"to":4}]`
)

// partitioned is a lake of two windows in the per-partition layout; the second one holds nothing but what was lost.
func partitioned(t testing.TB) mem {
	m := mem{}
	var entries []string
	size := 0
	for _, p := range parts {
		key := stem1 + "-p-" + p.key + ".jsonl.zst"
		m[key] = packZstd(t, p.lines)
		size += len(m[key])
		entries = append(entries, fmt.Sprintf(`{"key":"%s","bytes":%d,"records":2,"sha256":"%x","partition":"%s","firstOffset":%s,"lastOffset":%s}`,
			key, len(m[key]), sha256.Sum256(m[key]), p.name, p.first, p.last))
	}
	head := `{"sink":"default","tenant":"` + tenant + `","queue":"orders","k":%d,"tStart":%s,"tEnd":%s,"format":"jsonl","compression":"zstd",`
	tail := `,"writer":"queen-s3/2.0.0 jsonl+zstd","committedAt":"2026-10-03T06:37:44.741000Z"}`
	m[sides+"0000000001.json"] = fmt.Appendf(nil, head+`"layout":"per-partition","objects":[%s],"records":6,"bytes":%d,"partitions":3,"minTs":1791007200000000,"maxTs":1791007980000000,"lost":[]`+tail,
		1, "1791007200000000", "1791009458377855", strings.Join(entries, ","), size)
	m[sides+"0000000002.json"] = fmt.Appendf(nil, head+emptyMark+tail, 2, "1791009458377855", "1791009500000000")
	return m
}

func TestPartitionedLake(t *testing.T) {
	for name, store := range stores(t, partitioned(t)) {
		s, faults := verify(t, store, Options{})
		if len(faults) > 0 || s.Windows != 2 || s.Objects != 3 || s.Records != 6 || s.Lost != 4 {
			t.Errorf("%s: %v\n%s", name, s, strings.Join(faults, "\n"))
		}
	}
	var out, list strings.Builder
	if s, err := Cat(t.Context(), partitioned(t), Options{Prefix: "queen"}, &out); err != nil || s.Records != 6 || out.String() != parts[0].lines+parts[1].lines+parts[2].lines {
		t.Errorf("%v %v\n%s", s, err, out.String())
	}
	if s, err := List(t.Context(), partitioned(t), Options{Prefix: "queen"}, &list); err != nil || s.Objects != 3 || s.Windows != 2 || strings.Count(list.String(), "\n") != 5 {
		t.Errorf("%v %v\n%s", s, err, list.String())
	}
}

// A queue whose windows hold nothing but what was lost has no object to read, and so no statement: a view of nothing is none.
func TestDDLWithoutObjects(t *testing.T) {
	for _, read := range []bool{false, true} {
		m := partitioned(t)
		if !read {
			for key := range m {
				if !strings.HasPrefix(key, sides+"0000000002") {
					delete(m, key)
				}
			}
		}
		for _, engine := range Engines() {
			var out strings.Builder
			if _, err := DDL(t.Context(), m, Options{Prefix: "queen"}, engine, Place{Bucket: "lake"}, &out); err != nil {
				t.Fatal(err)
			}
			if (out.Len() > 0) != read {
				t.Errorf("%s, objects: %v: %q", engine, read, out.String())
			}
		}
	}
}

// Each damage that only this layout can have is found, and named.
func TestPartitionedDamage(t *testing.T) {
	const side = sides + "0000000001.json"
	swap := func(from, to string) func(m mem) {
		return func(m mem) {
			if !bytes.Contains(m[side], []byte(from)) {
				panic("nothing to damage: " + from)
			}
			m[side] = bytes.Replace(m[side], []byte(from), []byte(to), 1)
		}
	}
	rename := func(from, to string) func(m mem) {
		return func(m mem) {
			key := stem1 + "-p-" + from + ".jsonl.zst"
			m[stem1+"-p-"+to+".jsonl.zst"] = m[key]
			delete(m, key)
			swap(key, stem1+"-p-"+to+".jsonl.zst")(m)
		}
	}
	for name, c := range map[string]struct {
		do   func(m mem)
		want string
	}{
		"object missing":          {func(m mem) { delete(m, stem1+"-p-"+parts[1].key+".jsonl.zst") }, "is named by the manifest of window 1 and is not there"},
		"object more":             {func(m mem) { m[stem1+"-p-c-000000000000-000000000000.jsonl.zst"] = nil }, "is named by no manifest"},
		"merged object beside":    {func(m mem) { m[stem1+".jsonl.zst"] = nil }, "is named by no manifest"},
		"stale range":             {func(m mem) { m[stem1+"-p-b-000000000004-000000000009.jsonl.zst"] = nil }, "is named by no manifest"},
		"other partition":         {swap(`"partition":"b"`, `"partition":"c"`), `line 1 is of partition "b", its object of "c"`},
		"first offset":            {swap(`"firstOffset":0,"lastOffset":9`, `"firstOffset":1,"lastOffset":9`), "has offsets from 0 to 9, its manifest says 1 to 9"},
		"last offset":             {swap(`"firstOffset":0,"lastOffset":9`, `"firstOffset":0,"lastOffset":8`), "has offsets from 0 to 9, its manifest says 0 to 8"},
		"offsets backwards":       {swap(`"firstOffset":0,"lastOffset":9`, `"firstOffset":9,"lastOffset":0`), "object 1 has offsets 9 to 0"},
		"key of other offsets":    {rename(parts[1].key, "b-000000000000-000000000010"), "is not the key of window 1, which is " + stem1 + "-p-" + parts[1].key},
		"key of other partition":  {rename(parts[1].key, "c-000000000000-000000000009"), "is not the key of window 1"},
		"key not cut":             {rename(parts[2].key, strings.Repeat("%D0%B6", 21)+"-999999999999-1000000000000"), "is not the key of window 1"},
		"key of other hash":       {rename(parts[2].key, strings.Replace(parts[2].key, "~9", "~8", 1)), "is not the key of window 1"},
		"short offset in key":     {rename(parts[1].key, "b-0-9"), "is not a key of a lake"},
		"no partition":            {swap(`,"partition":"b","firstOffset":0,"lastOffset":9`, ""), "object 1 does not name its partition"},
		"half a partition":        {swap(`"firstOffset":0,"lastOffset":9`, `"firstOffset":0`), "is not a manifest: object 1"},
		"other order of fields":   {swap(`"firstOffset":0,"lastOffset":9`, `"lastOffset":9,"firstOffset":0`), "is not written as a manifest is"},
		"layout says merged":      {swap("per-partition", "merged"), "a merged window has one"},
		"partitions":              {swap(`"partitions":3`, `"partitions":2`), "has 3 partitions, its manifest says 2"},
		"minTs":                   {swap(`"minTs":1791007200000000`, `"minTs":1791007200000001`), "its manifest says otherwise"},
		"objects in other order":  {func(m mem) { swapEntries(m, side) }, `object 1 of partition "a b" stands behind that of "b"`},
		"record in another":       {func(m mem) { m[stem1+"-p-"+parts[0].key+".jsonl.zst"] = packZstd(t, parts[0].lines+parts[1].lines) }, `is of partition "b", its object of "a b"`},
		"offset twice in windows": {swap(`"lost":[]`, `"lost":[{"partition":"b","from":4,"to":1}]`), "lost range 4 to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := partitioned(t)
			c.do(m)
			_, faults := verify(t, m, Options{})
			if !strings.Contains(strings.Join(faults, "\n"), c.want) {
				t.Errorf("want a fault with %q, got\n%s", c.want, strings.Join(faults, "\n"))
			}
		})
	}
	m := partitioned(t)
	delete(m, stem1+"-p-"+parts[1].key+".jsonl.zst")
	if _, err := Cat(t.Context(), m, Options{Prefix: "queen"}, io.Discard); err == nil {
		t.Error("cat says nothing of an object that is missing")
	}
}

// swapEntries lets the first two objects of a manifest change places.
func swapEntries(m mem, side string) {
	text := string(m[side])
	begin := strings.Index(text, `"objects":[`) + len(`"objects":[`)
	entries := strings.SplitAfterN(text[begin:], "},", 3)
	m[side] = []byte(text[:begin] + entries[1] + entries[0] + entries[2])
}
