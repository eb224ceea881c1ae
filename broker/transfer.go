package broker

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"queen/broker/raftnode"
	"queen/broker/snapshot"
	"queen/internal/durable"
)

// transfers is where snapshots for other nodes come from, and where one that a leader sends goes. One that came in takes the place of state and segments
// at the next start, which the owner is asked for: RESTORE names it, so that a crash at any moment ends in the same place.
type transfers struct{ b *Broker }

var _ raftnode.Snapshots = transfers{}

// Newest describes the newest snapshot.
func (t transfers) Newest() (uint64, raftnode.Point, int64, bool) {
	t.b.snaps.mu.Lock()
	defer t.b.snaps.mu.Unlock()
	m := t.b.snaps.newest
	if m == nil {
		return 0, raftnode.Point{}, 0, false
	}
	return m.Applied, raftnode.Point{Term: m.Term, MembersAt: m.MembersAt, Members: m.Members}, snapshot.StreamSize(m), true
}

// Send opens the newest snapshot as a stream. While it is open, no other one is taken, which would remove it.
func (t transfers) Send(index uint64) (io.ReadCloser, error) {
	s := &t.b.snaps
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil || s.newest.Applied != index {
		return nil, fmt.Errorf("the snapshot of entry %d is not there any more", index)
	}
	r, err := snapshot.Send(t.b.disk, snapshot.At(t.b.disk, t.b.snapshotsAt(), s.newest))
	if err != nil {
		return nil, err
	}
	s.sending++
	t.b.o.Log.Info().Uint64("entry", index).Int64("bytes", snapshot.StreamSize(s.newest)).Msg("a snapshot is sent to a node that is behind the log")
	return &sending{r, s, false}, nil
}

// sending is a snapshot on its way.
type sending struct {
	io.ReadCloser
	of     *snapshots
	closed bool
}

// Close ends it.
func (s *sending) Close() error {
	s.of.mu.Lock()
	if !s.closed {
		s.closed = true
		s.of.sending--
	}
	s.of.mu.Unlock()
	return s.ReadCloser.Close()
}

// Receive begins to take a snapshot. This node takes none of its own from the moment at which it came in.
func (t transfers) Receive(index uint64, p raftnode.Point) (raftnode.Arrival, error) {
	b := t.b
	seed, _ := b.state.Seed()
	b.snaps.mu.Lock()
	have := max(b.state.Applied(), b.snaps.replaced)
	b.snaps.mu.Unlock()
	if index <= have {
		return nil, fmt.Errorf("a snapshot of entry %d, and entry %d is here", index, have)
	}
	in, err := snapshot.Receive(b.disk, b.snapshotsAt(), seed, index, p.Term)
	if err != nil {
		return nil, err
	}
	b.o.Log.Info().Uint64("entry", index).Uint64("applied", b.state.Applied()).Msg("this node is behind the log: a snapshot comes in")
	return &receiving{in, b}, nil
}

type receiving struct {
	*snapshot.Incoming
	b *Broker
}

// Keep makes it the folder's newest snapshot, and says that the next start puts it in place. It is opened before, and RESTORE is written before it
// gets its name: without that, a snapshot above the state is one of this node's own, and its log has to hold what the state had.
func (r *receiving) Keep() error {
	s := &r.b.snaps
	s.mu.Lock()
	defer s.mu.Unlock()
	whole, err := r.Whole()
	if err != nil {
		return err
	}
	if err := r.b.tryOut(&whole); err != nil { // what the old state knows is better than a new one that does not open
		return errors.Join(err, r.Drop())
	}
	if err := durable.WriteFile(r.b.disk, r.b.o.Dir, restoreFile, []byte(whole.Name+"\n"+fromLeader+"\n")); err != nil {
		return errors.Join(err, r.Drop())
	}
	if err := r.Incoming.Keep(); err != nil { // RESTORE names what is not there: a start begins without it
		return err
	}
	s.replaced = whole.Index
	r.b.o.Log.Warn().Str("snapshot", whole.Name).Msg("a snapshot came in whole: this node starts again from it")
	return nil
}

// restart asks the owner to close this broker and to open another one on the folder.
func (b *Broker) restart() {
	if b.failure.Load() == nil {
		b.o.Restart()
	}
}

func (b *Broker) snapshotsAt() string { return filepath.Join(b.o.Dir, snapshotsDir) }
