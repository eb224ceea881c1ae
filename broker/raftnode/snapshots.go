package raftnode

import (
	"errors"
	"io"

	"github.com/hashicorp/raft"
)

var errNoSnapshots = errors.New("snapshots are not taken yet: the raft log is kept whole")

// noSnapshots is a store that has no snapshot and refuses to make one. It must refuse, not discard: raft would take a
// discarded snapshot for a good one and cut the log below it.
type noSnapshots struct{}

var _ raft.SnapshotStore = noSnapshots{}

// Create refuses.
func (noSnapshots) Create(raft.SnapshotVersion, uint64, uint64, raft.Configuration, uint64, raft.Transport) (raft.SnapshotSink, error) {
	return nil, errNoSnapshots
}

// List returns nothing.
func (noSnapshots) List() ([]*raft.SnapshotMeta, error) { return nil, nil }

// Open refuses.
func (noSnapshots) Open(string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	return nil, nil, errNoSnapshots
}
