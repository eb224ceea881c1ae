package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestWire replays testdata/wire: whole exchanges, one file one broker. `http` takes a request line, then the body; it prints
// status, the headers that mean something, and the answer.
func TestWire(t *testing.T) {
	datadriven.Walk(t, "testdata/wire", func(t *testing.T, path string) {
		f := newFixture(t, nil)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "http" {
				t.Fatalf("unknown command %s", d.Cmd)
			}
			line, body, _ := strings.Cut(d.Input, "\n")
			method, target, ok := strings.Cut(line, " ")
			if !ok {
				t.Fatalf("no request line in %q", d.Input)
			}
			w := f.do(method, target, []byte(body))
			var b strings.Builder
			fmt.Fprintf(&b, "%d", w.Code)
			for _, name := range []string{"Content-Type", "ETag", "Retry-After", "Allow"} {
				if v := w.Header().Values(name); len(v) > 0 && v[0] != "application/json" {
					fmt.Fprintf(&b, " %s: %s", name, strings.Join(v, ", "))
				}
			}
			return b.String() + "\n" + strings.TrimSuffix(w.Body.String(), "\n") + "\n"
		})
	})
}
