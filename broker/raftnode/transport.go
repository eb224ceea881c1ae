package raftnode

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"queen/broker/peer"
)

// streams is the StreamLayer of raft's transport. Addresses are `id=address` here: a stream is opened to a node, not to a place.
type streams struct {
	net.Listener
	port *peer.Port
	open *links
}

var _ raft.StreamLayer = streams{}

// Dial opens a stream of raft's calls.
func (s streams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	id, at, _ := strings.Cut(string(address), "=")
	c, err := s.port.Dial(ctx, id, at, peer.Raft)
	if err != nil {
		return nil, err
	}
	return s.open.add(c), nil
}

func at(id raft.ServerID, address raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(id) + "=" + address
}

// carrier is raft's transport, which says whom it calls, and notes what followers answer: raft itself does not tell how far they are.
type carrier struct {
	*raft.NetworkTransport
	seen     *followers
	arriving *arriving
	open     *links
}

var (
	_ raft.Transport   = (*carrier)(nil)
	_ raft.WithPreVote = (*carrier)(nil)
	_ raft.WithClose   = (*carrier)(nil)
)

// Consumer gives raft the calls of other nodes.
func (c *carrier) Consumer() <-chan raft.RPC { return c.arriving.out }

// EncodePeer names a node in calls and votes.
func (c *carrier) EncodePeer(id raft.ServerID, address raft.ServerAddress) []byte {
	return encodePeer(id, address)
}

// interrupt ends whatever waits for another node. raft has to be shutting down.
func (c *carrier) interrupt() {
	c.arriving.close()
	c.open.close()
}

// maxAppend is how many bytes of entries one call carries, if that is more than one entry: what a follower that is behind costs in memory, and
// what has to get through within callTimeout.
const maxAppend = 8 << 20

// shorten takes from a call what is too much for it. raft looks afterwards at what it carries, and goes on from there.
func shorten(args *raft.AppendEntriesRequest) {
	size := 0
	for i, e := range args.Entries {
		if size += len(e.Data); i > 0 && size > maxAppend {
			args.Entries = args.Entries[:i]
			return
		}
	}
}

// AppendEntriesPipeline opens a pipeline.
func (c *carrier) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := c.NetworkTransport.AppendEntriesPipeline(id, at(id, target))
	if err != nil {
		return nil, err
	}
	return newPipeline(p, func(f raft.AppendFuture) { c.note(id, f.Request(), f.Response(), f.Error()) }), nil
}

// AppendEntries calls a follower.
func (c *carrier) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	shorten(args)
	err := c.NetworkTransport.AppendEntries(id, at(id, target), args, resp)
	c.note(id, args, resp, err)
	return err
}

// RequestVote calls a voter.
func (c *carrier) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return c.NetworkTransport.RequestVote(id, at(id, target), args, resp)
}

// RequestPreVote calls a voter.
func (c *carrier) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return c.NetworkTransport.RequestPreVote(id, at(id, target), args, resp)
}

// InstallSnapshot sends a snapshot, unless the follower turns out to have the entry at which it stands: it may have started again before its
// answer to an earlier one arrived.
func (c *carrier) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	ask := &raft.AppendEntriesRequest{RPCHeader: args.RPCHeader, Term: args.Term, Leader: args.Leader, PrevLogEntry: args.LastLogIndex, PrevLogTerm: args.LastLogTerm}
	var has raft.AppendEntriesResponse
	if err := c.AppendEntries(id, target, ask, &has); err != nil {
		return err
	}
	if has.Success {
		*resp = raft.InstallSnapshotResponse{RPCHeader: has.RPCHeader, Term: has.Term, Success: true}
		return nil
	}
	return c.NetworkTransport.InstallSnapshot(id, at(id, target), args, resp, data)
}

// TimeoutNow asks a node to take the leadership.
func (c *carrier) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return c.NetworkTransport.TimeoutNow(id, at(id, target), args, resp)
}

func (c *carrier) note(id raft.ServerID, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse, err error) {
	if err != nil || resp.Term > args.Term {
		return
	}
	matched := uint64(0)
	if resp.Success {
		matched = args.PrevLogEntry
		if k := len(args.Entries); k > 0 {
			matched = args.Entries[k-1].Index
		}
	}
	c.seen.note(string(id), matched, resp.Success)
}

// pipeline passes the answers of a pipeline on, and has each looked at. It always takes what is answered: raft ends its reader of the answers before its sender, and the
// sender may send more then, which the pipeline below would take only when somebody reads. Then raft's goroutine would wait for ever: nothing more would be sent to
// that follower, and the node could not stop.
type pipeline struct {
	raft.AppendPipeline
	out  chan raft.AppendFuture
	stop chan struct{}
	once sync.Once
}

func newPipeline(inner raft.AppendPipeline, look func(raft.AppendFuture)) *pipeline {
	p := &pipeline{AppendPipeline: inner, out: make(chan raft.AppendFuture), stop: make(chan struct{})}
	go p.pass(look)
	return p
}

// pass gives the answers to raft in order.
func (p *pipeline) pass(look func(raft.AppendFuture)) {
	var waiting []raft.AppendFuture // few: raft reads at once, and sends little more once it does not
	for {
		var out chan raft.AppendFuture
		var next raft.AppendFuture
		if len(waiting) > 0 {
			out, next = p.out, waiting[0]
		}
		select {
		case f := <-p.AppendPipeline.Consumer():
			look(f) // it is answered by now
			waiting = append(waiting, f)
		case out <- next:
			waiting = waiting[1:]
		case <-p.stop:
			return
		}
	}
}

// AppendEntries sends a call.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	shorten(args)
	return p.AppendPipeline.AppendEntries(args, resp)
}

// Consumer gives the answers in order.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.out }

// Close ends the pipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.stop) })
	return p.AppendPipeline.Close()
}

// follower is what a leader has heard of another node.
type follower struct {
	matched uint64        // the highest entry that it is known to have
	at      time.Duration // when it answered last, monotonic
}

// followers is what this node heard of others since it leads, and before.
type followers struct {
	elapsed func() time.Duration
	mu      sync.Mutex
	by      map[string]follower
}

func newFollowers(elapsed func() time.Duration) *followers {
	return &followers{elapsed: elapsed, by: map[string]follower{}}
}

func (f *followers) note(id string, matched uint64, success bool) {
	now := f.elapsed()
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.by[id]
	if one.at = now; success {
		one.matched = max(one.matched, matched)
	}
	f.by[id] = one
}

// of returns what was heard of a node.
func (f *followers) of(id string) (follower, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, ok := f.by[id]
	return one, ok
}

// forget drops all: what a node had under an earlier leader it may have lost under another.
func (f *followers) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.by)
}
