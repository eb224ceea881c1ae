package raftnode

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

var errNoSnapshots = errors.New("snapshots are not taken yet: the raft log is kept whole")

// standing is a snapshot store that takes none and makes none, and has at most one to show: the state as it stands on this
// node's disk. raft never opens it (NoSnapshotRestoreOnStart): it only takes from it that entries up to that index are applied, and
// neither reads nor replays them. It must refuse to make one, not discard it: raft would take a discarded snapshot for a
// good one and cut the log below it.
type standing struct{ at *raft.SnapshotMeta } // nil: the state is empty

var _ raft.SnapshotStore = standing{}

// standingAt describes a state that has applied the entry with this index. The members of the cluster are those of entry 1: no
// entry changes them yet.
func standingAt(l *logs, applied uint64) (standing, error) {
	if applied == 0 {
		return standing{}, nil
	}
	members, err := firstMembers(l)
	if err != nil {
		return standing{}, err
	}
	var last raft.Log
	if err := l.GetLog(applied, &last); err != nil {
		return standing{}, err
	}
	return standing{&raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: "state", Index: applied, Term: last.Term,
		Configuration: members, ConfigurationIndex: 1,
	}}, nil
}

// firstMembers reads entry 1, which names the members of the cluster.
func firstMembers(l *logs) (raft.Configuration, error) {
	var first raft.Log
	if err := l.GetLog(1, &first); err != nil {
		return raft.Configuration{}, err
	}
	if first.Type != raft.LogConfiguration {
		return raft.Configuration{}, fmt.Errorf("raft log entry 1 does not name the members of the cluster: %w", errEntryDamaged)
	}
	return raft.DecodeConfiguration(first.Data), nil
}

// Create refuses.
func (standing) Create(raft.SnapshotVersion, uint64, uint64, raft.Configuration, uint64, raft.Transport) (raft.SnapshotSink, error) {
	return nil, errNoSnapshots
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
	return nil, nil, errNoSnapshots
}
