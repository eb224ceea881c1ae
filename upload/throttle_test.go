package upload

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"queen/internal/fakes3"
)

// forever puts as the sink does: what may pass is tried again, one second later at the soonest.
func (b *bucket) forever(t *testing.T, key string, data []byte) {
	for {
		err := b.Put(t.Context(), key, "text/plain", data)
		if err == nil {
			return
		}
		if e, ok := errors.AsType[*Error](err); !ok || !e.Retryable {
			t.Errorf("%s: %v", key, err)
			return
		}
		if sleep(t.Context(), time.Second) != nil {
			return
		}
	}
}

// P27: 2 minutes in which nine of ten requests are answered 503. The rate falls to a trickle, everything arrives, and then the whole
// bandwidth is used again.
func TestP27NineOfTenAre503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.Random = func() float64 { return 0.5 } })
		b.s3.Script(fakes3.Rule{Op: "put", Status: 503, Code: "SlowDown", Pass: 10, Delay: time.Second}, fakes3.Rule{Op: "put", Delay: time.Second})
		time.AfterFunc(2*time.Minute, func() {
			b.s3.Unscript()
			b.s3.Script(fakes3.Rule{Op: "put", Delay: time.Second})
		})
		var rates []int // requests in each half minute
		stop := make(chan struct{})
		go func() {
			tick := time.NewTicker(30 * time.Second)
			defer tick.Stop()
			for last := 0; ; {
				select {
				case <-tick.C:
					n := len(b.s3.Requests())
					rates = append(rates, n-last)
					last = n
				case <-stop:
					return
				}
			}
		}()
		var group sync.WaitGroup
		for i := range 40 {
			group.Go(func() {
				for n := range 10 {
					b.forever(t, fmt.Sprintf("k%d-%d", i, n), []byte("x"))
				}
			})
		}
		group.Wait()
		close(stop)
		synctest.Wait()
		if n := len(b.s3.Keys()); n != 400 {
			t.Errorf("%d objects of 400", n)
		}
		// Without a bound there are 340 to 400 in each.
		if len(rates) < 4 || rates[0] > 100 || rates[1] > 50 || rates[3] > 50 {
			t.Errorf("requests in each half minute: %v", rates)
		}
		if n := b.counted("put 503"); n == 0 || b.counted("put 200") != 400 {
			t.Errorf("%d answered 503, %d answered 200", n, b.counted("put 200"))
		}
		b.brake.mu.Lock()
		defer b.brake.mu.Unlock()
		if b.brake.limit != 0 || b.brake.busy != 0 || len(b.brake.waiting) != 0 {
			t.Errorf("the bound is %d afterwards, %d are busy, %d wait", b.brake.limit, b.brake.busy, len(b.brake.waiting))
		}
	})
}

// P27: after a 503 to each of many, they come one by one, and one more at a time with each success.
func TestP27OneByOneAfter503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.Random = func() float64 { return 1 } })
		all := make(chan struct{})
		b.s3.Script(fakes3.Rule{Times: 32, Hold: all, Status: 503}, fakes3.Rule{Delay: 500 * time.Millisecond})
		var group sync.WaitGroup
		for i := range 32 {
			group.Go(func() { b.forever(t, fmt.Sprint(i), []byte("x")) })
		}
		synctest.Wait()
		close(all)
		time.Sleep(1200 * time.Millisecond) // their waits are over, and the first one is under way
		synctest.Wait()
		if n := len(b.s3.Requests()); n != 33 {
			t.Errorf("%d requests are under way, want 1", n-32)
		}
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if n := len(b.s3.Requests()); n != 35 {
			t.Errorf("%d requests after the first success, want 2 more", n-33)
		}
		group.Wait()
		if len(b.s3.Keys()) != 32 {
			t.Errorf("%d objects", len(b.s3.Keys()))
		}
	})
}

// A request that does not get its turn is given up like one that gets no answer, so that nothing is held for ever behind a store that hangs.
func TestTurnIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.Wanted = func() bool { return true } })
		b.s3.Script(fakes3.Rule{Times: 1, Status: 429})
		if err := b.Put(t.Context(), "k", "text/plain", []byte("x")); err != nil { // throttled once: the bound is 2 now
			t.Fatal(err)
		}
		b.s3.Script(fakes3.Rule{Stall: make(chan struct{})}) // each holds its turn for the 120 s of an attempt
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() { _ = b.Put(t.Context(), "k", "text/plain", pattern(1<<20)) })
		}
		time.Sleep(time.Second)
		synctest.Wait()
		within(t, 60*time.Second, 60*time.Second, func() {
			err := b.Put(t.Context(), "k2", "text/plain", []byte("x"))
			if e, ok := errors.AsType[*Error](err); !ok || !e.Retryable || !errors.Is(err, errBusy) || !strings.Contains(err.Error(), "did not get its turn") {
				t.Errorf("got %v", err)
			}
		})
		group.Wait()
	})
}
