package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"queen/broker/raftnode"
	"queen/broker/segment"
	"queen/broker/snapshot"
	"queen/broker/state"
	"queen/internal/durable"
)

// findSnapshots looks which snapshots there are, and returns the newest that is whole. One that is broken is named; while state and log
// are whole nothing needs it, and a new one takes its place.
func (b *Broker) findSnapshots(seed [16]byte) (whole *snapshot.Found, broken error, err error) {
	found, err := snapshot.Find(b.disk, filepath.Join(b.o.Dir, snapshotsDir), seed)
	if err != nil {
		return nil, nil, err
	}
	for i := range found {
		f := &found[i]
		if f.Fault == nil {
			b.snaps.newest = f.Manifest
			b.base = raftnode.Base{Index: f.Index, Term: f.Manifest.Term}
			return f, broken, nil
		}
		b.snaps.wanted = true
		b.o.Log.Error().Err(f.Fault).Str("snapshot", f.Dir).Msg("a snapshot is broken and is not used: a new one takes its place")
		broken = errors.Join(broken, f.Fault)
	}
	return nil, broken, nil
}

// withBroken adds to the reason for which a folder cannot be opened the snapshots that might have helped. One line.
func withBroken(err, broken error) error {
	if err == nil || broken == nil {
		return err
	}
	return fmt.Errorf("%w; no snapshot helps, what there is is broken: %s", err, strings.ReplaceAll(broken.Error(), "\n", "; "))
}

// restore puts a snapshot in the place of a state or segments that are behind it or lost, and loads them. why says what is wrong with
// them, and is nil when the state is only behind. Everything is checked before anything is changed: that the log goes on from
// there, to the last entry that the old state had, and that the snapshot opens.
func (b *Broker) restore(whole *snapshot.Found, why error, seed [16]byte) error {
	if why == nil {
		why = fmt.Errorf("the state stands at entry %d, behind the snapshot", b.state.Applied())
	}
	if err := b.unload(); err != nil {
		return err
	}
	refuse := func(err error) error {
		return fmt.Errorf("%w; the snapshot %s cannot take its place: %w", why, whole.Dir, err)
	}
	last, err := raftnode.Check(filepath.Join(b.o.Dir, raftDir), b.store, whole.Index, b.base)
	if err != nil {
		return refuse(err)
	}
	if had, err := state.ReadPoint(b.disk, filepath.Join(b.o.Dir, stateDir)); err == nil && had.Applied > last {
		return refuse(fmt.Errorf("the raft log ends at entry %d but the state had applied entry %d, restore the folder from a copy", last, had.Applied))
	}
	if err := b.tryOut(whole); err != nil {
		return refuse(err)
	}
	b.o.Log.Warn().AnErr("why", why).Str("snapshot", whole.Dir).Uint64("last_entry", last).
		Msg("state and segments are replaced from a snapshot, the raft log has the rest")
	if err := durable.WriteFile(b.disk, b.o.Dir, restoreFile, []byte(whole.Name+"\n")); err != nil {
		return err
	}
	if err := b.putInPlace(whole); err != nil {
		return err
	}
	return b.load(seed)
}

// tryOut opens the snapshot beside everything else, which verifies what its list of files does not: rows, indexes, places. It
// leaves nothing behind.
func (b *Broker) tryOut(whole *snapshot.Found) (err error) {
	trial := filepath.Join(b.o.Dir, snapshotsDir, snapshot.TrialName)
	defer func() { err = errors.Join(err, b.disk.RemoveAll(trial)) }()
	stateAt, segmentsAt := filepath.Join(trial, stateDir), filepath.Join(trial, segmentsDir)
	if err := b.layOut(whole, stateAt, segmentsAt); err != nil {
		return err
	}
	segs, err := segment.Open(segment.Options{FS: b.disk, Dir: segmentsAt, SealBytes: b.o.SealBytes, Generation: 1})
	if err != nil {
		return err
	}
	err = ofState(stateAt, func() error {
		s, err := state.Load(state.Options{FS: b.disk, Dir: stateAt, Segments: segs, Fatal: func(error) {}})
		if err != nil {
			return err
		}
		at := s.Applied()
		if err := s.Close(); err != nil {
			return err
		}
		if at != whole.Index {
			return fmt.Errorf("%s: its state stands at entry %d", whole.Dir, at)
		}
		return nil
	})
	return errors.Join(err, segs.Close())
}

func (b *Broker) layOut(whole *snapshot.Found, stateAt, segmentsAt string) error {
	for _, dir := range []string{stateAt, segmentsAt} {
		if err := b.disk.RemoveAll(dir); err != nil {
			return fmt.Errorf("make room for a snapshot: %w", err)
		}
		if err := b.disk.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make room for a snapshot: %w", err)
		}
	}
	return snapshot.Lay(b.disk, *whole, stateAt, segmentsAt)
}

// putInPlace does what RESTORE says, from its beginning, however far an earlier process came: the snapshot is never changed by it.
func (b *Broker) putInPlace(whole *snapshot.Found) error {
	segmentsAt := filepath.Join(b.o.Dir, segmentsDir)
	if err := b.layOut(whole, filepath.Join(b.o.Dir, stateDir), segmentsAt); err != nil {
		return err
	}
	text, err := readFile(b.disk, filepath.Join(b.o.Dir, formatFile))
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if err := durable.WriteFile(b.disk, segmentsAt, formatFile, []byte(text)); err != nil {
		return err
	}
	if err := durable.SyncDir(b.disk, b.o.Dir); err != nil {
		return err
	}
	if err := b.disk.Remove(filepath.Join(b.o.Dir, restoreFile)); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return durable.SyncDir(b.disk, b.o.Dir)
}

// continueLog makes the raft log one that goes on from a snapshot that a leader sent.
func (b *Broker) continueLog(m *snapshot.Manifest) error {
	if err := b.openLog(); err != nil {
		return err
	}
	err := raftnode.Continue(filepath.Join(b.o.Dir, raftDir), b.store, m.Applied, raftnode.Point{Term: m.Term, MembersAt: m.MembersAt, Members: m.Members})
	err = errors.Join(err, b.store.Close())
	b.store = nil
	return err
}

// finishRestore goes on with what a process that stopped had begun.
func (b *Broker) finishRestore(seed [16]byte) error {
	path := filepath.Join(b.o.Dir, restoreFile)
	text, err := readFile(b.disk, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	found, err := snapshot.Find(b.disk, filepath.Join(b.o.Dir, snapshotsDir), seed)
	if err != nil {
		return err
	}
	for i := range found {
		own, sent := found[i].Name+"\n", found[i].Name+"\n"+fromLeader+"\n"
		if text != own && text != sent {
			continue
		}
		if err := found[i].Fault; err != nil {
			return fmt.Errorf("%s says that state and segments are being replaced from a snapshot, which is broken, restore the folder from a copy: %w", path, err)
		}
		b.o.Log.Warn().Str("snapshot", found[i].Dir).Bool("from_leader", text == sent).Msg("state and segments are replaced from a snapshot: an earlier process had begun")
		if text == sent {
			if err := b.continueLog(found[i].Manifest); err != nil {
				return err
			}
		}
		return b.putInPlace(&found[i])
	}
	if strings.HasSuffix(text, "\n"+fromLeader+"\n") { // it was written before the snapshot got its name: nothing has begun
		if err := b.disk.Remove(path); err != nil {
			return fmt.Errorf("data folder: %w", err)
		}
		return durable.SyncDir(b.disk, b.o.Dir)
	}
	return fmt.Errorf("%s names the snapshot %q, which is not there: restore the folder from a copy", path, strings.TrimSuffix(text, "\n"))
}
