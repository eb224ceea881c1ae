package raftnode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"queen/broker/command"
)

func TestRestartReplays(t *testing.T) {
	dir := t.TempDir()
	m := &tape{}
	n := open(t, m, func(o *Options) { o.Dir = dir })
	big := bytes.Repeat([]byte("b"), 3<<20)
	for i := range 20 {
		body := binary.BigEndian.AppendUint32(nil, uint32(i))
		if i%5 == 0 {
			body = append(body, big...)
		}
		if _, err := n.Propose(t.Context(), command.KindPush, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := n.Propose(t.Context(), command.KindPush, nil); !errors.Is(err, ErrNoLeader) {
		t.Errorf("propose after close: %v", err)
	}

	again := &tape{} // a state that lost everything
	open(t, again, func(o *Options) { o.Dir = dir })
	if !slices.Equal(again.seen(), m.seen()) {
		t.Fatalf("replayed %d commands, had %d", len(again.seen()), len(m.seen()))
	}
	if !slices.Equal(again.stamps, m.stamps) {
		t.Error("replayed stamps differ")
	}
}

// The folder of node 1 is not that of node 2, and both are named.
func TestFolderOfAnotherNode(t *testing.T) {
	s := newMemStore()
	n, err := tryOpen(&tape{}, on(s))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = tryOpen(&tape{}, func(o *Options) { on(s)(o); o.NodeID = "2" })
	if err == nil || !strings.Contains(err.Error(), "that of node 1, and this is node 2") {
		t.Errorf("opened as node 2: %v", err)
	}
}

func TestRestartWithAHalfFullState(t *testing.T) {
	s, m := newMemStore(), &tape{}
	n := open(t, m, on(s))
	for i := range 10 {
		if _, err := n.Propose(t.Context(), command.KindPush, []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	half := &tape{applied: m.applied - 5, now: m.now}
	open(t, half, on(s))
	if got := len(half.seen()); got >= 10 || got == 0 {
		t.Errorf("a state that had all but 5 entries was given %d commands", got)
	}
}

func TestRefusesALogThatDoesNotFitTheState(t *testing.T) {
	s := newMemStore()
	n := open(t, &tape{}, on(s))
	for range 10 {
		if _, err := n.Propose(t.Context(), command.KindPush, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	last, _ := s.LastIndex()
	if _, err := tryOpen(&tape{applied: last + 1}, on(s)); err == nil || !strings.Contains(err.Error(), "the end of the log is lost") {
		t.Errorf("state ahead of the log: %v", err)
	}
	if err := s.DeleteRange(1, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := tryOpen(&tape{applied: 4}, on(s)); err == nil || !strings.Contains(err.Error(), "begins at entry 6 but the state ends at entry 4") {
		t.Errorf("state behind the log: %v", err)
	}
}

// unreadable fails to read one entry.
type unreadable struct {
	*memStore
	index uint64
}

func (u *unreadable) GetLog(index uint64, into *raft.Log) error {
	if index == u.index {
		return errors.New("checksum differs")
	}
	return u.memStore.GetLog(index, into)
}

func TestUnreadableEntryIsOneLine(t *testing.T) {
	s := newMemStore()
	n := open(t, &tape{}, on(s))
	for range 5 {
		if _, err := n.Propose(t.Context(), command.KindPush, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := tryOpen(&tape{}, func(o *Options) {
		o.OpenStore = func(string) (Store, error) { return &unreadable{s, 4}, nil }
	})
	if err == nil || !strings.Contains(err.Error(), "the raft log is damaged") || !strings.Contains(err.Error(), "checksum differs") {
		t.Errorf("open: %v", err)
	}
}
