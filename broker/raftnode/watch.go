package raftnode

import (
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"queen/broker/peer"
)

// stallLimit is how long a stream between nodes may stand still in the middle of something: a node that is gone without a word must not hold what waits for
// it. raft gives a snapshot a deadline for all of it, days long, on one end and none on the other, and its loop neither votes nor stops meanwhile.
const stallLimit = 10 * time.Second

// arriving is the side of carrier on which other nodes call: it keeps votes back while this node may not give any (fresh.go), notes how far the leader has
// committed, and watches over a snapshot that comes in.
type arriving struct {
	in    <-chan raft.RPC
	out   chan raft.RPC
	stop  chan struct{}
	fresh *fresh
	port  *peer.Port
	once  sync.Once
	done  sync.WaitGroup
}

func newArriving(in <-chan raft.RPC, f *fresh, port *peer.Port) *arriving {
	a := &arriving{in: in, out: make(chan raft.RPC), stop: make(chan struct{}), fresh: f, port: port}
	a.done.Go(a.run)
	return a
}

func (a *arriving) run() {
	for {
		select {
		case rpc := <-a.in:
			if !a.look(&rpc) {
				continue
			}
			select {
			case a.out <- rpc:
			case <-a.stop:
				rpc.Respond(nil, raft.ErrRaftShutdown)
				return
			}
		case <-a.stop:
			return
		}
	}
}

// look says whether raft may see a call.
func (a *arriving) look(rpc *raft.RPC) bool {
	switch c := rpc.Command.(type) {
	case *raft.RequestVoteRequest, *raft.RequestPreVoteRequest:
		if a.fresh.holds() {
			rpc.Respond(nil, errFresh)
			return false
		}
	case *raft.AppendEntriesRequest:
		a.port.Begin()
		a.fresh.heard(c.LeaderCommitIndex, c.Term)
	case *raft.InstallSnapshotRequest:
		a.port.Begin()
		rpc.Reader = &watched{rpc.Reader, a.port}
	}
	return true
}

func (a *arriving) close() {
	a.once.Do(func() { close(a.stop) })
	a.done.Wait()
}

// watched is a stream that another node sends: when it stands still, the streams of raft that were accepted are closed, which ends the wait; the nodes open new
// ones. When this node stops, its port closes them.
type watched struct {
	io.Reader
	port *peer.Port
}

// Read waits for bytes, and no longer than stallLimit.
func (w *watched) Read(b []byte) (int, error) {
	limit := time.AfterFunc(stallLimit, func() { w.port.CloseAccepted(peer.Raft) })
	defer limit.Stop()
	return w.Reader.Read(b)
}

// dialled is a stream of raft's calls to another node. A write that stands still ends it, whatever deadline raft gives to all of a call. The carrier closes those
// that are open when the node stops.
type dialled struct {
	net.Conn
	of *links
}

// writePiece is how many bytes have to get through within stallLimit.
const writePiece = 256 << 10

// Write sends bytes.
func (d *dialled) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		limit := time.AfterFunc(stallLimit, func() { _ = d.Conn.Close() }) // the write fails then
		m, err = d.Conn.Write(b[n:min(len(b), n+writePiece)])
		limit.Stop()
		n += m
	}
	return n, err
}

// Close closes it.
func (d *dialled) Close() error {
	d.of.forget(d)
	return d.Conn.Close()
}

// links are the streams that were dialled.
type links struct {
	mu    sync.Mutex
	conns map[*dialled]bool
	ended bool
}

func (o *links) add(c net.Conn) net.Conn {
	d := &dialled{Conn: c, of: o}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		_ = c.Close() // the node stops
	} else {
		if o.conns == nil {
			o.conns = map[*dialled]bool{}
		}
		o.conns[d] = true
	}
	return d
}

func (o *links) forget(d *dialled) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.conns, d)
}

// close ends all of them: what waits on one fails.
func (o *links) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	for d := range o.conns {
		_ = d.Conn.Close()
	}
}
