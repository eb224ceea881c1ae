package raftnode

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"queen/broker/command"
	"queen/stages"
)

// A disk that never answers: the caller is told after 30 s what is known, not earlier and not never.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		fatal := func(err error) { t.Error("fatal:", err) }
		o := Options{Dir: "unused", NodeID: "1", Now: time.Now, Log: zerolog.Nop(), Fatal: fatal}
		on(s)(&o)
		n, err := Open(t.Context(), o, &tape{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		release := s.hold()
		type end struct {
			err  error
			took time.Duration
		}
		ends := make(chan end)
		began := time.Now()
		for i := range 40 { // more than may be in flight
			go func() {
				_, err := n.Propose(context.Background(), command.KindPush, fmt.Appendf(nil, "%d", i))
				ends <- end{err, time.Since(began)}
			}()
			synctest.Wait()
		}
		unclear, refused := 0, 0
		for range 40 {
			e := <-ends
			switch {
			case e.took != answerLimit:
				t.Errorf("answered after %s: %v", e.took, e.err)
			case errors.Is(e.err, stages.ErrUnclear):
				unclear++
			case errors.Is(e.err, ErrNoLeader):
				refused++
			default:
				t.Errorf("answer %v", e.err)
			}
		}
		if unclear == 0 || unclear > 2*maxEntries+1 || unclear+refused != 40 {
			t.Errorf("%d unclear, %d refused", unclear, refused)
		}
		release()
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestFullDiskHeals(t *testing.T) {
	s, m := newMemStore(), &tape{}
	n := open(t, m, on(s))
	full := fmt.Errorf("write: %w", error(syscall.ENOSPC))
	s.fail.Store(&full)
	if _, err := n.Propose(t.Context(), command.KindPush, []byte("first")); !errors.Is(err, ErrDiskFull) || !errors.Is(err, stages.ErrUnclear) {
		t.Errorf("the command that met the full disk: %v", err)
	}
	waitFor(t, func() bool { return !n.Leads() })
	if _, err := n.Propose(t.Context(), command.KindPush, []byte("second")); !errors.Is(err, ErrDiskFull) || errors.Is(err, stages.ErrUnclear) {
		t.Errorf("the next one: %v", err)
	}
	s.fail.Store(nil)
	waitFor(t, n.Leads)
	if _, err := n.Propose(t.Context(), command.KindPush, []byte("third")); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if got := m.seen(); len(got) == 0 || got[len(got)-1] != "third" {
		t.Errorf("applied %q", got)
	}
}
