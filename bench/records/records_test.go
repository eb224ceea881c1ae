package records

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPayload(t *testing.T) {
	for _, size := range []int{MinPayload, 161, 256, 300, 1000} {
		for i := range uint64(2000) {
			p := AppendPayload(nil, i*7919, size)
			if len(p) != size || !json.Valid(p) {
				t.Fatalf("record %d of %d bytes has %d: %s", i, size, len(p), p)
			}
		}
	}
	if a, b := AppendPayload(nil, 5, 300), AppendPayload([]byte("x"), 5, 300); string(a) != string(b[1:]) {
		t.Error("the same record has two payloads")
	}
}

func TestTxID(t *testing.T) {
	seen := map[string]bool{}
	for run := range uint64(3) {
		for i := range uint64(10_000) {
			id := string(AppendTxID(nil, run, i))
			if len(id) != TxIDSize || strings.Count(id, "-") != 4 || seen[id] {
				t.Fatalf("run %d record %d: %s", run, i, id)
			}
			seen[id] = true
		}
	}
}
