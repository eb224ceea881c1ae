package raftnode

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Snapshots is where the owner keeps snapshots. Only followers that are too far behind for the log need them.
type Snapshots interface {
	// Newest describes the newest durable snapshot; ok is false when there is none.
	Newest() (index uint64, p Point, size int64, ok bool)
	// Send opens the snapshot at an index as a stream of the size that Newest told. It stays until the stream is closed.
	Send(index uint64) (io.ReadCloser, error)
	// Receive begins to take one that a leader sends. The state is to be replaced by it once Keep has returned.
	Receive(index uint64, p Point) (Arrival, error)
}

// Arrival is a snapshot that comes in.
type Arrival interface {
	io.Writer
	Keep() error // it came in whole
	Drop() error // it did not
}

// restartDelay is how long after a snapshot came in the owner is told to start again: raft answers the leader meanwhile, which would
// send it once more else.
const restartDelay = 500 * time.Millisecond

// standing is the snapshot store that raft sees. At a start it shows the state as it stands on this node's disk. raft never opens that
// (NoSnapshotRestoreOnStart): it only takes from it that entries up to that index are applied, and neither reads nor replays them. Afterwards it
// shows the newest snapshot that the owner has, which raft sends to a follower that is behind the log. raft is never asked to make one (truncate.go): Create
// is only reached when a leader sends one. It must refuse to make one, not discard it: raft would take a discarded snapshot for a good one
// and cut the log below it.
type standing struct {
	at   *raft.SnapshotMeta // nil: the state is empty
	of   Snapshots          // nil: this node is alone
	runs *atomic.Bool       // raft has started
	kept func(Base)         // called when one came in whole
}

var _ raft.SnapshotStore = standing{}

const stateID = "state"

// standingAt describes a state that has applied the entry with this index, which the log still holds, or a snapshot stands for.
func standingAt(l *logs, m members, applied uint64) (standing, error) {
	if applied == 0 {
		return standing{}, nil
	}
	var last raft.Log
	if err := l.GetLog(applied, &last); err != nil {
		return standing{}, err
	}
	return standing{at: &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: stateID, Index: applied, Term: last.Term,
		Configuration: m.list, ConfigurationIndex: m.index,
	}}, nil
}

// Create begins to take a snapshot from a leader.
func (s standing) Create(_ raft.SnapshotVersion, index, term uint64, list raft.Configuration, listIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	if s.of == nil {
		return nil, errNoStream
	}
	a, err := s.of.Receive(index, Point{Term: term, MembersAt: listIndex, Members: raft.EncodeConfiguration(list)})
	if err != nil {
		return nil, err
	}
	return &arrival{Arrival: a, id: fmt.Sprint(index), kept: func() { s.kept(Base{index, term}) }}, nil
}

// List returns at most one.
func (s standing) List() ([]*raft.SnapshotMeta, error) {
	if s.runs == nil || !s.runs.Load() {
		if s.at == nil {
			return nil, nil
		}
		return []*raft.SnapshotMeta{s.at}, nil
	}
	meta, err := s.newest()
	if meta == nil || err != nil {
		return nil, err
	}
	return []*raft.SnapshotMeta{meta}, nil
}

func (s standing) newest() (*raft.SnapshotMeta, error) {
	if s.of == nil {
		return nil, nil
	}
	index, p, size, ok := s.of.Newest()
	if !ok {
		return nil, nil
	}
	list, err := decodeMembers(p.Members)
	if err != nil {
		return nil, err
	}
	return &raft.SnapshotMeta{Version: raft.SnapshotVersionMax, ID: fmt.Sprint(index), Index: index, Term: p.Term,
		Configuration: list, ConfigurationIndex: p.MembersAt, Size: size}, nil
}

// Open opens the newest one for a follower. One that has just come in is opened too, to restore the state from it, which the owner does
// when it starts again: there is nothing to read in it.
func (s standing) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if s.of == nil {
		return nil, nil, errNoStream
	}
	meta, err := s.newest()
	if err != nil {
		return nil, nil, err
	}
	if meta == nil || meta.ID != id {
		return &raft.SnapshotMeta{ID: id}, io.NopCloser(nothing{}), nil
	}
	r, err := s.of.Send(meta.Index)
	return meta, r, err
}

// nothing is an empty stream.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }

// arrival is what raft writes a snapshot to.
type arrival struct {
	Arrival
	id   string
	kept func()
	once sync.Once
	err  error
}

var _ raft.SnapshotSink = (*arrival)(nil)

// ID names it.
func (a *arrival) ID() string { return a.id }

// Close ends it when it came in whole.
func (a *arrival) Close() error {
	a.once.Do(func() {
		if a.err = a.Keep(); a.err == nil {
			a.kept()
		}
	})
	return a.err
}

// Cancel ends it when it did not.
func (a *arrival) Cancel() error {
	a.once.Do(func() { a.err = a.Drop() })
	return a.err
}

// arrived stops the machine: from now on the state is that of the snapshot, which is put in its place when the owner starts again.
func (n *Node) arrived(at Base) {
	n.logs.base.Store(&at)
	n.machine.replaced.Store(true)
	n.leads.Store(false)
	n.restart.Store(time.AfterFunc(restartDelay, n.o.Restart))
}

var errReplaced = errors.New("the state is being replaced by a snapshot from the leader")
