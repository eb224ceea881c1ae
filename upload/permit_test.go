package upload

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

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
		{"between the parts and their end", 3, fakes3.Rule{}, PartBytes + 1<<20, "multipart_create multipart_part multipart_part multipart_abort"},
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

// Whether a large object is there is learned without reading it.
func TestPresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		b.s3.Put("large", pattern(1<<20))
		b.s3.Put("empty", nil)
		for key, want := range map[string]bool{"large": true, "empty": true, "absent": false} {
			if there, err := b.Present(t.Context(), key); there != want || err != nil {
				t.Errorf("%s: %v, %v", key, there, err)
			}
		}
		b.s3.Script(fakes3.Rule{Op: "get", Status: 403, Code: "AccessDenied"})
		if _, err := b.Present(t.Context(), "large"); err == nil {
			t.Error("a refused look is no answer")
		}
	})
}
