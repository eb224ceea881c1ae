package commit

import (
	"encoding/json"
	"testing"

	"queen/stages"
)

// FuzzLease: whatever stands in a lease row, somebody holds it; what was read says the same when it is written again, as this package writes
// it; and a store that compacts what it is given shows the same row.
func FuzzLease(f *testing.F) {
	f.Add([]byte(`{"instance":"node-1","incarnation":"0123456789abcdef","sinceMs":1790935200000}`))
	f.Add([]byte(`{"instance":"","incarnation":null}`))
	f.Add([]byte(`{"instance":7}`))
	f.Add([]byte(` {"instance":"a\u0000\ud800","sinceMs":-1,"more":[]} `))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, row []byte) {
		doc := parseLease(row)
		if doc.Instance == "" {
			t.Fatalf("%q is held by nobody", row)
		}
		text, err := stages.MarshalRow(doc)
		if err != nil {
			t.Fatal(err)
		}
		if again := parseLease(text); again != doc {
			t.Fatalf("%q is read as %+v, and then as %+v", row, doc, again)
		}
		if json.Valid(row) && !sameJSON(row, row) || !sameJSON(text, append([]byte(" "), text...)) {
			t.Fatalf("%q is not what it is", row)
		}
	})
}
