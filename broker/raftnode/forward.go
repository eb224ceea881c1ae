package raftnode

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"queen/broker/command"
	"queen/broker/peer"
	"queen/stages"
)

// A node that does not lead hands its commands to the one that does, over HTTP on a stream of their own (docs/formats.md section 9). The leader answers
// when the command is applied there, and says no more than that: the result is what this node's machine makes of the command, which it
// knows by its request id. So a follower answers from the state that it shows, and no result needs an encoding.
const (
	proposePath   = "/propose"
	headerKind    = "Queen-Command"
	headerRequest = "Queen-Request"
	requestBytes  = 16
	maxRefusal    = 4096 // bytes of a refusal's text that are read
	idleStreams   = 64
	idleLimit     = time.Minute
)

// Statuses of an answer.
const (
	statusApplied  = http.StatusNoContent
	statusNoLeader = http.StatusServiceUnavailable
	statusUnclear  = http.StatusGatewayTimeout
	statusFull     = http.StatusInsufficientStorage
	statusTooLarge = http.StatusRequestEntityTooLarge
	statusUnknown  = http.StatusBadRequest
)

// errNotSent marks calls of which nobody can have seen anything.
var errNotSent = errors.New("the leader could not be reached")

// calls is the client and the server of forwarded commands.
type calls struct {
	node   *Node
	client *http.Client
	server *http.Server
	done   sync.WaitGroup
}

func newCalls(n *Node) *calls {
	c := &calls{node: n}
	c.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			id, _, _ := strings.Cut(address, ":")
			id = strings.TrimPrefix(id, hostPrefix)
			where, ok := n.addressOf(id)
			if !ok {
				return nil, fmt.Errorf("%w: node %s is no member", errNotSent, id)
			}
			conn, err := n.o.Cluster.Port.Dial(ctx, id, where, peer.Forward)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errNotSent, err)
			}
			return conn, nil
		},
		MaxIdleConnsPerHost: idleStreams, IdleConnTimeout: idleLimit, DisableCompression: true,
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+proposePath, c.take)
	mux.HandleFunc("POST "+changePath, c.takeChange)
	c.server = &http.Server{Handler: mux, ReadHeaderTimeout: callTimeout, IdleTimeout: 2 * idleLimit}
	return c
}

const hostPrefix = "node-" // a host name that is no number

func (c *calls) start(l net.Listener) {
	c.done.Go(func() {
		if err := c.server.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			c.node.fail(fmt.Errorf("serve forwarded commands: %w", err))
		}
	})
}

func (c *calls) close() error {
	err := c.server.Close()
	c.client.CloseIdleConnections()
	c.done.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// take is the leader's side: it proposes what a follower forwards, as if it were its own.
func (c *calls) take(w http.ResponseWriter, r *http.Request) {
	kind, err := strconv.ParseUint(r.Header.Get(headerKind), 10, 8)
	id, err2 := hex.DecodeString(r.Header.Get(headerRequest))
	if err != nil || err2 != nil || len(id) != requestBytes {
		http.Error(w, "a command needs a kind and a request id", http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, command.MaxEntry))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status, text := c.propose(r.Context(), command.Kind(kind), [requestBytes]byte(id), body)
	if status != statusApplied {
		http.Error(w, text, status)
		return
	}
	w.WriteHeader(status)
}

func (c *calls) propose(ctx context.Context, kind command.Kind, request [16]byte, body []byte) (int, string) {
	if c.node.o.Admit != nil {
		if err := c.node.o.Admit(kind, body); err != nil {
			return statusOf(err), err.Error()
		}
	}
	_, err := c.node.own(ctx, kind, request, body)
	if err == nil {
		return statusApplied, ""
	}
	return statusOf(err), err.Error()
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, stages.ErrUnclear):
		return statusUnclear
	case errors.Is(err, ErrDiskFull):
		return statusFull
	case errors.Is(err, ErrTooLarge):
		return statusTooLarge
	case errors.Is(err, ErrUnknown):
		return statusUnknown
	}
	return statusNoLeader // it did not happen
}

// lent is a body that belongs to the caller again once it is closed.
type lent struct {
	*bytes.Reader
	once   sync.Once
	closed chan struct{}
}

// Close gives the body back.
func (l *lent) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// send hands a command to the leader. Errors are those of Propose; nil means that it was applied there.
func (c *calls) send(ctx context.Context, leader string, kind command.Kind, request [16]byte, body []byte) error {
	l := &lent{Reader: bytes.NewReader(body), closed: make(chan struct{})}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+hostPrefix+leader+proposePath, l)
	if err != nil {
		return err
	}
	r.ContentLength = int64(len(body))
	if len(body) == 0 {
		r.Body = http.NoBody
	} else {
		defer func() { <-l.closed }()
	}
	r.Header.Set(headerKind, strconv.Itoa(int(kind)))
	r.Header.Set(headerRequest, hex.EncodeToString(request[:]))
	resp, err := c.client.Do(r)
	switch {
	case errors.Is(err, errNotSent):
		return fmt.Errorf("%w: %w", ErrNoLeader, err)
	case err != nil:
		return fmt.Errorf("%w (forwarded to node %s: %w)", ErrUnclear, leader, err)
	}
	defer drain(resp.Body)
	if resp.StatusCode == statusApplied {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		text = []byte(err.Error())
	}
	why := fmt.Sprintf("node %s: %s", leader, strings.TrimSpace(string(text)))
	switch resp.StatusCode {
	case statusNoLeader:
		return fmt.Errorf("%w (%s)", ErrNoLeader, why)
	case statusFull:
		return fmt.Errorf("%w (%s)", ErrDiskFull, why)
	case statusTooLarge:
		return ErrTooLarge
	case statusUnknown:
		return fmt.Errorf("%w (%s)", ErrUnknown, why)
	}
	return fmt.Errorf("%w (%s)", ErrUnclear, why)
}

// drain reads what is left of an answer, so that its stream can be used again.
func drain(body io.ReadCloser) {
	_, _ = io.Copy(io.Discard, io.LimitReader(body, maxRefusal)) // what it says does not matter any more
	_ = body.Close()
}

// forward hands a command to the leader and waits until it is applied here.
func (n *Node) forward(ctx context.Context, kind command.Kind, body []byte) (any, error) {
	if 1+command.HeaderSize+len(body) > command.MaxEntry {
		return nil, ErrTooLarge
	}
	_, leader := n.raft.LeaderWithID()
	if leader == "" || string(leader) == n.o.NodeID || n.dead() {
		return nil, ErrNoLeader
	}
	request, err := n.request()
	if err != nil {
		return nil, err
	}
	limit, cancel := context.WithTimeoutCause(ctx, answerLimit, fmt.Errorf("no answer within %s", answerLimit))
	defer cancel()
	result := n.machine.expect(request)
	defer n.machine.forget(request)
	if err := n.hand(limit, leader, kind, request, body); err != nil {
		select {
		case r := <-result: // it was applied here before the leader's answer was lost
			return r, nil
		default:
			return nil, err
		}
	}
	select {
	case r := <-result:
		return r, nil
	case <-limit.Done():
		return nil, fmt.Errorf("%w (it is applied on node %s, and not here yet: %w)", ErrUnclear, leader, context.Cause(limit))
	case <-n.failed:
		return nil, fmt.Errorf("%w (it is applied on node %s, and this node has failed)", ErrUnclear, leader)
	case <-n.closed:
		return nil, fmt.Errorf("%w (it is applied on node %s, and this node stops)", ErrUnclear, leader)
	}
}

// hand sends a command to the leader, and waits for its answer for as long as no other node leads.
func (n *Node) hand(ctx context.Context, leader raft.ServerID, kind command.Kind, request [16]byte, body []byte) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer n.handed.to(string(leader), end)()
	if _, now := n.raft.LeaderWithID(); now != leader { // it changed before that was noted
		return ErrNoLeader
	}
	return n.calls.send(ctx, string(leader), kind, request, body)
}

// request makes the id of a command.
func (n *Node) request() (id [16]byte, err error) {
	if _, err := io.ReadFull(n.o.Rand, id[:]); err != nil {
		return id, fmt.Errorf("request id: %w", err)
	}
	return id, nil
}
