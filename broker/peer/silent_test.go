package peer

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"queen/internal/pipenet"
)

// TestSilentStrangers: whoever opens connections to the port and says nothing holds no more than maxGreetings of them, each for no longer than a greeting may take, and
// keeps no node of the cluster out, not even one moment.
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
		var silent []net.Conn
		held := func() (n int) {
			ports["2"].mu.Lock()
			defer ports["2"].mu.Unlock()
			return len(ports["2"].open)
		}
		for dial := n.Dialer("stranger"); len(silent) < strangers; {
			c, err := dial(t.Context(), "raft-2")
			if err != nil {
				t.Fatal(err)
			}
			defer drop(c)
			silent = append(silent, c)
			if _, err := io.ReadFull(c, make([]byte, len(greetingMagic)+1+nonceLen)); err != nil {
				t.Errorf("connection %d is not greeted: %v", len(silent), err)
			}
			synctest.Wait()
		}
		if got := held(); got != maxGreetings {
			t.Errorf("%d of %d silent connections are held open, want %d", got, strangers, maxGreetings)
		}
		for _, kind := range []Kind{Raft, Forward} {
			go func() {
				if c, err := ports["2"].Lane(kind).Accept(); err == nil {
					drop(c)
				}
			}()
			c, err := ports["1"].Dial(t.Context(), "2", ports["2"].o.Self.Address(), kind)
			if err != nil {
				t.Fatalf("a node of the cluster is kept out: %v", err)
			}
			drop(c)
		}
		time.Sleep(greetingLimit + time.Second)
		synctest.Wait()
		if got := held(); got > 0 {
			t.Errorf("%d silent connections are held open after %s", got, greetingLimit)
		}
	})
}
