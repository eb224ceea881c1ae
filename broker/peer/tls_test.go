package peer

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"queen/internal/certtest"
	"queen/internal/pipenet"
)

// node is what a node at an IP address loads.
func node(t *testing.T, a *certtest.Authority, ip string) *tls.Config {
	t.Helper()
	cert, key := a.Node(t, ip)
	c, err := Files{Cert: cert, Key: key, CA: a.CA}.Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTLS: with TLS on both ends a stream carries bytes both ways, and no byte of them is to be seen between.
func TestTLS(t *testing.T) {
	ca := certtest.New(t)
	a, _, _ := openTLS(t, nil, "1", node(t, ca, "127.0.0.1"))
	b, address, seen := openTLS(t, nil, "2", node(t, ca, "127.0.0.1"))
	go func() {
		c, err := b.Lane(Raft).Accept()
		if err != nil {
			return
		}
		_, _ = io.Copy(c, c)
		drop(c)
	}()
	c, err := a.Dial(t.Context(), "2", address, Raft)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("a record of somebody ", 100)
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, len(text))
	if _, err := io.ReadFull(c, back); err != nil || string(back) != text {
		t.Errorf("%q, %v", back, err)
	}
	drop(c)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if got := seen(); len(got) < len(text) || strings.Contains(got, "somebody") || strings.Contains(got, greetingMagic) {
		t.Errorf("on the wire: %q", got)
	}
}

// TestTLSRefused: a node without TLS, with a certificate that another authority signed, or of another host gets no stream.
func TestTLSRefused(t *testing.T) {
	ca, other := certtest.New(t), certtest.New(t)
	good := node(t, ca, "127.0.0.1")
	strangerTrusts := node(t, other, "127.0.0.1") // it trusts the cluster's authority and cannot show what that signed
	strangerTrusts.RootCAs = good.RootCAs
	for _, c := range []struct {
		name         string
		dials, takes *tls.Config
		want         string
	}{
		{"the other has none", good, nil, "first record does not look like a TLS handshake"},
		{"the dialler's is signed by another", strangerTrusts, good, "unknown certificate authority"},
		{"the other's is signed by another", good, node(t, other, "127.0.0.1"), "certificate signed by unknown authority"},
		{"the other's is that of another host", good, node(t, ca, "127.0.0.9"), "127.0.0.9, not 127.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _, _ := openTLS(t, nil, "1", c.dials)
			b, address, _ := openTLS(t, nil, "2", c.takes)
			refused(t, a, b, address, c.want)
		})
	}
}

// TestTLSWanted: a node without TLS is not let in, and is told what may be the reason when the other's patience ends.
func TestTLSWanted(t *testing.T) {
	ca := certtest.New(t)
	synctest.Test(t, func(t *testing.T) {
		var n pipenet.Net
		a, _, _ := openTLS(t, &n, "1", nil)
		b, address, _ := openTLS(t, &n, "2", node(t, ca, "127.0.0.1"))
		refused(t, a, b, address, "")
	})
	here, there := net.Pipe()
	drop(there)
	if _, err := greet(here, "secret", hello{kind: Raft, from: "1", to: "2"}); err == nil || !strings.Contains(err.Error(), "QUEEN_RAFT_TLS_CERT") {
		t.Error(err)
	}
	drop(here)
}

// refused sees that b lets no stream of a in.
func refused(t *testing.T, a, b *Port, address, want string) {
	t.Helper()
	go func() {
		if c, err := b.Lane(Raft).Accept(); err == nil {
			t.Error("a stream was let in")
			drop(c)
		}
	}()
	s, err := a.Dial(t.Context(), "2", address, Raft)
	if err == nil {
		drop(s)
		t.Fatal("a stream")
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestTLSFiles: what is wrong with a file is said with its name.
func TestTLSFiles(t *testing.T) {
	ca, dir := certtest.New(t), t.TempDir()
	cert, key := ca.Node(t, "127.0.0.1")
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range []Files{
		{at("none"), key, ca.CA}, {cert, at("none"), ca.CA}, {cert, key, at("none")},
		{at("empty"), key, ca.CA}, {cert, at("empty"), ca.CA}, {cert, key, at("empty")},
	} {
		if _, err := f.Load(); err == nil || !strings.Contains(err.Error(), at("none")) && !strings.Contains(err.Error(), at("empty")) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// openTLS opens a port, on TCP when there is no other network, and a function that gives what came in on it.
func openTLS(t *testing.T, n *pipenet.Net, id string, c *tls.Config) (*Port, string, func() string) {
	t.Helper()
	listen, dial := func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }, (func(context.Context, string) (net.Conn, error))(nil)
	if n != nil {
		listen, dial = func() (net.Listener, error) { return n.Listen("127.0.0.1:740" + id) }, n.Dialer("127.0.0.1:740"+id)
	}
	l, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	self := Member{ID: id, Raft: l.Addr().String(), HTTP: "127.0.0.1:1"}
	tap := &tapped{Listener: l}
	p, err := New(Options{Self: self, Token: "secret", Listener: tap, Dial: dial, TLS: c, Seed: func() [16]byte { return [16]byte{} }, Now: time.Now, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, self.Address(), tap.text
}

// tapped keeps what its connections read.
type tapped struct {
	net.Listener
	mu   sync.Mutex
	read []byte
}

func (l *tapped) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &tap{c, l}, err
}

func (l *tapped) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.read)
}

type tap struct {
	net.Conn
	to *tapped
}

func (c *tap) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.to.mu.Lock()
	defer c.to.mu.Unlock()
	c.to.read = append(c.to.read, b[:n]...)
	return n, err
}
