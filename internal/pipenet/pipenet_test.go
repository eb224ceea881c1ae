package pipenet

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestACutLinkSaysNothing: what is written on a cut link, and the end of a stream, are heard when it heals; who closes is done at once.
func TestACutLinkSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n Net
		l, err := n.Listen("b")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		accepted := make(chan net.Conn, 1)
		go func() {
			if c, err := l.Accept(); err == nil {
				accepted <- c
			}
		}()
		a, err := n.Dialer("a")(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		b := <-accepted
		defer b.Close()
		n.Cut("a", "b", true)
		if err := a.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("written on a cut link: %v", err)
		}
		own, heard := make(chan error, 1), make(chan error, 1)
		go func() { _, err := a.Read(make([]byte, 1)); own <- err }()
		go func() { _, err := b.Read(make([]byte, 1)); heard <- err }()
		synctest.Wait()
		for range 2 {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := <-own; !errors.Is(err, net.ErrClosed) {
			t.Errorf("who closed reads %v", err)
		}
		if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("who closed writes: %v", err)
		}
		time.Sleep(time.Hour)
		select {
		case err := <-heard:
			t.Errorf("the end of a stream crossed a cut link: %v", err)
		default:
		}
		n.Cut("a", "b", false)
		if err := <-heard; !errors.Is(err, io.EOF) {
			t.Errorf("when it heals the other side reads %v", err)
		}
	})
}
