package raftnode

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/types"
)

// Snapshots are taken and the log is cut by the broker, not by raft. raft would do both when asked (raft.Snapshot), but what it
// knows does not fit: it counts entries where disks count bytes; its snapshot stands at the last entry that went to the machine, which may be a
// barrier that no state has seen, while the state on disk stands at some later command; and it cuts the log as soon as
// the snapshot is there, before older ones are gone. The index at which the state stands decides everything here: which entries
// may go (Truncate), what a start reads (standing), and whether a log continues a state (Check). raft learns nothing of it and needs
// nothing: it reads no entry below what was applied, except for a follower that is behind, to which it then sends a snapshot.

// Point is what a snapshot at an index has to know of the log.
type Point struct {
	Term      uint64 // of the entry with that index
	MembersAt uint64 // raft index of the entry that named the members of the cluster
	Members   []byte // data of that entry
}

// Point describes the entry with this index, which was applied and has not been cut off.
func (n *Node) Point(index uint64) (Point, error) {
	var e raft.Log
	if err := n.logs.GetLog(index, &e); err != nil {
		return Point{}, fmt.Errorf("raft log: %w", err)
	}
	m := n.kept()
	return Point{Term: e.Term, MembersAt: m.index, Members: m.data}, nil
}

// Truncate removes the entries below index from the log, which a durable snapshot at index stands for. The entry itself stays: its
// term is needed, and a log is never empty. So do, on a leader, those that a follower which answers still lacks, for holdLimit: it is whole then
// or not. It may run beside Propose. After an error the log holds what it held, or less by what was to go, and Truncate may be called again.
func (n *Node) Truncate(index uint64) (whole bool, err error) {
	first, err := n.logs.FirstIndex()
	if err != nil {
		return false, fmt.Errorf("raft log: %w", err)
	}
	if applied := n.machine.to.Applied(); index > applied {
		return false, fmt.Errorf("raft log: it may not be cut at entry %d, the state has applied entry %d", index, applied)
	}
	cut := n.holdFor(index)
	if cut <= first {
		return cut == index || index <= first, nil
	}
	if first == 1 {
		if err := n.store.Set([]byte(membersKey), n.kept().encode()); err != nil {
			return false, fmt.Errorf("raft log: keep the members of the cluster: %w", err)
		}
	}
	if err := n.logs.DeleteRange(first, cut-1); err != nil {
		return false, fmt.Errorf("raft log: cut off entries %d to %d: %w", first, cut-1, err)
	}
	return cut == index, nil
}

const (
	liveWithin = 10 * time.Second // a follower that answered so long ago is not waited for
	holdLimit  = 10 * time.Minute // and none is waited for longer: it gets a snapshot then
)

// holdFor returns the entry below which nothing is needed by followers that answer, at most index.
func (n *Node) holdFor(index uint64) uint64 {
	if n.followers == nil || n.raft.State() != raft.Leader {
		n.heldSince.Store(0)
		return index
	}
	now, cut := n.o.Elapsed(), index
	for _, s := range n.Members() {
		if f, ok := n.followers.of(string(s.ID)); ok && now-f.at <= liveWithin {
			cut = min(cut, f.matched)
		}
	}
	if cut == index {
		n.heldSince.Store(0)
		return index
	}
	n.heldSince.CompareAndSwap(0, int64(now))
	if now-time.Duration(n.heldSince.Load()) > holdLimit {
		return index
	}
	return cut
}

// LogBytes returns how many bytes the full files of the log have, which is what of it a snapshot could give back, to within one file. 0
// when the store does not tell.
func (n *Node) LogBytes() int64 {
	if s, ok := n.store.(measured); ok {
		return s.Bytes()
	}
	return 0
}

// measured is a Store that knows its size.
type measured interface{ Bytes() int64 }

// sizing is a meta store of raft-wal that notes how large the full files of the log are.
type sizing struct {
	types.MetaStore
	bytes *atomic.Int64
}

var _ types.MetaStore = sizing{}

// Load reads the meta data.
func (z sizing) Load(dir string) (types.PersistentState, error) {
	s, err := z.MetaStore.Load(dir)
	z.note(s)
	return s, err
}

// CommitState replaces the list of the log's files.
func (z sizing) CommitState(s types.PersistentState) error {
	err := z.MetaStore.CommitState(s)
	if err == nil {
		z.note(s)
	}
	return err
}

// note counts sealed files up to their index, which ends them.
func (z sizing) note(s types.PersistentState) {
	n := int64(0)
	for _, f := range s.Segments {
		if !f.SealTime.IsZero() {
			n += int64(f.IndexStart)
		}
	}
	z.bytes.Store(n)
}

var errNoStream = errors.New("this node has no follower: no snapshot is sent or received")
