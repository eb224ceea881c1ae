// Package pipenet is a network in memory whose links can be cut: for clusters of nodes in one process, also inside a testing/synctest bubble, in
// which sockets do not work.
//
// A cut link loses nothing and says nothing: who writes waits until it heals, his deadline passes or the stream is closed, and who dials waits
// as long as he has patience. The end of a stream does not cross it either: the other side hears of a Close when the link heals. That is what a
// partition looks like to a program. It plays no delay, loss or reordering: streams have none.
package pipenet

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// Net is the network. Its zero value has no listeners and no cut links.
type Net struct {
	mu      sync.Mutex
	listens map[string]*listener
	cut     map[[2]string]bool
	conns   map[*conn]bool
	unheard map[*conn]bool // closed while their link was cut: the other side does not know
	changed chan struct{}  // closed at each change of a link
}

// Listen opens an address, which is any text.
func (n *Net) Listen(address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listens == nil {
		n.listens = map[string]*listener{}
	}
	if n.listens[address] != nil {
		return nil, fmt.Errorf("listen on %s: it is taken", address)
	}
	l := &listener{net: n, address: address, conns: make(chan net.Conn), stop: make(chan struct{})}
	n.listens[address] = l
	return l, nil
}

// Dialer returns what a node at this address dials with.
func (n *Net) Dialer(from string) func(ctx context.Context, to string) (net.Conn, error) {
	return func(ctx context.Context, to string) (net.Conn, error) {
		for {
			n.mu.Lock()
			l, blocked, changed := n.listens[to], n.blocked(from, to), n.change()
			n.mu.Unlock()
			if !blocked && l == nil {
				return nil, fmt.Errorf("dial %s: connection refused", to)
			}
			if !blocked {
				return n.join(ctx, from, l)
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return nil, fmt.Errorf("dial %s: %w", to, ctx.Err())
			}
		}
	}
}

func (n *Net) join(ctx context.Context, from string, l *listener) (net.Conn, error) {
	a, b := net.Pipe()
	here, there := n.note(&conn{Conn: a, net: n, from: from, to: l.address, done: make(chan struct{})}), n.note(&conn{Conn: b, net: n, from: l.address, to: from, done: make(chan struct{})})
	select {
	case l.conns <- there:
		return here, nil
	case <-l.stop:
		return nil, fmt.Errorf("dial %s: connection refused", l.address)
	case <-ctx.Done():
		return nil, fmt.Errorf("dial %s: %w", l.address, ctx.Err())
	}
}

func (n *Net) note(c *conn) *conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conns == nil {
		n.conns = map[*conn]bool{}
	}
	n.conns[c] = true
	return c
}

// Kill ends whatever is at an address, as a machine does that loses its power: its listener, and every stream from it or to it. When it has returned,
// nothing more comes from there. The address may be listened on again.
func (n *Net) Kill(address string) {
	n.mu.Lock()
	l := n.listens[address]
	var ended []*conn
	for c := range n.conns {
		if c.from == address || c.to == address {
			ended = append(ended, c)
		}
	}
	n.mu.Unlock()
	if l != nil {
		_ = l.Close() // it has nothing to say
	}
	for _, c := range ended {
		_ = c.Close()
	}
}

// Cut cuts the link that carries what from says to to, or heals it. The other direction is a link of its own.
func (n *Net) Cut(from, to string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut == nil {
		n.cut = map[[2]string]bool{}
	}
	n.cut[[2]string{from, to}] = cut
	for c := range n.unheard {
		if !n.cut[[2]string{c.from, c.to}] {
			delete(n.unheard, c)
			_ = c.Conn.Close() // of a pipe, which cannot fail
		}
	}
	close(n.change())
	n.changed = nil
}

// blocked says whether one of the two directions is cut: a stream needs both to come about. It needs mu.
func (n *Net) blocked(from, to string) bool {
	return n.cut[[2]string{from, to}] || n.cut[[2]string{to, from}]
}

// change needs mu.
func (n *Net) change() chan struct{} {
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.changed
}

type listener struct {
	net     *Net
	address string
	conns   chan net.Conn
	stop    chan struct{}
	once    sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.stop:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.stop)
		l.net.mu.Lock()
		if l.net.listens[l.address] == l {
			delete(l.net.listens, l.address)
		}
		l.net.mu.Unlock()
	})
	return nil
}

func (l *listener) Addr() net.Addr { return address(l.address) }

type address string

func (address) Network() string  { return "pipe" }
func (a address) String() string { return string(a) }

// conn is one end of a stream.
type conn struct {
	net.Conn
	net      *Net
	from, to string
	done     chan struct{}

	mu       sync.Mutex
	deadline time.Time // of writes
}

// Write waits while the link is cut.
func (c *conn) Write(b []byte) (int, error) {
	for {
		c.net.mu.Lock()
		cut, changed := c.net.cut[[2]string{c.from, c.to}], c.net.change()
		c.net.mu.Unlock()
		if !cut {
			return c.Conn.Write(b)
		}
		c.mu.Lock()
		deadline := c.deadline
		c.mu.Unlock()
		var late <-chan time.Time
		if !deadline.IsZero() {
			timer := time.NewTimer(time.Until(deadline))
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-changed:
		case <-late:
			if c.closed() {
				return 0, net.ErrClosed
			}
			return 0, os.ErrDeadlineExceeded
		case <-c.done:
			return 0, net.ErrClosed
		}
	}
}

// Read waits for bytes of the other end.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && c.closed() {
		err = net.ErrClosed
	}
	return n, err
}

// Close ends the stream here at once. The other end hears of it when the link is not cut.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed() {
		return nil
	}
	close(c.done)
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	delete(c.net.conns, c)
	if !c.net.cut[[2]string{c.from, c.to}] {
		return c.Conn.Close()
	}
	if c.net.unheard == nil {
		c.net.unheard = map[*conn]bool{}
	}
	c.net.unheard[c] = true
	return c.Conn.SetDeadline(time.Unix(1, 0)) // who reads or writes here is told
}

func (c *conn) closed() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *conn) SetDeadline(t time.Time) error {
	return c.keep(func() error { c.deadline = t; return c.Conn.SetDeadline(t) })
}

func (c *conn) SetReadDeadline(t time.Time) error {
	return c.keep(func() error { return c.Conn.SetReadDeadline(t) })
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.keep(func() error { c.deadline = t; return c.Conn.SetWriteDeadline(t) })
}

// keep sets deadlines while the stream is open.
func (c *conn) keep(set func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed() {
		return net.ErrClosed
	}
	return set()
}

func (c *conn) LocalAddr() net.Addr  { return address(c.from) }
func (c *conn) RemoteAddr() net.Addr { return address(c.to) }
