package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
)

// Files are what a node needs to speak TLS with the others: files in PEM. All nodes of a cluster have it, or none.
type Files struct {
	Cert, Key string // this node's certificate, for the host of its raft address, with the chain behind it; and its key
	CA        string // who signs the certificates of all nodes
}

// Load reads the files. Both ends of a stream have to show a certificate that the CA signed; the greeting goes on behind that, as without TLS.
func (f Files) Load() (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	text, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", f.CA)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{own},
		RootCAs:      pool,
		ClientCAs:    pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}, nil
}

// secure puts TLS under the streams that are accepted and those that are dialled.
func (o *Options) secure() {
	if o.TLS == nil {
		return
	}
	o.Listener = listener{o.Listener, o.TLS}
	plain := o.Dial
	o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		c, err := plain(ctx, address)
		if err != nil {
			return nil, err
		}
		config := o.TLS.Clone()
		config.ServerName = host
		over := tls.Client(c, config)
		if err := over.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("TLS with the node at %s: %w", address, err), ignoreClosed(c.Close()))
		}
		return encrypted{over}, nil
	}
}

// listener puts TLS under what it accepts. The handshake is a part of the greeting, and of its limit.
type listener struct {
	net.Listener
	config *tls.Config
}

// Accept waits for a connection.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return encrypted{tls.Server(c, l.config)}, nil
}

// encrypted is a stream that ends as others do, at once: TLS would wait until the other end takes its last words, and whatever is spoken here says itself where it ends.
type encrypted struct{ *tls.Conn }

// Close closes the connection.
func (c encrypted) Close() error { return c.NetConn().Close() }
