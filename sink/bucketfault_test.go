package sink

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"queen/config"
	"queen/internal/fakes3"
)

// TestBucketFaults breaks the bucket for two minutes under a sink with the real client and a queue that is written to. While it is broken the lag grows, status
// says why in a sentence, and the memory of each failed window is given back; when it is whole again everything arrives once, and nothing is charged.
// test/e2e has the same with processes.
func TestBucketFaults(t *testing.T) {
	const data = "queen/tenant=*/*/*/*/*"
	ahead := time.Date(2000, 1, 1, 2, 0, 0, 0, time.UTC).Format(http.TimeFormat) // two hours: a bubble begins at midnight
	for _, f := range []struct {
		name, says string
		lag        float64 // seconds at least, at the end of it
		rule       fakes3.Rule
	}{
		{"down", "the connection was closed: EOF (check that http://fakes3.test can be reached from here)", 110, fakes3.Rule{Cut: fakes3.CutBefore}},
		{"busy", "503 SlowDown: Please reduce your request rate (the store wants fewer requests; it is asked again, more slowly)", 20,
			fakes3.Rule{Status: 503, Code: "SlowDown", Body: "Please reduce your request rate.", Pass: 10}},
		{"hangs", "no answer began within 1m0s (check that http://fakes3.test can be reached from here)", 110, fakes3.Rule{}},
		{"half-read bodies", "(check that http://fakes3.test can be reached from here)", 110, fakes3.Rule{Op: "put", Cut: fakes3.CutMid}},
		{"200 with an error", "500 InternalError: We encountered an internal error (the store or a proxy before it is busy or broken; it is asked again)", 110,
			fakes3.Rule{Op: "put", Key: data, Status: 200, Code: "InternalError", Body: "We encountered an internal error."}},
		{"wrong clock", "behind the store's; the store takes about 15 minutes: set this machine's clock, with NTP for example)", 110,
			fakes3.Rule{Status: 403, Code: "RequestTimeTooSkewed", Header: http.Header{"Date": {ahead}}}},
		{"wrong region", "(the bucket is in region eu-west-1, requests are signed for us-east-1: set the region and its endpoint)", 110,
			fakes3.Rule{Status: 301, Code: "PermanentRedirect", Header: http.Header{"X-Amz-Bucket-Region": {"eu-west-1"}}}},
		{"missing permission", "(the access key needs s3:PutObject on this bucket and prefix; a wrong secret or clock can look the same)", 110,
			fakes3.Rule{Op: "put", Status: 403, Code: "AccessDenied"}},
	} {
		t.Run(f.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.shared = NewShared(SharedOptions{Memory: 64 << 20, Threads: 1})
				l := w.start(func(c *config.Sink) { c.MaxWindow, c.SafeGuard = 2*time.Second, time.Second })
				stop := w.steady("orders")
				w.until(time.Minute, "a window", func() bool { return l.k("orders") > 0 })
				over := make(chan struct{})
				if f.name == "hangs" {
					f.rule.Hold = over
				}
				w.s3.Script(f.rule)
				worst, said, released := 0.0, false, false
				for begun := time.Now(); time.Since(begun) < 2*time.Minute; elapse(50 * time.Millisecond) {
					synctest.Wait()
					lag, _ := l.row("orders")["lagSeconds"].(float64)
					worst = max(worst, lag)
					said = said || strings.Contains(wordsOf(l), f.says)
					// A hanging request keeps its memory for a second attempt, since nobody waits for it here: TestP28OneDeadBucket has one who does.
					released = released || said && (w.shared.budget.Used() == 0 || f.name == "hangs")
				}
				if worst < f.lag || !said || !released {
					w.t.Errorf("lag up to %.0f s (want %v), said: %v, memory given back: %v; status: %s", worst, f.lag, said, released, wordsOf(l))
				}
				w.s3.Unscript()
				close(over)
				stop()
				w.until(10*time.Minute, "the backlog", func() bool { return w.complete(l, "orders") && l.report()["ok"] == true })
				w.exactly("orders")
				l.stop()
				if b := w.shared.budget; b.Used() != 0 || b.Waiting() {
					w.t.Errorf("%d bytes are charged", b.Used())
				}
			})
		})
	}
}

// wordsOf is what status says of a fault, of the bucket or of the queue.
func wordsOf(l *life) string {
	return fmt.Sprint(l.report()["bucket"].(map[string]any)["error"], "; ", l.row("orders")["lastError"])
}
