package kv_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"queen/broker/kv"
	"queen/stages"
)

// TestApply runs the transcripts. Commands: batch (arguments now and led in µs, tenant; the body is the HTTP form), fill,
// sweep, find, list and dump.
func TestApply(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		tx := newMemTx()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return run(t, tx, d)
		})
	})
}

func run(t *testing.T, tx *memTx, d *datadriven.TestData) string {
	var now, led, count, size, limit int
	tenant, ns, key := 1, "n", ""
	d.MaybeScanArgs(t, "now", &now)
	d.MaybeScanArgs(t, "led", &led)
	d.MaybeScanArgs(t, "tenant", &tenant)
	d.MaybeScanArgs(t, "count", &count)
	d.MaybeScanArgs(t, "size", &size)
	d.MaybeScanArgs(t, "limit", &limit)
	d.MaybeScanArgs(t, "key", &key)
	id, at, life := [16]byte{byte(tenant)}, stages.Micros(now), stages.Micros(led)
	switch d.Cmd {
	case "batch":
		ops, err := kv.ParseBatch([]byte(d.Input))
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		out, err := kv.Apply(tx, id, at, life, ops)
		if err != nil {
			return err.Error()
		}
		return show(out)
	case "fill":
		for i := range count {
			op := kv.Op{Kind: kv.Put, NS: ns, Key: fmt.Sprintf("f%04d", i), Value: bytes.Repeat([]byte("1"), size), TTL: 1}
			if _, err := kv.Apply(tx, id, at, life, []kv.Op{op}); err != nil {
				return err.Error()
			}
		}
		return ""
	case "sweep":
		before := len(tx.rows)
		if err := kv.Sweep(tx, life); err != nil {
			return err.Error()
		}
		next, err := kv.NextExpiry(tx)
		return fmt.Sprintf("%d rows removed, next %d, %v\n", before-len(tx.rows), next, err)
	case "find":
		row, ok, err := kv.Find(tx, id, at, life, ns, key)
		return fmt.Sprintf("%v %v %v\n", showRow(row), ok, err)
	case "list":
		rows, more, err := kv.List(tx, id, at, life, ns, key, limit)
		return fmt.Sprintf("%s more=%v %v\n", show(kv.Outcome{Results: []kv.Result{{Kind: kv.GetPrefix, Rows: rows}}}), more, err)
	case "dump":
		return tx.dump()
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return ""
}

// TestReadsAreBounded: the multi-key reads of a batch return 4 MiB together, at least one row, and say that there is more.
func TestReadsAreBounded(t *testing.T) {
	tx := newMemTx()
	var keys []string
	for i := range 100 {
		key := fmt.Sprintf("k%03d", i)
		keys = append(keys, key)
		op := kv.Op{Kind: kv.Put, NS: "n", Key: key, Value: bytes.Repeat([]byte("1"), kv.MaxValue), Forever: true}
		if _, err := kv.Apply(tx, [16]byte{}, 1, 1, []kv.Op{op}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := kv.Apply(tx, [16]byte{}, 1, 1, []kv.Op{
		{Kind: kv.GetMany, NS: "n", Keys: keys[:40]},
		{Kind: kv.GetPrefix, NS: "n", Key: "k", Limit: 1000},
		{Kind: kv.GetPrefix, NS: "n", Key: "k", Limit: 1000},
	})
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, r := range out.Results {
		for _, row := range r.Rows {
			total += len(row.Key) + len(row.Value)
		}
	}
	first, second, third := out.Results[0], out.Results[1], out.Results[2]
	if len(first.Rows) != 40 || first.Truncated || len(second.Rows) == 0 || !second.Truncated || !third.Truncated {
		t.Errorf("rows %d %d %d", len(first.Rows), len(second.Rows), len(third.Rows))
	}
	if total > kv.MaxRead || total < kv.MaxRead-2*kv.MaxValue {
		t.Errorf("%d bytes returned, want just under %d", total, kv.MaxRead)
	}
}

// TestInvariants runs random batches and checks after each: a lost batch changes nothing; every expiry row has its document
// and the other way round; versions on one key strictly rise, also over deletes; the same batch on the same rows gives the
// same outcome.
func TestInvariants(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	tx, twin := newMemTx(), newMemTx()
	newest := make(map[string]uint64)
	now, led, lost := stages.Micros(1), stages.Micros(0), 0
	for round := range 5000 {
		now += stages.Micros(rng.IntN(5) + 1)
		led += stages.Micros(rng.IntN(3))
		ops := randomBatch(rng, newest)
		before := maps.Clone(tx.rows)
		out, err := kv.Apply(tx, [16]byte{1}, now, led, ops)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		again, err := kv.Apply(twin, [16]byte{1}, now, led, ops)
		if err != nil || show(again) != show(out) || !maps.Equal(tx.rows, twin.rows) || tx.next != twin.next {
			t.Fatalf("round %d: a second run differs: %v", round, err)
		}
		if out.Lost != nil {
			lost++
			if !maps.Equal(before, tx.rows) {
				t.Fatalf("round %d: a lost batch changed rows", round)
			}
		}
		checkVersions(t, ops, out, newest)
		if rng.IntN(10) == 0 {
			if err := kv.Sweep(tx, led); err != nil {
				t.Fatal(err)
			}
			if err := kv.Sweep(twin, led); err != nil {
				t.Fatal(err)
			}
		}
		checkExpiryRows(t, tx)
	}
	if lost < 100 || lost > 4900 {
		t.Errorf("%d of 5000 batches lost: the test tells little", lost)
	}
}

func randomBatch(rng *rand.Rand, newest map[string]uint64) (ops []kv.Op) {
	for _, k := range rng.Perm(6)[:1+rng.IntN(3)] {
		op := kv.Op{Kind: kv.Kind(1 + rng.IntN(8)), NS: "n", Key: fmt.Sprintf("k%d", k), Required: rng.IntN(4) == 0}
		switch op.Kind {
		case kv.GetMany:
			op.Keys, op.Key = []string{"k3", "k0"}, ""
		case kv.GetPrefix:
			op.Key, op.Limit = "k", 1+rng.IntN(6)
		case kv.Put, kv.Delete, kv.Check:
			if rng.IntN(2) == 0 || op.Kind == kv.Check {
				v := newest[op.Key] * uint64(rng.IntN(2))
				op.Expect = &v
			}
		}
		if op.Kind.Expires() {
			op.Value, op.Delta = []byte("7"), 1
			if op.Forever = rng.IntN(3) == 0; !op.Forever {
				op.TTL = stages.Micros(1 + rng.IntN(8))
			}
		}
		ops = append(ops, op)
	}
	return ops
}

func checkVersions(t *testing.T, ops []kv.Op, out kv.Outcome, newest map[string]uint64) {
	t.Helper()
	for i, r := range out.Results {
		if !ops[i].Kind.Writes() || !r.Applied || ops[i].Kind == kv.Delete {
			continue
		}
		if r.Version <= newest[r.Key] {
			t.Fatalf("key %s: version %d after %d", r.Key, r.Version, newest[r.Key])
		}
		newest[r.Key] = r.Version
	}
}

func checkExpiryRows(t *testing.T, tx *memTx) {
	t.Helper()
	want, got := 0, 0
	for k, v := range tx.rows {
		switch {
		case k[0] == 'X':
			got++
		case v[9:17] != "\x7f\xff\xff\xff\xff\xff\xff\xff":
			want++
			if _, ok := tx.rows["X"+v[9:17]+k[1:]]; !ok {
				t.Fatalf("document %q has no expiry row", k)
			}
		}
	}
	if want != got {
		t.Fatalf("%d expiry rows for %d documents that expire", got, want)
	}
}

func TestDamagedRow(t *testing.T) {
	for _, row := range []string{"", "\x02" + strings.Repeat("x", 30), "\x01short"} {
		tx := newMemTx()
		if _, err := kv.Apply(tx, [16]byte{1}, 1, 1, []kv.Op{{Kind: kv.Put, NS: "n", Key: "k", Value: []byte("1"), Forever: true}}); err != nil {
			t.Fatal(err)
		}
		for k := range tx.rows {
			tx.rows[k] = row
		}
		for _, op := range []kv.Op{{Kind: kv.Get, NS: "n", Key: "k"}, {Kind: kv.GetMany, NS: "n", Keys: []string{"k"}}, {Kind: kv.GetPrefix, NS: "n", Key: "k", Limit: 1}} {
			if _, err := kv.Apply(tx, [16]byte{1}, 1, 1, []kv.Op{op}); err == nil {
				t.Errorf("%v of row %q: no error", op.Kind, row)
			}
		}
	}
}

func TestFormatTime(t *testing.T) {
	for micros, want := range map[stages.Micros]string{
		0:                     "1970-01-01T00:00:00+00:00",
		1_760_000_000_000_000: "2025-10-09T08:53:20+00:00",
		1_760_000_000_120_000: "2025-10-09T08:53:20.12+00:00",
		1_760_000_000_123_456: "2025-10-09T08:53:20.123456+00:00",
		1_760_000_000_000_001: "2025-10-09T08:53:20.000001+00:00",
	} {
		if got := kv.FormatTime(micros); got != want {
			t.Errorf("%d: %s, want %s", micros, got, want)
		}
	}
}
