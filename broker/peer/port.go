package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// greetingLimit is how long a greeting may take; dialLimit is how long a connection may take to come about.
const (
	greetingLimit = 5 * time.Second
	dialLimit     = 5 * time.Second
	saysEvery     = time.Minute // between two lines about refused streams
	maxGreetings  = 64          // that go on at once; beyond it the oldest ends
)

// Options of a Port. All but Dial and TLS are required.
type Options struct {
	Self     Member
	Token    string
	Listener net.Listener // the port closes it
	// Dial opens a connection to host:port. Nil: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	TLS  *tls.Config // both ends show certificates; nil: streams are not encrypted
	// Seed is that of the cluster, zeros while it is not known.
	Seed func() [16]byte
	// Begun says that the node's log shows a cluster of which it may not know the seed.
	Begun bool
	Now   func() time.Time
	Log   zerolog.Logger
}

// Port is a node's place in its cluster: it accepts streams of other nodes and opens streams to them. Close ends it.
type Port struct {
	o       Options
	raft    *lane
	forward *lane
	heard   atomic.Bool // another node has said that its cluster has a seed
	begun   atomic.Bool // there is a cluster, and a seed or none yet
	stop    chan struct{}
	once    sync.Once
	done    sync.WaitGroup

	mu    sync.Mutex
	open  map[net.Conn]Kind // accepted connections; 0 while the greeting goes on
	fresh []net.Conn        // of them, those whose greeting goes on, the oldest first
	said  time.Time
	quiet int
}

// New returns a port that accepts.
func New(o Options) (*Port, error) {
	if o.Self.ID == "" || o.Token == "" || o.Listener == nil || o.Seed == nil || o.Now == nil {
		return nil, errors.New("peer port: id, token, listener, seed and clock are needed")
	}
	if o.Dial == nil {
		dialer := &net.Dialer{Timeout: dialLimit}
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}
	}
	o.secure()
	p := &Port{o: o, stop: make(chan struct{}), open: map[net.Conn]Kind{}}
	p.begun.Store(o.Begun)
	address := named(o.Self.Address())
	if o.Self.Raft == "" { // nothing tells its address yet: it is added to a cluster with one
		address = named(o.Self.ID)
	}
	p.raft = &lane{port: p, address: address, conns: make(chan net.Conn), stop: make(chan struct{})}
	p.forward = &lane{port: p, address: address, conns: make(chan net.Conn), stop: make(chan struct{})}
	p.done.Go(p.accept)
	return p, nil
}

// Lane gives the streams of one kind, as a listener. Closing it leaves the port open.
func (p *Port) Lane(k Kind) net.Listener {
	if k == Raft {
		return p.raft
	}
	return p.forward
}

// Seed asks a member for the seed of its cluster: zeros when it has heard of none. One that knows of a cluster and not of its seed is an error.
func (p *Port) Seed(ctx context.Context, to, address string) ([16]byte, error) {
	c, seed, err := p.dial(ctx, to, address, Ask)
	if err != nil {
		return seed, err
	}
	return seed, ignoreClosed(c.Close())
}

// Begin notes that there is a cluster: a leader has called.
func (p *Port) Begin() { p.begun.Store(true) }

// Heard says whether there is a cluster: a leader has called, or a node that looks for this one, or was found by it, knows a seed.
func (p *Port) Heard() bool { return p.heard.Load() || p.begun.Load() }

// hear notes the seed of another node, after its proof.
func (p *Port) hear(seed [16]byte) {
	if seed != [16]byte{} {
		p.heard.Store(true)
	}
}

// Dial opens a stream of one kind to a member, whose address is that of raft's configuration.
func (p *Port) Dial(ctx context.Context, to, address string, k Kind) (net.Conn, error) {
	c, _, err := p.dial(ctx, to, address, k)
	return c, err
}

func (p *Port) dial(ctx context.Context, to, address string, k Kind) (c net.Conn, seed [16]byte, err error) {
	m := Parse(to, address)
	if m.Raft == "" {
		return nil, seed, errUnreachable(to, address)
	}
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	if c, err = p.o.Dial(ctx, m.Raft); err != nil {
		return nil, seed, err
	}
	stop := context.AfterFunc(ctx, func() { drop(c) })
	defer stop()
	seed, err = greet(c, p.o.Token, hello{kind: k, seed: p.o.Seed(), from: p.o.Self.ID, to: to})
	if err != nil {
		return nil, seed, errors.Join(fmt.Errorf("node %s at %s: %w", to, m.Raft, err), ignoreClosed(c.Close()))
	}
	p.hear(seed)
	if !stop() {
		return nil, seed, fmt.Errorf("node %s at %s: %w", to, m.Raft, ctx.Err())
	}
	return c, seed, nil
}

func (p *Port) accept() {
	for {
		c, err := p.o.Listener.Accept()
		if err != nil {
			select {
			case <-p.stop:
				return
			default:
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			p.o.Log.Error().Err(err).Msg("a connection of another node was not accepted")
			select {
			case <-time.After(time.Second): // out of descriptors: others close meanwhile
				continue
			case <-p.stop:
				return
			}
		}
		p.done.Go(func() { p.receive(c) })
	}
}

func (p *Port) receive(c net.Conn) {
	if !p.note(c, true) {
		return
	}
	limit := time.AfterFunc(greetingLimit, func() { drop(c) })
	h, err := answer(c, p.o.Token, p.o.Self.ID, p.o.Seed(), p.begun.Load())
	if !limit.Stop() && err == nil {
		err = errors.New("the greeting took too long")
	}
	p.greeted(c, h.kind)
	if err == nil {
		p.hear(h.seed)
	}
	if err == nil && h.kind != Ask {
		lane := p.Lane(h.kind).(*lane)
		select {
		case lane.conns <- &stream{Conn: c, port: p}:
			return
		case <-lane.stop:
		case <-p.stop:
		}
	} else if err != nil {
		p.say(c, h, err)
	}
	p.note(c, false)
	drop(c)
}

// greeted says that a greeting has ended.
func (p *Port) greeted(c net.Conn, k Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = k
	p.fresh = slices.DeleteFunc(p.fresh, func(one net.Conn) bool { return one == c })
}

// stream is an accepted connection, which its user, or the port, closes.
type stream struct {
	net.Conn
	port *Port
}

// Close closes it.
func (s *stream) Close() error {
	s.port.note(s.Conn, false)
	return s.Conn.Close()
}

// note adds or removes an accepted connection; false: the port is closed, and so is the connection.
func (p *Port) note(c net.Conn, add bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !add {
		delete(p.open, c)
		return true
	}
	select {
	case <-p.stop:
		drop(c)
		return false
	default:
	}
	if len(p.fresh) == maxGreetings { // strangers may not use up the process's descriptors, and a node greets at once: it is not the oldest
		drop(p.fresh[0])
		p.fresh = p.fresh[1:]
	}
	p.fresh = append(p.fresh, c)
	p.open[c] = 0
	return true
}

// CloseAccepted closes the streams of one kind that were accepted: their other ends open new ones.
func (p *Port) CloseAccepted(k Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, kind := range p.open {
		if kind == k {
			drop(c)
		}
	}
}

// say tells of a refused stream, at most once a minute: whoever finds the port may not fill the log.
func (p *Port) say(c net.Conn, h hello, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return // a port scan, or a node that stops
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.Now()
	if !p.said.IsZero() && now.Sub(p.said) < saysEvery {
		p.quiet++
		return
	}
	e := p.o.Log.Warn().AnErr("why", err).Str("from", c.RemoteAddr().String())
	if h.from != "" {
		e = e.Str("node", h.from)
	}
	if p.quiet > 0 {
		e = e.Int("more", p.quiet)
	}
	p.said, p.quiet = now, 0
	e.Msg("a stream of another node was refused")
}

// Close stops accepting, and closes the streams that were accepted: raft leaves them open. Those that were dialled are their users'.
func (p *Port) Close() error {
	var err error
	p.once.Do(func() {
		p.mu.Lock()
		close(p.stop)
		for c := range p.open {
			drop(c)
		}
		p.mu.Unlock()
		err = ignoreClosed(p.o.Listener.Close())
	})
	p.done.Wait()
	return err
}

// drop closes a stream that nobody uses: its other end sees that, and there is nothing on it to lose.
func drop(c net.Conn) { _ = c.Close() }

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// lane is the listener of one kind.
type lane struct {
	port    *Port
	address named
	conns   chan net.Conn
	stop    chan struct{}
	once    sync.Once
}

var _ net.Listener = (*lane)(nil)

// Accept waits for a stream.
func (l *lane) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.stop:
	case <-l.port.stop:
	}
	return nil, net.ErrClosed
}

// Close ends Accept.
func (l *lane) Close() error {
	l.once.Do(func() { close(l.stop) })
	return nil
}

// Addr is the node's address as raft's configuration has it.
func (l *lane) Addr() net.Addr { return l.address }

// named is an address of raft's configuration.
type named string

// Network is always the same.
func (named) Network() string { return "queen" }

func (n named) String() string { return string(n) }
