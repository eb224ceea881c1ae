package upload

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"queen/internal/fakes3"
)

// Every attempt of every request asks for its permit first: what is refused is not sent, whether it is the first try or a later one.
func TestP31PermitIsAskedBeforeEachAttempt(t *testing.T) {
	refused := errors.New("the lease may have run out")
	for _, c := range []struct {
		name    string
		permits int
		script  fakes3.Rule
		size    int
		sent    string
	}{
		{"before the first request", 0, fakes3.Rule{}, 1 << 20, ""},
		{"between two tries", 1, fakes3.Rule{Op: "put", Status: 500}, 1 << 20, "put"},
		{"between the object and its manifest", 1, fakes3.Rule{}, 1 << 20, "put"},
		{"between the parts and their end", 3, fakes3.Rule{}, MaxPart + 1<<20, "multipart_create multipart_part multipart_part multipart_abort"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket(t, fakes3.Options{}, nil)
				if c.script.Op != "" {
					b.s3.Script(c.script)
				}
				var left atomic.Int32
				left.Store(int32(c.permits))
				permitted := b.Permitted(func() error {
					if left.Add(-1) < 0 {
						return refused
					}
					return nil
				})
				stage := NewStage(StageOptions{Client: permitted, Sink: "default", Tenant: testTenant, Threshold: 5 << 20, Describe: describe})
				if _, err := send(t.Context(), stage, testJob(), pattern(c.size)); !errors.Is(err, refused) {
					t.Errorf("error %v", err)
				}
				if got := ops(b.s3.Requests()); got != c.sent {
					t.Errorf("sent %q, want %q", got, c.sent)
				}
			})
		})
	}
}

// An attempt that ran into a time limit is the last one while what the caller holds is waited for; one that fails soon is made again.
func TestSlowAttemptIsTheLastWhileWanted(t *testing.T) {
	for _, c := range []struct {
		name   string
		rule   func() fakes3.Rule
		wanted bool
		sent   int
		most   time.Duration
	}{
		{"no answer, wanted", func() fakes3.Rule { return fakes3.Rule{Hold: make(chan struct{})} }, true, 1, 61 * time.Second},
		{"stalled, wanted", func() fakes3.Rule { return fakes3.Rule{Stall: make(chan struct{})} }, true, 1, 121 * time.Second},
		{"no answer", func() fakes3.Rule { return fakes3.Rule{Hold: make(chan struct{})} }, false, 6, 391 * time.Second},
		{"busy, wanted", func() fakes3.Rule { return fakes3.Rule{Status: 503} }, true, 6, 32 * time.Second},
		{"cut, wanted", func() fakes3.Rule { return fakes3.Rule{Cut: fakes3.CutBefore} }, true, 6, 32 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.Wanted = func() bool { return c.wanted } })
				b.s3.Script(c.rule())
				var err error
				within(t, 0, c.most, func() { err = b.Put(t.Context(), "k", "text/plain", pattern(1<<20)) })
				var e *Error
				if !errors.As(err, &e) || !e.Retryable {
					t.Errorf("got %v", err)
				}
				if n := len(b.s3.Requests()); n != c.sent {
					t.Errorf("%d attempts, want %d", n, c.sent)
				}
			})
		})
	}
}
