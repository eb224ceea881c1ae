package raftnode

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"

	"queen/broker/command"
)

// readCounter counts what is read of a log.
type readCounter struct {
	*memStore
	reads atomic.Int64
}

func (s *readCounter) GetLog(index uint64, into *raft.Log) error {
	s.reads.Add(1)
	return s.memStore.GetLog(index, into)
}

func filled(t *testing.T, entries int) (*memStore, *tape) {
	t.Helper()
	s, m := newMemStore(), &tape{}
	n := open(t, m, on(s))
	for i := range entries {
		if _, err := n.Propose(t.Context(), command.KindPush, []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	return s, m
}

// TestStartReadsWhatTheStateMisses: a start reads of the log what the state does not have, and little more, however long the log is.
func TestStartReadsWhatTheStateMisses(t *testing.T) {
	s, m := filled(t, 300)
	for _, misses := range []uint64{0, 7} {
		again := &tape{applied: m.applied - misses, now: m.now}
		c := &readCounter{memStore: s}
		n := open(t, again, func(o *Options) { o.OpenStore = func(string) (Store, error) { return c, nil }; o.CacheBytes = -1 })
		if got := c.reads.Load(); got > 2*int64(misses)+20 {
			t.Errorf("%d entries were read at the start of a state that misses %d of %d", got, misses, m.applied)
		}
		if _, err := n.Propose(t.Context(), command.KindPush, []byte("next")); err != nil {
			t.Fatal(err)
		}
		if seen := again.seen(); len(seen) > int(misses)+1 || (len(seen) > 1) != (misses > 0) || seen[len(seen)-1] != "next" {
			t.Errorf("applied %q", seen)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		m = again
	}
}

func TestCheck(t *testing.T) {
	s, m := filled(t, 20)
	last, err := s.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Check("d", s, m.applied-3, Base{}); got != last || err != nil {
		t.Errorf("whole: %d, %v", got, err)
	}
	if _, err := Check("d", s, last+1, Base{}); err == nil || !strings.Contains(err.Error(), "the end of the log is lost") {
		t.Errorf("a state ahead of its log: %v", err)
	}
	var e raft.Log
	if err := s.GetLog(m.applied-2, &e); err != nil {
		t.Fatal(err)
	}
	e.Data = slices.Clone(e.Data)
	e.Data[len(e.Data)-1] ^= 1
	if err := s.InmemStore.StoreLogs([]*raft.Log{&e}); err != nil {
		t.Fatal(err)
	}
	if _, err := Check("d", s, m.applied-3, Base{}); !errors.Is(err, errEntryDamaged) {
		t.Errorf("a damaged entry that the state misses: %v", err)
	}
	if _, err := Check("d", s, m.applied-2, Base{}); err != nil {
		t.Errorf("a damaged entry that the state has: %v", err)
	}
}

// TestNothingIsWrittenAfterAFailure: raft takes a failed write for a reason to elect again, and would write on to a disk of which
// nobody knows what it holds.
func TestNothingIsWrittenAfterAFailure(t *testing.T) {
	s := newMemStore()
	told := 0
	l := &logs{store: s, fatal: func(error) { told++ }}
	entry := &raft.Log{Index: 1, Term: 1, Data: []byte("x")}
	if err := l.StoreLog(entry); err != nil {
		t.Fatal(err)
	}
	eio := error(syscall.EIO)
	s.fail.Store(&eio)
	if err := l.StoreLog(&raft.Log{Index: 2, Term: 1}); !errors.Is(err, syscall.EIO) {
		t.Errorf("%v", err)
	}
	s.fail.Store(nil)
	if err := l.StoreLog(&raft.Log{Index: 2, Term: 2}); err == nil || s.writes.Load() != 1 || told != 1 {
		t.Errorf("%v, %d writes, told %d times", err, s.writes.Load(), told)
	}
	if err := l.DeleteRange(1, 1); err == nil {
		t.Error("entries were removed after a failure")
	}
}
