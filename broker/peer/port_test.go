package peer

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, id, token string, seed byte) (*Port, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	self := Member{ID: id, Raft: l.Addr().String(), HTTP: "127.0.0.1:1"}
	p, err := New(Options{Self: self, Token: token, Listener: l, Seed: func() [16]byte { return [16]byte{seed} }, Now: time.Now, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, self.Address()
}

// TestStream: a stream of each kind carries bytes both ways, to the listener of its kind.
func TestStream(t *testing.T) {
	a, _ := open(t, "1", "secret", 7)
	b, address := open(t, "2", "secret", 0)
	for _, kind := range []Kind{Raft, Forward} {
		got := make(chan string, 1)
		go func() {
			c, err := b.Lane(kind).Accept()
			if err != nil {
				got <- err.Error()
				return
			}
			text := make([]byte, 5)
			_, err = io.ReadFull(c, text)
			if err == nil {
				_, err = c.Write(text)
			}
			drop(c)
			got <- string(text)
		}()
		c, err := a.Dial(t.Context(), "2", address, kind)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "hello"); err != nil {
			t.Fatal(err)
		}
		back, err := io.ReadAll(c)
		if err != nil || string(back) != "hello" || <-got != "hello" {
			t.Errorf("kind %d: %q, %v", kind, back, err)
		}
		drop(c)
	}
}

// TestRefused: whoever does not know the token, looks for another node, or is of another cluster gets no stream, and is told why.
func TestRefused(t *testing.T) {
	b, address := open(t, "2", "secret", 7)
	go func() {
		for {
			c, err := b.Lane(Raft).Accept()
			if err != nil {
				return
			}
			t.Error("a stream was let in")
			drop(c)
		}
	}()
	for _, c := range []struct {
		id, token string
		seed      byte
		to        string
		want      string
	}{
		{"1", "other", 7, "2", "refuses this node's token"},
		{"1", "secret", 7, "3", "another node answers"},
		{"1", "secret", 8, "2", "another cluster"},
	} {
		a, _ := open(t, c.id, c.token, c.seed)
		_, err := a.Dial(t.Context(), c.to, address, Raft)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := b.Dial(t.Context(), "9", "9", Raft); err == nil || !strings.Contains(err.Error(), "founded alone") {
		t.Errorf("an address that is an id: %v", err)
	}
}

// TestImpostor: an acceptor that does not know the token is found out, whatever it answers.
func TestImpostor(t *testing.T) {
	for _, say := range []func(c net.Conn, h hello){
		func(c net.Conn, h hello) { io.WriteString(c, strings.Repeat("\x00", 1+16+32)) },
		func(c net.Conn, h hello) {
			c.Write(append(make([]byte, 17), h.proof("guess", "acceptor", [32]byte{}, [16]byte{})...))
		},
		func(c net.Conn, h hello) {
			c.Write(append(make([]byte, 17), h.proof("secret", "dialler", [32]byte{}, [16]byte{})...))
		},
	} {
		here, there := net.Pipe()
		go func() {
			if _, err := there.Write(append([]byte(greetingMagic+"\x01"), make([]byte, nonceLen)...)); err == nil {
				if h, _, err := readHello(there); err == nil {
					say(there, h)
				}
			}
			drop(there)
		}()
		if _, err := greet(here, "secret", hello{kind: Raft, from: "1", to: "2"}); err == nil {
			t.Error("an impostor is believed")
		}
		drop(here)
	}
}

// TestReplay: what a dialler said once is worth nothing a second time.
func TestReplay(t *testing.T) {
	record := func() []byte {
		here, there := net.Pipe()
		said := make(chan []byte, 1)
		go func() {
			if _, err := there.Write(append([]byte(greetingMagic+"\x01"), make([]byte, nonceLen)...)); err != nil {
				t.Error(err)
			}
			text := make([]byte, 1+nonceLen+seedLen+2+2+32)
			if _, err := io.ReadFull(there, text); err != nil {
				t.Error(err)
			}
			drop(there)
			said <- text
		}()
		if _, err := greet(here, "secret", hello{kind: Raft, from: "1", to: "2"}); err == nil {
			t.Error("greeted by nobody")
		}
		drop(here)
		return <-said
	}
	text := record()
	here, there := net.Pipe()
	go func() {
		first := make([]byte, len(greetingMagic)+1+nonceLen)
		if _, err := io.ReadFull(here, first); err == nil {
			here.Write(text)
			io.Copy(io.Discard, here)
		}
	}()
	if _, err := answer(there, "secret", "2", [16]byte{}, false); err == nil {
		t.Error("a replay is let in")
	}
	drop(there)
	drop(here)
}

// TestSilent: a connection that says nothing does not hold up a close, nor others.
func TestSilent(t *testing.T) {
	b, address := open(t, "2", "secret", 7)
	silent, err := net.Dial("tcp", Parse("2", address).Raft)
	if err != nil {
		t.Fatal(err)
	}
	defer drop(silent)
	a, _ := open(t, "1", "secret", 7)
	go func() {
		if c, err := b.Lane(Forward).Accept(); err == nil {
			drop(c)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	c, err := a.Dial(ctx, "2", address, Forward)
	if err != nil {
		t.Fatal(err)
	}
	drop(c)
}
