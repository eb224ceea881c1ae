package peer

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"queen/internal/pipenet"
)

// TestSilentStrangers: whoever opens connections to the port and says nothing holds no more than maxGreetings of them, each for no longer than a greeting may take, and
// keeps a node of the cluster out for no longer than that.
func TestSilentStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n pipenet.Net
		ports := map[string]*Port{}
		for _, id := range []string{"1", "2"} {
			l, err := n.Listen("raft-" + id)
			if err != nil {
				t.Fatal(err)
			}
			ports[id], err = New(Options{Self: Member{ID: id, Raft: "raft-" + id, HTTP: "http-" + id}, Token: "secret", Listener: l, Dial: n.Dialer("raft-" + id),
				Seed: func() [16]byte { return [16]byte{} }, Now: time.Now, Log: zerolog.Nop()})
			if err != nil {
				t.Fatal(err)
			}
			defer ports[id].Close()
		}
		const strangers = 3 * maxGreetings
		dial, held := n.Dialer("stranger"), 0
		for range strangers {
			c, err := dial(t.Context(), "raft-2")
			if err != nil {
				t.Fatal(err)
			}
			defer drop(c)
			if _, err := io.ReadFull(c, make([]byte, len(greetingMagic)+1+nonceLen)); err == nil {
				held++
			}
		}
		if held != maxGreetings {
			t.Errorf("%d of %d silent connections are held open, want %d", held, strangers, maxGreetings)
		}
		began := time.Now()
		for {
			c, err := ports["1"].Dial(t.Context(), "2", ports["2"].o.Self.Address(), Raft)
			if err == nil {
				drop(c)
				return
			}
			if time.Since(began) > greetingLimit {
				t.Fatalf("a node of the cluster is kept out for %s: %v", time.Since(began), err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}
