package broker

import (
	"fmt"
	"path/filepath"
	"sync"

	"queen/broker/snapshot"
)

const (
	snapshotBytes = 512 << 20 // of full files of the raft log, after which a snapshot takes their place
	pinnedBytes   = 1 << 30   // of files that only the snapshot keeps, after which a new one lets go of them
	snapshotPause = 12        // ticks (flushEvery) until a snapshot that could not be taken is tried again
)

// snapshots says when the next one is due, and which one there is.
type snapshots struct {
	mu     sync.Mutex         // one at a time
	newest *snapshot.Manifest // whole and durable; nil: none
	wanted bool               // the one that should be there is broken or missing
	pause  int                // ticks

	sending  int    // streams of the newest one to other nodes
	replaced uint64 // one of this entry came in: state and segments are those of it at the next start, and nothing else may be taken or removed
}

// snapshotDue says whether a snapshot is to be taken now. What the log holds beyond the last one is measured in bytes of its files,
// so a restart does not forget it.
func (b *Broker) snapshotDue(tick bool) (bool, error) {
	b.snaps.mu.Lock()
	defer b.snaps.mu.Unlock()
	if b.snaps.sending > 0 || b.snaps.replaced > 0 {
		return false, nil
	}
	if b.snaps.pause > 0 {
		if tick {
			b.snaps.pause--
		}
		return false, nil
	}
	if b.snaps.wanted || b.node.LogBytes() >= b.o.SnapshotBytes {
		return true, nil
	}
	if b.snaps.newest == nil || !tick {
		return false, nil
	}
	pinned, err := b.snaps.newest.Pinned(b.disk, filepath.Join(b.o.Dir, stateDir), b.segs.Gone)
	return pinned >= pinnedBytes, err
}

// trySnapshot takes a snapshot when one is due. A node can go on without: the log stays as long as it is then, and another attempt
// is made after a while.
func (b *Broker) trySnapshot(tick bool) {
	due, err := b.snapshotDue(tick)
	if err == nil && due && b.failure.Load() == nil {
		err = b.snapshot()
	}
	if err != nil && b.failure.Load() == nil {
		b.snaps.mu.Lock()
		b.snaps.pause = snapshotPause
		b.snaps.mu.Unlock()
		b.o.Log.Error().Err(err).Dur("again_in", snapshotPause*flushEvery).Str("dir", b.o.Dir).Msg("no snapshot was taken: it is tried again, and until one is taken the raft log grows; nothing is lost")
	}
}

// snapshot takes one, and cuts off what it stands for. The order matters: it is durable; then older ones go, which need
// more of the log; then the log is cut.
func (b *Broker) snapshot() error {
	b.snaps.mu.Lock()
	defer b.snaps.mu.Unlock()
	if b.snaps.sending > 0 || b.snaps.replaced > 0 { // since it was due
		return nil
	}
	source := snapshot.Source{
		FS: b.disk, Format: filepath.Join(b.o.Dir, formatFile), Root: filepath.Join(b.o.Dir, snapshotsDir),
		State: b.state, Segments: b.segs, Point: b.node.Point,
	}
	if b.snaps.newest != nil {
		source.Newest = b.snaps.newest.Applied
	}
	m, err := snapshot.Take(source)
	if err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	if m != nil {
		b.snaps.newest, b.snaps.wanted = m, false
		b.o.Log.Info().Uint64("entry", m.Applied).Int("files", len(m.Files)).Msg("snapshot taken")
	}
	if b.snaps.newest == nil {
		return nil // an empty state
	}
	return b.cutLog(b.snaps.newest.Applied)
}

// cutLog removes from the raft log, and of older snapshots, what the snapshot at this index stands for.
func (b *Broker) cutLog(index uint64) error {
	if err := snapshot.Keep(b.disk, filepath.Join(b.o.Dir, snapshotsDir), index); err != nil {
		return err
	}
	if err := sayLogIsCut(b.disk, b.o.Dir); err != nil {
		return err
	}
	whole, err := b.node.Truncate(index)
	if err == nil && !whole { // a node that is behind reads what is left; it is asked again after a while
		b.snaps.pause = snapshotPause
	}
	return err
}
