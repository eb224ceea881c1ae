package api

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// TestIdleOptionsAreSaid: an option that is stored and does nothing yet is one line in the log each time it is set to something
// else than its default; encryption says what that means.
func TestIdleOptionsAreSaid(t *testing.T) {
	for options, want := range map[string][]string{
		`{}`: nil,
		`{"leaseTime":300,"retentionEnabled":false,"encryptionEnabled":false,"retentionSinkHold":""}`: nil, // defaults
		`{"leaseTime":null}`:         nil,
		`{"dedupWindowSeconds":60}`:  nil, // works
		`{"minPopWaitTime":-5}`:      nil, // clamped to the default
		`{"encryptionEnabled":true}`: {"encryptionEnabled: encryptionEnabled is on and this node has no QUEEN_ENCRYPTION_KEY: payloads are stored unencrypted"},
		`{"retentionEnabled":true,"retentionSeconds":60,"completedRetentionSeconds":5,"maxWaitTimeSeconds":7}`: {
			"completedRetentionSeconds: stored; has no effect in this version"},
		`{"retentionSinkHold":"lake","leaseTime":30}`: {
			"leaseTime: stored; has no effect in this version"},
	} {
		var lines bytes.Buffer
		f := newFixture(t, func(o *Options) { o.Log = zerolog.New(&lines) })
		for range 2 {
			f.ok(t, http.StatusOK, "POST", "/api/v1/configure", `{"queue":"orders","options":`+options+`}`)
		}
		var all strings.Builder
		for range 2 {
			for _, line := range want {
				option, text, _ := strings.Cut(line, ": ")
				fmt.Fprintf(&all, `{"level":"warn","queue":"orders","option":%q,"message":%q}`+"\n", option, text)
			}
		}
		if lines.String() != all.String() {
			t.Errorf("%s:\n%swant\n%s", options, lines.String(), all.String())
		}
	}
}
