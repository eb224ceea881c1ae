package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"queen/broker/command"
	"queen/broker/kv"
	"queen/stages"
)

// answered is a documents whose command is decoded into seen and answered with a fixed answer.
func answered(seen *command.KV, answer any, err error) *documents {
	d := &documents{propose: func(_ context.Context, kind command.Kind, body []byte) (any, error) {
		got, decodeErr := command.DecodeKV(body)
		if kind != command.KindKV || decodeErr != nil {
			return nil, errors.Join(errors.New("not a KV command"), decodeErr)
		}
		*seen = got
		return answer, err
	}}
	binary.BigEndian.PutUint64(d.tenant[8:], 1)
	return d
}

func TestBatchBecomesOneCommand(t *testing.T) {
	five := uint64(5)
	ops := []stages.Op{
		{Kind: stages.OpPut, Key: "lease", Value: []byte(`{ "a": 1.50, "b": "<x>" }`), TTL: 30 * time.Second, Expect: &five, Required: true},
		{Kind: stages.OpPutIfAbsent, Key: "start", Value: []byte(`{}`), Forever: true},
		{Kind: stages.OpDelete, Key: "old", Expect: &five},
		{Kind: stages.OpGet, Key: "one"},
		{Kind: stages.OpGetMany, Keys: []string{"b", "a"}},
		{Kind: stages.OpGetPrefix, Key: "s3:", Limit: 10},
	}
	out := &kv.Outcome{Results: []kv.Result{
		{Kind: kv.Put, Key: "lease", Applied: true, Value: []byte(`{}`), Version: 9},
		{Kind: kv.PutIfAbsent, Key: "start", Reason: "exists", Value: []byte(`1`), Version: 3},
		{Kind: kv.Delete, Key: "old", Applied: true, Value: []byte(`2`), Version: 5},
		{Kind: kv.Get, Key: "one", Found: true, Row: kv.Row{Key: "one", Value: []byte(`3`), Version: 4}},
		{Kind: kv.GetMany, Rows: []kv.Row{{Key: "a", Value: []byte(`4`), Version: 6}}, Missing: []string{"b"}},
		{Kind: kv.GetPrefix, Rows: []kv.Row{{Key: "s3:x", Value: []byte(`5`), Version: 7}}, Truncated: true},
	}}
	var seen command.KV
	got, lost, err := answered(&seen, out, nil).Batch(t.Context(), ops)
	if err != nil || lost != nil {
		t.Fatal(lost, err)
	}
	want := []stages.Result{
		{Applied: true, Row: stages.Row{Key: "lease", Value: []byte(`{}`), Version: 9}},
		{Reason: "exists", Row: stages.Row{Key: "start", Value: []byte(`1`), Version: 3}},
		{Applied: true}, // what was deleted is no row any more
		{Found: true, Row: stages.Row{Key: "one", Value: []byte(`3`), Version: 4}},
		{Rows: []stages.Row{{Key: "a", Value: []byte(`4`), Version: 6}}},
		{Rows: []stages.Row{{Key: "s3:x", Value: []byte(`5`), Version: 7}}, More: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("results\n%+v, want\n%+v", got, want)
	}
	first := seen.Ops[0]
	if len(seen.Ops) != 6 || first.NS != "queen-s3" || string(first.Value) != `{"a":1.50,"b":"<x>"}` || first.TTL != 30_000_000 || *first.Expect != 5 || !first.Required {
		t.Errorf("command %+v", seen.Ops)
	}
	if seen.Tenant[15] != 1 {
		t.Errorf("tenant %x", seen.Tenant)
	}
}

func TestLostBatch(t *testing.T) {
	var seen command.KV
	out := &kv.Outcome{Lost: &kv.Lost{FailedIndex: 1, Reason: "version", Version: 8, Value: []byte(`{}`)}}
	got, lost, err := answered(&seen, out, nil).Batch(t.Context(), []stages.Op{{Kind: stages.OpGet, Key: "a"}, {Kind: stages.OpGet, Key: "b"}})
	if want := (stages.Lost{Index: 1, Reason: "version", Version: 8, Value: []byte(`{}`)}); got != nil || err != nil || lost == nil || !reflect.DeepEqual(*lost, want) {
		t.Errorf("results %v, lost %+v, %v", got, lost, err)
	}
}

func TestBatchErrors(t *testing.T) {
	var seen command.KV
	ok := []stages.Op{{Kind: stages.OpGet, Key: "a"}}
	if _, _, err := answered(&seen, nil, stages.ErrUnclear).Batch(t.Context(), ok); !errors.Is(err, stages.ErrUnclear) {
		t.Errorf("unclear: %v", err)
	}
	if _, _, err := answered(&seen, "what", nil).Batch(t.Context(), ok); !errors.Is(err, stages.ErrUnclear) {
		t.Errorf("a strange answer: %v", err)
	}
	bad := map[string]stages.Op{
		"unknown kind":  {Kind: "append", Key: "a"},
		"whole seconds": {Kind: stages.OpPut, Key: "a", Value: []byte(`1`), TTL: 1500 * time.Millisecond},
		"value of":      {Kind: stages.OpPut, Key: "a", Value: []byte(`{`), Forever: true},
		"kv batch":      {Kind: stages.OpPut, Key: "a", Value: []byte(`1`)}, // neither a life nor for ever
	}
	for want, op := range bad {
		seen = command.KV{}
		_, _, err := answered(&seen, nil, nil).Batch(t.Context(), []stages.Op{op})
		if err == nil || errors.Is(err, stages.ErrUnclear) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if len(seen.Ops) != 0 {
			t.Errorf("%s: was proposed", want)
		}
	}
}

// TestApplied: rows are shown as this node has applied them, with the led time that they have left; one that ran out is not there.
func TestApplied(t *testing.T) {
	b := start(t, options(t, t.TempDir()))
	store, shown := b.KV(stages.DefaultTenant), b.Applied(stages.DefaultTenant)
	put := func(key string, ttl time.Duration) {
		t.Helper()
		_, lost, err := store.Batch(t.Context(), []stages.Op{{Kind: stages.OpPut, Key: key, Value: []byte(`{"a":1}`), TTL: ttl, Forever: ttl == 0}})
		if err != nil || lost != nil {
			t.Fatal(lost, err)
		}
	}
	put("s3:a", 30*time.Second)
	put("s3:b", 0)
	put("t", 0)
	rows, err := shown.Rows(t.Context(), []string{"s3:b", "none", "s3:a"})
	if err != nil || len(rows) != 2 || rows[0].Key != "s3:b" || rows[0].Left >= 0 || rows[1].Left <= 20*time.Second || rows[1].Left > 30*time.Second || string(rows[1].Value) != `{"a":1}` || rows[1].Version == 0 {
		t.Errorf("%+v, %v", rows, err)
	}
	rows, err = shown.Prefix(t.Context(), "s3:")
	if err != nil || len(rows) != 2 || rows[0].Key != "s3:a" || rows[1].Key != "s3:b" {
		t.Errorf("%+v, %v", rows, err)
	}
	results, _, err := store.Batch(t.Context(), []stages.Op{{Kind: stages.OpGetPrefix, Key: "s3:", Limit: 10, After: "s3:a"}})
	if err != nil || len(results) != 1 || len(results[0].Rows) != 1 || results[0].Rows[0].Key != "s3:b" {
		t.Errorf("after a key: %+v, %v", results, err)
	}
}
