package kv_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"queen/broker/command"
	"queen/broker/kv"
	"queen/internal/hostile"
)

func ptr[T any](v T) *T { return &v }

func TestParseBatch(t *testing.T) {
	for body, want := range map[string][]kv.Op{
		`{"operations":[]}`: {},
		` [] `:              {},
		`[{"op":"get","ns":"n","key":"a/b","unknown":1,"after":7}]`: {{Kind: kv.Get, NS: "n", Key: "a/b"}},
		`{"operations":[{"op":"getMany","ns":"n","keys":["b","a"]}],"x":1}`: {
			{Kind: kv.GetMany, NS: "n", Keys: []string{"b", "a"}}},
		`[{"op":"getPrefix","ns":"n","prefix":"p"},{"op":"getPrefix","ns":"n","prefix":"p","limit":0,"after":"p1","keysOnly":true},{"op":"getPrefix","ns":"n","prefix":"p","limit":5000,"after":null}]`: {
			{Kind: kv.GetPrefix, NS: "n", Key: "p", Limit: 100},
			{Kind: kv.GetPrefix, NS: "n", Key: "p", Limit: 1, After: ptr("p1"), KeysOnly: true},
			{Kind: kv.GetPrefix, NS: "n", Key: "p", Limit: 1000}},
		`[{"op":"put","ns":"queen-s3","key":"k","value": { "b" : 42.00 , "a": [1e400 ,"<&\u2028"] },"ttlSeconds":30,"expect":812,"required":true}]`: {
			{Kind: kv.Put, NS: "queen-s3", Key: "k", Value: []byte(`{"b":42.00,"a":[1e400,"<&\u2028"]}`), TTL: 30_000_000, Expect: ptr(uint64(812)), Required: true}},
		`[{"op":"put","ns":"n","key":"k","value":null,"forever":true,"ttlSeconds":null,"expect":null,"required":null}]`: {
			{Kind: kv.Put, NS: "n", Key: "k", Value: []byte(`null`), Forever: true}},
		`[{"op":"putIfAbsent","ns":"n","key":"k","value":1,"ttlSeconds":1,"forever":false}]`: {
			{Kind: kv.PutIfAbsent, NS: "n", Key: "k", Value: []byte(`1`), TTL: 1_000_000}},
		`[{"op":"delete","ns":"n","key":"k","expect":0}]`: {{Kind: kv.Delete, NS: "n", Key: "k", Expect: ptr(uint64(0))}},
		`[{"op":"incr","ns":"n","key":"k","delta":-1,"min":-5,"max":9,"forever":true}]`: {
			{Kind: kv.Incr, NS: "n", Key: "k", Delta: -1, Min: ptr(int64(-5)), Max: ptr(int64(9)), Forever: true}},
		`[{"op":"check","ns":"n","key":"k","expect":3},{"op":"put","ns":"n","key":"k","value":"ö","forever":true}]`: {
			{Kind: kv.Check, NS: "n", Key: "k", Expect: ptr(uint64(3))},
			{Kind: kv.Put, NS: "n", Key: "k", Value: []byte(`"ö"`), Forever: true}},
	} {
		got, err := kv.ParseBatch([]byte(body))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", body, err, diff)
		}
	}
}

// many is a list of n times the same.
func many(n int, op string) string { return "[" + strings.Repeat(op+",", n-1) + op + "]" }

// value is the text of the longest string that a document may hold.
func value() string { return strings.Repeat("a", kv.MaxValue-2) }

func TestParseBatchRefuses(t *testing.T) {
	op := func(fields string) string {
		return `[{"op":"put","ns":"n","key":"k","value":1,"forever":true` + fields + `}]`
	}
	for _, tc := range []struct{ body, reason string }{
		{``, kv.BadBody}, {`7`, kv.BadBody}, {`null`, kv.BadBody}, {`{}`, kv.BadBody}, {`{"operations":{}}`, kv.BadBody},
		{`{"operations":null}`, kv.BadBody}, {`[1]`, kv.BadBody}, {`[null]`, kv.BadBody}, {`[]x`, kv.BadBody}, {"[\"\xff\"]", kv.BadBody},
		{`[{}]`, kv.UnknownOp}, {`[{"op":"x"}]`, kv.UnknownOp}, {`[{"op":7}]`, kv.UnknownOp}, {`[{"op":"Get","ns":"n","key":"k"}]`, kv.UnknownOp},
		{`[{"op":"get","key":"k"}]`, kv.BadNamespace}, {`[{"op":"get","ns":"N","key":"k"}]`, kv.BadNamespace},
		{`[{"op":"get","ns":".n","key":"k"}]`, kv.BadNamespace}, {`[{"op":"get","ns":"` + strings.Repeat("n", 65) + `","key":"k"}]`, kv.BadNamespace},
		{`[{"op":"get","ns":7,"key":"k"}]`, kv.BadNamespace}, {`[{"op":"get","ns":"n","Key":"k"}]`, kv.BadKey},
		{`[{"op":"get","ns":"n"}]`, kv.BadKey}, {`[{"op":"get","ns":"n","key":""}]`, kv.BadKey}, {`[{"op":"get","ns":"n","key":"a\u0000"}]`, kv.BadKey},
		{`[{"op":"get","ns":"n","key":"` + strings.Repeat("k", 513) + `"}]`, kv.BadKey},
		{`[{"op":"get","ns":"n","key":"` + strings.Repeat("k", 475) + `"}]`, kv.BadKey},
		{`[{"op":"getMany","ns":"n","keys":["a",""]}]`, kv.BadKey}, {`[{"op":"getMany","ns":"n"}]`, kv.BadBody}, {`[{"op":"getMany","ns":"n","keys":"a"}]`, kv.BadBody},
		{`[{"op":"getPrefix","ns":"n"}]`, kv.PrefixRequired}, {`[{"op":"getPrefix","ns":"n","prefix":""}]`, kv.PrefixRequired},
		{`[{"op":"getPrefix","ns":"n","prefix":"p","limit":1.5}]`, kv.BadBody}, {`[{"op":"getPrefix","ns":"n","prefix":"p","keysOnly":1}]`, kv.BadBody},
		{`[{"op":"put","ns":"n","key":"k","value":1}]`, kv.ExpiryNotGiven}, {`[{"op":"put","ns":"n","key":"k","value":1,"forever":false}]`, kv.ExpiryNotGiven},
		{`[{"op":"incr","ns":"n","key":"k","delta":1}]`, kv.ExpiryNotGiven}, {`[{"op":"put","ns":"n","key":"k","forever":true}]`, kv.BadBody},
		{op(`,"ttlSeconds":1`), kv.BadTTL}, {op(`,"ttlSeconds":0`), kv.BadTTL}, {op(`,"ttlSeconds":-1`), kv.BadTTL}, {op(`,"ttlSeconds":1.5`), kv.BadTTL},
		{op(`,"ttlSeconds":"1"`), kv.BadTTL}, {`[{"op":"put","ns":"n","key":"k","value":1,"ttlSeconds":9223372036854775807}]`, kv.BadTTL},
		{`[{"op":"put","ns":"n","key":"k","value":1,"forever":1}]`, kv.BadTTL},
		{op(`,"expect":-1`), kv.BadExpect}, {op(`,"expect":1.0`), kv.BadExpect}, {op(`,"expect":"1"`), kv.BadExpect}, {op(`,"required":"x"`), kv.BadBody},
		{`[{"op":"check","ns":"n","key":"k"}]`, kv.BadExpect}, {`[{"op":"incr","ns":"n","key":"k","delta":1,"forever":true,"expect":1}]`, kv.BadExpect},
		{`[{"op":"putIfAbsent","ns":"n","key":"k","value":1,"forever":true,"expect":1}]`, kv.BadExpect},
		{`[{"op":"incr","ns":"n","key":"k","forever":true}]`, kv.BadBody}, {`[{"op":"incr","ns":"n","key":"k","forever":true,"delta":1.5}]`, kv.BadBody},
		{`[{"op":"incr","ns":"n","key":"k","forever":true,"delta":1,"min":2,"max":1}]`, kv.BadBody},
		{op(`,"tenant":"t"`), kv.TenantNotAnInput}, {op(`,"tenantId":null`), kv.TenantNotAnInput},
		{many(257, `{"op":"get","ns":"n","key":"k"}`), kv.TooManyOps},
		{`[{"op":"getMany","ns":"n","keys":` + many(1024, `"a"`) + `},{"op":"getMany","ns":"n","keys":["a"]}]`, kv.TooManyKeys},
		{`[{"op":"delete","ns":"n","key":"k"},{"op":"incr","ns":"n","key":"k","delta":1,"forever":true}]`, kv.DuplicateKey},
		{`[{"op":"put","ns":"n","key":"k","forever":true,"value":"` + value() + `x"}]`, kv.ValueTooLarge},
	} {
		ops, err := kv.ParseBatch([]byte(tc.body))
		var refused *kv.Error
		if !errors.As(err, &refused) || refused.Reason != tc.reason || refused.Detail == "" || ops != nil {
			t.Errorf("%.120s: %v, want %s", tc.body, err, tc.reason)
			continue
		}
		status, code := 400, kv.CodeBadRequest
		if tc.reason == kv.ValueTooLarge {
			status, code = 413, kv.CodeTooLarge
		}
		if refused.Status != status || refused.Code != code {
			t.Errorf("%.120s: status %d, code %s", tc.body, refused.Status, refused.Code)
		}
	}
}

// TestParseBatchEdges: what lies exactly at a limit is accepted.
func TestParseBatchEdges(t *testing.T) {
	for _, body := range []string{
		many(256, `{"op":"get","ns":"n","key":"k"}`),
		`[{"op":"getMany","ns":"n","keys":` + many(1024, `"a"`) + `}]`,
		`[{"op":"put","ns":"n","key":"k","forever":true,"value":   "` + value() + `"  }]`,
		`[{"op":"get","ns":"n","key":"` + strings.Repeat("k", 474) + `"}]`,
		`[{"op":"delete","ns":"n","key":"k"},{"op":"delete","ns":"m","key":"k"},{"op":"get","ns":"n","key":"k"}]`,
	} {
		if _, err := kv.ParseBatch([]byte(body)); err != nil {
			t.Errorf("%.80s: %v", body, err)
		}
	}
}

// TestOffsets: a body that is not JSON is refused with the place of the fault.
func TestOffsets(t *testing.T) {
	for body, place := range map[string]string{"[{\"op\":\xff}]": "byte 7", `[{"op":}]`: "byte 8"} {
		if _, err := kv.ParseBatch([]byte(body)); err == nil || !strings.Contains(err.Error(), place) {
			t.Errorf("%q: %v, want %s", body, err, place)
		}
	}
}

func TestKindNames(t *testing.T) {
	for k := kv.Get; k <= kv.Check; k++ {
		if got, ok := kv.KindOf(k.String()); got != k || !ok {
			t.Errorf("%v: %v", k, got)
		}
	}
	for _, name := range []string{"", "unknown", fmt.Sprint(kv.Kind(9))} {
		if _, ok := kv.KindOf(name); ok {
			t.Errorf("%q is a kind", name)
		}
	}
}

// FuzzParseBatch: what is accepted is JSON and UTF-8, passes Validate, and goes through the log unchanged: its encoded form is read back as
// the same operations. Parsing allocates a bounded multiple of the body.
func FuzzParseBatch(f *testing.F) {
	f.Add([]byte(`{"operations":[{"op":"put","ns":"n","key":"k","value":{"a":1},"ttlSeconds":3,"expect":1,"required":true}]}`))
	f.Add([]byte(`[{"op":"getMany","ns":"n","keys":["a"]},{"op":"getPrefix","ns":"n","prefix":"p","after":"q","limit":3}]`))
	f.Add([]byte(`[{"op":"incr","ns":"n","key":"k","delta":1,"min":0,"max":3,"forever":true},{"op":"check","ns":"n","key":"c","expect":0}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var ops []kv.Op
		var err error
		hostile.Bounded(t, len(body), 512, func() { ops, err = kv.ParseBatch(body) })
		if err != nil {
			return
		}
		if err := kv.Validate(ops); err != nil || !json.Valid(body) || !utf8.Valid(body) {
			t.Fatalf("%q: %v", body, err)
		}
		encoded := command.KV{Ops: ops}.Append(nil)
		back, err := command.DecodeKV(encoded)
		if err != nil || len(back.Ops) != len(ops) || !bytes.Equal(back.Append(nil), encoded) {
			t.Fatalf("%q became %+v, which is read back as %+v, %v", body, ops, back.Ops, err)
		}
		for i, op := range ops {
			if len(op.Value) > 0 && (!json.Valid(op.Value) || bytes.ContainsAny(op.Value, "\r\n")) {
				t.Fatalf("operation %d of %q has the value %q", i, body, op.Value)
			}
		}
	})
}

// A key that holds half a surrogate pair has no UTF-8 form; decoded as U+FFFD it would be the same key as another one.
func TestHalfPair(t *testing.T) {
	for text, want := range map[string]bool{
		`"a"`: false, `"\u0041"`: false, `"\ud83d\ude00"`: false, `"\\ud800"`: false, `"\\\ud800"`: true, `"\ud83d\ude00\ud83d"`: true,
		`"\ude00\ud83d"`: true, `"\ud83dx\ude00"`: true, `"\ud83d\ud83d\ude00"`: true, `"\uFFFD"`: false, `"\n\udbff"`: true,
	} {
		for _, op := range []string{`"op":"get","key":` + text, `"op":"getMany","keys":["a",` + text + `]`, `"op":"getPrefix","prefix":` + text,
			`"op":"getPrefix","prefix":"a","after":` + text} {
			_, err := kv.ParseBatch([]byte(`[{"ns":"n",` + op + `}]`))
			if refused := err != nil && strings.Contains(err.Error(), "half a surrogate pair"); refused != want || (err != nil) != want {
				t.Errorf("%s: %v", op, err)
			}
		}
	}
	ops, err := kv.ParseBatch([]byte(`[{"op":"put","ns":"n","key":"\ud83d\ude00","value":"\ud800","forever":true}]`))
	if err != nil || ops[0].Key != "😀" || string(ops[0].Value) != `"\ud800"` {
		t.Errorf("%+v %v", ops, err)
	}
}
