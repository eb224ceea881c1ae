// Package certtest signs the certificates of nodes for tests: an authority, and what a node gets from it, as files in PEM.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	CA   string // its own certificate, a file
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// New makes an authority, whose files go with the test.
func New(t *testing.T) *Authority {
	t.Helper()
	a := &Authority{dir: t.TempDir(), key: newKey(t)}
	text := a.sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, &a.key.PublicKey)
	a.CA = a.write(t, "ca.pem", "CERTIFICATE", text)
	var err error
	if a.cert, err = x509.ParseCertificate(text); err != nil {
		t.Fatal(err)
	}
	return a
}

// Node gives the certificate of a node at a host, a name or an IP address, and its key.
func (a *Authority) Node(t *testing.T, host string) (cert, key string) {
	t.Helper()
	k := newKey(t)
	ask := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if ip := net.ParseIP(host); ip != nil {
		ask.IPAddresses = []net.IP{ip}
	} else {
		ask.DNSNames = []string{host}
	}
	signed := a.sign(t, ask, &k.PublicKey)
	text, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return a.write(t, host+".pem", "CERTIFICATE", signed), a.write(t, host+"-key.pem", "EC PRIVATE KEY", text)
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (a *Authority) sign(t *testing.T, c *x509.Certificate, key *ecdsa.PublicKey) []byte {
	t.Helper()
	c.SerialNumber, c.Subject = big.NewInt(1), pkix.Name{CommonName: "queen"}
	c.NotBefore, c.NotAfter = time.Unix(0, 0), time.Unix(1<<32, 0) // a bubble's clock stands in 2000
	parent := a.cert
	if parent == nil {
		parent = c
	}
	text, err := x509.CreateCertificate(rand.Reader, c, parent, key, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (a *Authority) write(t *testing.T, name, kind string, text []byte) string {
	t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: text}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
