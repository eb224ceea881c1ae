package upload

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"queen/stages"
)

// earlyConn is a connection to a store that answers as soon as it has seen the start of a request. Its writes are slow: the one that holds the
// first bytes of the body ends only when late is closed, and then well, although the connection was closed in between.
type earlyConn struct {
	answer string
	late   chan struct{}

	begun  chan struct{} // closed by the first write
	closed chan struct{}
	mu     sync.Mutex
	sent   bytes.Buffer
	writes int
	once   sync.Once
	read   int
}

var _ net.Conn = (*earlyConn)(nil)

func newEarlyConn(answer string) *earlyConn {
	return &earlyConn{answer: answer, late: make(chan struct{}), begun: make(chan struct{}), closed: make(chan struct{})}
}

func (c *earlyConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.sent.Write(p)
	c.writes++
	n := c.writes
	c.mu.Unlock()
	if n == 1 {
		close(c.begun)
	} else {
		<-c.late
	}
	return len(p), nil
}

func (c *earlyConn) Read(p []byte) (int, error) {
	<-c.begun
	if c.read < len(c.answer) {
		n := copy(p, c.answer[c.read:])
		c.read += n
		return n, nil
	}
	<-c.closed
	return 0, io.EOF
}

func (c *earlyConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (*earlyConn) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (*earlyConn) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (*earlyConn) SetDeadline(time.Time) error      { return nil }
func (*earlyConn) SetReadDeadline(time.Time) error  { return nil }
func (*earlyConn) SetWriteDeadline(time.Time) error { return nil }

// A store may answer before it has read the body, while the transport still sends it. Then the chunks are released and soon another window's:
// no byte of that may go out under the first one's name.
func TestBodyIsNotReadAfterItsAnswer(t *testing.T) {
	const yes = "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 0\r\n\r\n"
	const no = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
	for name, c := range map[string]struct {
		answer string
		part   bool
		fails  bool
	}{"part": {yes, true, false}, "put": {yes, false, false}, "refused part": {no, true, true}, "refused put": {no, false, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := newEarlyConn(c.answer)
				client, err := New(ClientOptions{Endpoint: "http://early.test", Region: "r", Bucket: "b", AccessKey: "a", SecretKey: "s", PathStyle: true,
					Dial: func(context.Context, string, string) (net.Conn, error) { return conn, nil }})
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				chunk := bytes.Repeat([]byte("first "), stages.ChunkBytes/6)
				if c.part {
					_, err = client.part(t.Context(), "k", "id", 1, [][]byte{chunk}, sha(chunk))
				} else {
					err = client.put(t.Context(), "k", "text/plain", [][]byte{chunk}, digests{sha(chunk), ""})
				}
				if (err != nil) != c.fails {
					t.Fatal(err)
				}
				for i := range chunk {
					chunk[i] = '!'
				}
				close(conn.late) // and the transport goes on
				synctest.Wait()
				conn.mu.Lock()
				defer conn.mu.Unlock()
				if conn.writes < 2 || conn.sent.Len() > stages.ChunkBytes {
					t.Errorf("%d writes of %d bytes: the test does not test anything", conn.writes, conn.sent.Len())
				}
				if n := bytes.Count(conn.sent.Bytes(), []byte("!!!!")); n != 0 {
					t.Errorf("the bytes of another window went out: %d of %d", 4*n, conn.sent.Len())
				}
			})
		})
	}
}

// A body whose attempt is over reads nothing, wherever it stood.
func TestDetachedBody(t *testing.T) {
	b := newBody([][]byte{[]byte("ab"), []byte("cd")})
	buf := make([]byte, 3)
	if n, err := b.Read(buf); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	b.detach()
	for range 2 {
		if n, err := b.Read(buf); n != 0 || !errors.Is(err, errDetached) {
			t.Errorf("%d bytes, %v", n, err)
		}
		if _, err := b.Seek(0, io.SeekStart); err != nil {
			t.Error(err)
		}
	}
}
