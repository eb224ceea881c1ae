package api

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"queen/broker"
)

var _ Broker = (*broker.Broker)(nil)

// TestRealBroker: the routes over a broker with raft and a disk, across a restart.
func TestRealBroker(t *testing.T) {
	dir := t.TempDir()
	open := func() (*fixture, *broker.Broker) {
		b, err := broker.New(broker.Options{Dir: dir, NodeID: 1, Now: time.Now, Log: zerolog.Nop(), Fatal: func(err error) { t.Error(err) }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := b.Open(ctx); err != nil {
			t.Fatal(err)
		}
		h, err := New(Options{Broker: b, MaxBody: 32 << 20, Now: time.Now, Rand: rand.Reader, Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		return &fixture{h: h}, b
	}
	f, b := open()
	f.ok(t, http.StatusCreated, "POST", "/api/v1/push", `{"items":[{"queue":"q","payload":{ "a" :42.00 },"transactionId":"t"},{"queue":"q","payload":"\ud800"}]}`)
	f.ok(t, http.StatusOK, "POST", "/api/v1/kv", `[{"op":"put","ns":"n","key":"k","value":1,"forever":true}]`)
	f.ok(t, http.StatusOK, "POST", "/api/v1/configure", `{"queue":"q","options":{"leaseTime":5}}`)
	f.ok(t, http.StatusOK, "GET", "/health", "")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	f, b = open()
	for _, c := range []struct{ method, target, body, want string }{
		{"POST", "/api/v1/fetch", `{"entries":[{"queue":"q","offset":0}]}`, `"payload":{ "a" :42.00 },`},
		{"POST", "/api/v1/fetch", `{"entries":[{"queue":"q","offset":1}]}`, `"payload":"\ud800",`},
		{"GET", "/api/v1/kv/n/k", "", `"value":1,`},
		{"GET", "/api/v1/resources/queues", "", `"leaseTime":5,`},
	} {
		if got := f.ok(t, http.StatusOK, c.method, c.target, c.body); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %s", c.method, c.target, got)
		}
	}
	if got := f.ok(t, http.StatusCreated, "POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1,"transactionId":"t"}]}`); !strings.Contains(got, `"status":"duplicate","offset":0`) {
		t.Errorf("a repeated push after a restart: %s", got)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}
