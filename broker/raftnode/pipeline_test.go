package raftnode

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"queen/internal/pipenet"
)

// layer is a StreamLayer on pipes.
type layer struct {
	net.Listener
	net *pipenet.Net
}

func (l layer) Dial(to raft.ServerAddress, limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return l.net.Dialer("a")(ctx, string(to))
}

// TestNobodyReadsThePipeline: raft's reader of the answers has ended, at one that says that the follower is not where it was thought to be or that there is a newer term, and its sender
// goes on for a while. It must not wait for ever: then the follower would get nothing more, and the node could not stop.
func TestNobodyReadsThePipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n pipenet.Net
		ends := map[string]*raft.NetworkTransport{}
		for _, address := range []string{"a", "b"} {
			l, err := n.Listen(address)
			if err != nil {
				t.Fatal(err)
			}
			ends[address] = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: layer{l, &n}, MaxPool: 1, Timeout: callTimeout})
		}
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			for {
				select {
				case rpc := <-ends["b"].Consumer():
					rpc.Respond(&raft.AppendEntriesResponse{Term: 1}, nil)
				case <-ctx.Done():
					return
				}
			}
		}()
		inner, err := ends["a"].AppendEntriesPipeline("b", "b")
		if err != nil {
			t.Fatal(err)
		}
		looked := 0
		p := newPipeline(inner, func(raft.AppendFuture) { looked++ })
		const calls = 20
		sent := make(chan error, 1)
		go func() {
			for i := range uint64(calls) {
				if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 1, PrevLogEntry: i}, &raft.AppendEntriesResponse{}); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		select {
		case err := <-sent:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Hour):
			t.Error("the sender still waits for somebody to read the answers")
		}
		synctest.Wait()
		for i := range uint64(looked) { // and whoever reads has them in order
			if got := (<-p.Consumer()).Request().PrevLogEntry; got != i {
				t.Errorf("answer %d is that of call %d", i, got)
			}
		}
		if looked != calls {
			t.Errorf("%d of %d calls were answered", looked, calls)
		}
		stop()
		if err := errors.Join(p.Close(), ends["a"].Close(), ends["b"].Close()); err != nil {
			t.Error(err)
		}
	})
}
