package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"queen/test/harness"
)

// bucketFault is one way in which a bucket, or the way to it, does not do what it should.
type bucketFault struct {
	name  string
	fault harness.Fault
	says  string // what `/status` says of it
	lasts time.Duration
	lag   float64 // seconds: so far behind the queue is seen to be meanwhile
}

// bucketFaults are as long as it takes until they are said, and no setting shortens that: what may pass is tried again for up to 31 s before a window is
// given up, and what will not pass by itself is said at once. TestBucketFaults of package sink has two minutes of each, on simulated time, and the store that
// takes requests and answers none: that is said after one or two minutes, too long for here.
func bucketFaults() []bucketFault {
	const brief, long = 10 * time.Second, 40 * time.Second
	return []bucketFault{
		{"down", harness.Down, "(check that http://127.0.0.1:", long, 30},
		{"busy", harness.NineOfTen(), "503 SlowDown: Please reduce your request rate (the store wants fewer requests; it is asked again, more slowly)", long, 8},
		{"half-read bodies", harness.HalfRead, "(check that http://127.0.0.1:", long, 30},
		{"200 with an error", harness.Puts(harness.Refuse(200, "InternalError", "We encountered an internal error.", nil)),
			"500 InternalError: We encountered an internal error (the store or a proxy before it is busy or broken; it is asked again)", long, 30},
		{"wrong clock", harness.Refuse(403, "RequestTimeTooSkewed", "The difference is too large.", map[string]string{"Date": harness.Ahead(2 * time.Hour)}),
			"behind the store's; the store takes about 15 minutes: set this machine's clock, with NTP for example)", brief, 6},
		{"wrong region", harness.Refuse(301, "PermanentRedirect", "Use another endpoint.", map[string]string{"X-Amz-Bucket-Region": "eu-west-1"}),
			"(the bucket is in region eu-west-1, requests are signed for us-east-1: set the region and its endpoint)", brief, 6},
		{"missing permission", harness.Puts(harness.Refuse(403, "AccessDenied", "Access Denied", nil)),
			"403 AccessDenied: Access Denied (the access key needs s3:PutObject on this bucket and prefix; a wrong secret or clock can look the same)", brief, 6},
		{"manifests alone", harness.Under("/_queen/", harness.Puts(harness.Refuse(403, "AccessDenied", "Access Denied", nil))), // the object is there, and its window is not
			"windows/0000000002.json: 403 AccessDenied: Access Denied (the access key needs s3:PutObject", brief, 6},
	}
}

// TestBucketFaults breaks the way to a real store under a broker that is written to. While it is broken the lag grows, `/status` says why in a sentence, and the
// memory of a failed window is given back; when it is whole again everything arrives once. All faults run beside each other: they are waits.
func TestBucketFaults(t *testing.T) {
	t.Parallel() // most of it is waiting
	var wg sync.WaitGroup
	for _, f := range bucketFaults() {
		wg.Go(func() { t.Run(f.name, func(t *testing.T) { broken(t, f) }) })
	}
	wg.Wait()
}

func broken(t *testing.T, f bucketFault) {
	g := harness.StartGateway(t, t.TempDir(), "lake")
	proxy := harness.StartProxy(t, g.URL)
	b := harness.StartBroker(t, t.TempDir(), harness.SinkEnv(proxy.URL, "lake").With("QUEEN_S3_MAX_WINDOW_MS", "500", "QUEEN_S3_SAFE_GUARD_MS", "50",
		"QUEEN_S3_DISCOVERY_INTERVAL_MS", "50", "QUEEN_S3_MEMORY_MB", "64"))
	push := func(n int) {
		t.Helper()
		for i := range 20 {
			item := harness.Item{Queue: "orders", Partition: fmt.Sprintf("p-%d", i%3), TxID: fmt.Sprintf("%d-%d", n, i), Payload: fmt.Sprintf(`{"n":%d.00,"pad":%q}`, i, strings.Repeat("x", 3000))}
			if err := b.Push(item); err != nil {
				t.Fatal(err)
			}
		}
	}
	push(0)
	b.WaitWindows(t, "orders", 1, 30*time.Second)
	proxy.Break(f.fault)
	push(1)
	worst, said, released := 0.0, "", false
	for end := time.After(f.lasts); ; {
		look := statusOf(t, b)
		worst = max(worst, look.lag)
		if strings.Contains(look.errors, f.says) {
			said = look.errors
		}
		released = released || said != "" && look.buffered == 0
		select {
		case <-end:
		case <-time.After(50 * time.Millisecond):
			continue
		}
		break
	}
	if worst < f.lag || said == "" || !released {
		t.Errorf("while it lasted: lag up to %.1f s (want %v), memory given back: %v, said: %s", worst, f.lag, released, statusOf(t, b).errors)
	}
	push(2)
	proxy.Break(nil)
	harness.Eventually(t, 150*time.Second, func() (bool, string) {
		look := statusOf(t, b)
		return look.lag < 2 && look.buffered == 0 && look.reachable, fmt.Sprintf("%+v", look)
	})
	if row, err := b.Row("orders"); err != nil || row.Records != 60 || row.RecordsLost != 0 {
		t.Errorf("%+v %v", row, err)
	}
	harness.MustBeClean(t, g.Lake("lake"), b.URL)
	t.Logf("lag up to %.1f s: %s", worst, said)
}

// look is what `/status` shows of a sink with one queue.
type look struct {
	lag       float64 // seconds; -1 = not known
	buffered  int64   // bytes of the memory that all sinks share
	reachable bool
	errors    string // of the bucket and of the queue
}

func statusOf(t *testing.T, b *harness.Broker) look {
	t.Helper()
	_, out, err := b.Do("GET", "/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		S3 struct {
			Sinks []struct {
				Bucket struct {
					Reachable bool
					Error     any
				}
				Memory struct{ BufferedBytes int64 }
				Queues []harness.QueueRow
			}
		}
	}
	if err := json.Unmarshal(out, &s); err != nil || len(s.S3.Sinks) != 1 || len(s.S3.Sinks[0].Queues) != 1 {
		t.Fatalf("%v in %s", err, out)
	}
	sink := s.S3.Sinks[0]
	row := sink.Queues[0]
	l := look{lag: -1, buffered: sink.Memory.BufferedBytes, reachable: sink.Bucket.Reachable, errors: fmt.Sprintf("bucket: %v", sink.Bucket.Error)}
	if row.LagSeconds != nil {
		l.lag = *row.LagSeconds
	}
	if row.LastError != nil {
		l.errors += "\nqueue: " + row.LastError.Message
	}
	return l
}
