package raftnode

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"queen/broker/command"
)

// TestTruncate: a log that was cut opens for a state that has what is gone, and for no other; members and term are still known, and
// what goes on is stored behind what was left.
func TestTruncate(t *testing.T) {
	dir, m := t.TempDir(), &tape{}
	disk := func(o *Options) {
		o.Dir = dir
		o.OpenStore = func(dir string) (Store, error) { return OpenDisk(dir, 64<<10, zerolog.Nop()) }
	}
	n := open(t, m, disk)
	for i := range 40 {
		if _, err := n.Propose(t.Context(), command.KindPush, append([]byte{byte(i)}, bytes.Repeat([]byte("b"), 8<<10)...)); err != nil {
			t.Fatal(err)
		}
	}
	full := n.LogBytes()
	if full < 40*8<<10-128<<10 || full > 40*9<<10 {
		t.Errorf("%d bytes in full files", full)
	}
	at := m.Applied()
	before, err := n.Point(at)
	if err != nil || before.Term == 0 || before.MembersAt != 1 {
		t.Fatal(before, err)
	}
	if _, err := n.Truncate(at + 1); err == nil {
		t.Error("what was not applied may be cut off")
	}
	for range 2 {
		if whole, err := n.Truncate(at); err != nil || !whole {
			t.Fatal(err)
		}
	}
	if first := n.Status().FirstLog; first != at || n.LogBytes() > 128<<10 {
		t.Errorf("the log begins at entry %d, want %d, with %d bytes", first, at, n.LogBytes())
	}
	if after, err := n.Point(at); err != nil || after.Term != before.Term {
		t.Errorf("%+v, %v", after, err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for _, missing := range []uint64{1, 2, at} {
		if _, err := tryOpen(&tape{applied: at - missing}, disk); err == nil || !strings.Contains(err.Error(), "what lies between is missing") {
			t.Errorf("a state that is %d entries behind the first one: %v", missing, err)
		}
	}
	if _, err := tryOpen(m, func(o *Options) { disk(o); o.NodeID = "2" }); err == nil || !strings.Contains(err.Error(), "that of node 1, and this is node 2") {
		t.Errorf("another node: %v", err)
	}
	again := &tape{applied: m.applied, now: m.now}
	n = open(t, again, disk)
	if after, err := n.Point(at); err != nil || after.MembersAt != 1 || !bytes.Equal(after.Members, before.Members) {
		t.Errorf("after a restart %+v, %v, want %+v", after, err, before)
	}
	if _, err := n.Propose(t.Context(), command.KindPush, []byte("next")); err != nil {
		t.Fatal(err)
	}
	if got := again.seen(); !slices.Equal(got, []string{"next"}) {
		t.Errorf("applied %q", got)
	}
}

// TestMembersLost: a log without entry 1, and nothing that names the members.
func TestMembersLost(t *testing.T) {
	s, m := filled(t, 10)
	if err := s.DeleteRange(1, m.applied-1); err != nil {
		t.Fatal(err)
	}
	if _, err := tryOpen(&tape{applied: m.applied, now: m.now}, on(s)); err == nil || !strings.Contains(err.Error(), "does not name the members") {
		t.Errorf("%v", err)
	}
	if err := s.Set([]byte(membersKey), []byte("12345678 what raft cannot read")); err != nil {
		t.Fatal(err)
	}
	if _, err := tryOpen(&tape{applied: m.applied, now: m.now}, on(s)); !errors.Is(err, errEntryDamaged) {
		t.Errorf("%v", err)
	}
}

// TestRaftTakesNoSnapshots: raft must not be led to cut the log.
func TestRaftTakesNoSnapshots(t *testing.T) {
	s, m := newMemStore(), &tape{}
	n := open(t, m, on(s))
	if _, err := n.Propose(t.Context(), command.KindPush, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := n.raft.Snapshot().Error(); err == nil || !strings.Contains(err.Error(), errNoStream.Error()) {
		t.Errorf("%v", err)
	}
	if first, err := s.FirstIndex(); first != 1 || err != nil {
		t.Errorf("the log begins at entry %d, %v", first, err)
	}
}
