package raftnode

import (
	"io"

	"github.com/hashicorp/raft"
)

// standing is the snapshot store that raft sees. It takes none and makes none (truncate.go says who does), and has at most one to show: the
// state as it stands on this node's disk. raft never opens it (NoSnapshotRestoreOnStart): it only takes from it that entries up to that
// index are applied, and neither reads nor replays them. It must refuse to make one, not discard it: raft would take a
// discarded snapshot for a good one and cut the log below it.
//
// Create and Open cannot be reached on one node: raft makes a snapshot when it is asked, when its threshold is met (config: never), or
// when a leader sends one, and opens one for a follower or to restore, which nobody asks for.
type standing struct{ at *raft.SnapshotMeta } // nil: the state is empty

var _ raft.SnapshotStore = standing{}

// standingAt describes a state that has applied the entry with this index, which the log still holds.
func standingAt(l *logs, m members, applied uint64) (standing, error) {
	if applied == 0 {
		return standing{}, nil
	}
	var last raft.Log
	if err := l.GetLog(applied, &last); err != nil {
		return standing{}, err
	}
	return standing{&raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: "state", Index: applied, Term: last.Term,
		Configuration: m.list, ConfigurationIndex: m.index,
	}}, nil
}

// Create refuses.
func (standing) Create(raft.SnapshotVersion, uint64, uint64, raft.Configuration, uint64, raft.Transport) (raft.SnapshotSink, error) {
	return nil, errNoStream
}

// List returns the state, when it holds anything.
func (s standing) List() ([]*raft.SnapshotMeta, error) {
	if s.at == nil {
		return nil, nil
	}
	return []*raft.SnapshotMeta{s.at}, nil
}

// Open refuses.
func (standing) Open(string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	return nil, nil, errNoStream
}
