package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"queen/test/harness"
)

// fetched is one record of a fetch answer; the payload is its text.
type fetched struct {
	Offset        int64
	TransactionID string `json:"transactionId"`
	TS            string
	Payload       json.RawMessage
}

// fetchAll reads a partition from offset 0 to its end.
func fetchAll(t *testing.T, b *harness.Broker, queue, partition string) []fetched {
	t.Helper()
	var all []fetched
	for next := int64(0); ; {
		body, err := json.Marshal(map[string]any{"entries": []any{map[string]any{"queue": queue, "partition": partition, "offset": next, "maxBytes": 8 << 20}}})
		if err != nil {
			t.Fatal(err)
		}
		status, out, err := b.Do("POST", "/api/v1/fetch", body)
		if err != nil || status != 200 {
			t.Fatalf("fetch: %d %s %v", status, out, err)
		}
		var answer struct {
			Entries []struct {
				Records       []fetched
				HighWatermark int64
				Error         string
			}
		}
		if err := json.Unmarshal(out, &answer); err != nil || len(answer.Entries) != 1 {
			t.Fatalf("fetch answer: %v: %s", err, out)
		}
		e := answer.Entries[0]
		if e.Error != "" {
			t.Fatalf("fetch %s/%s at %d: %s", queue, partition, next, e.Error)
		}
		for _, r := range e.Records {
			if r.Offset != next {
				t.Fatal(fmt.Errorf("fetch %s/%s: offset %d where %d was due", queue, partition, r.Offset, next))
			}
			next++
		}
		all = append(all, e.Records...)
		if next >= e.HighWatermark {
			return all
		}
	}
}
