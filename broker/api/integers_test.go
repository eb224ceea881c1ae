package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A whole number that no float64 holds is answered as it was sent, whoever asks for it: as a payload, in a document, and as what a counter has come to.
func TestP60NoIntegerIsRounded(t *testing.T) {
	const beyond = 1<<53 + 1
	value := fmt.Sprintf(`{"n":%d}`, beyond)
	f := newFixture(t, nil)
	f.ok(t, http.StatusCreated, "POST", "/api/v1/push", fmt.Sprintf(`{"items":[{"queue":"q","payload":%s}]}`, value))
	if got := string(fetchOne(t, f, "q", "Default", 0)); got != value {
		t.Errorf("a payload: %s", got)
	}
	f.ok(t, http.StatusOK, "POST", "/api/v1/kv", fmt.Sprintf(`{"operations":[{"op":"put","ns":"n","key":"k","value":%s,"forever":true}]}`, value))
	for _, ask := range []string{
		f.ok(t, http.StatusOK, "GET", "/api/v1/kv/n/k", ""),
		f.ok(t, http.StatusOK, "POST", "/api/v1/kv", `{"operations":[{"op":"getPrefix","ns":"n","prefix":"k"}]}`),
	} {
		if !strings.Contains(ask, value) {
			t.Errorf("a document: %s", ask)
		}
	}
	f.ok(t, http.StatusOK, "POST", "/api/v1/kv", fmt.Sprintf(`{"operations":[{"op":"put","ns":"n","key":"c","value":%d,"forever":true}]}`, beyond-1))
	if got := f.ok(t, http.StatusOK, "POST", "/api/v1/kv", `{"operations":[{"op":"incr","ns":"n","key":"c","delta":1,"forever":true}]}`); !strings.Contains(got, fmt.Sprintf(`"value":%d,`, beyond)) {
		t.Errorf("a counter: %s", got)
	}
}
