package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"queen/broker/raftnode"
	"queen/broker/segment"
	"queen/broker/snapshot"
	"queen/broker/state"
)

// look reads the parts of the folder and refuses those that do not fit together. What the state does not know is removed from the
// segments for good afterwards: only then may it be, when the log holds it. It changes nothing on the disk, except that a raft log that a
// power loss left torn is mended, and that state and segments that are behind or lost are replaced from a snapshot.
func (b *Broker) look(seed [16]byte) error {
	if err := b.finishRestore(seed); err != nil {
		return err
	}
	if err := sameCluster(b.disk, b.o.Dir, seed); err != nil {
		return err
	}
	whole, broken, err := b.findSnapshots(seed)
	if err != nil {
		return err
	}
	missing := b.load(seed)
	if missing != nil && (whole == nil || !errors.Is(missing, segment.ErrShort)) {
		return withBroken(missing, broken)
	}
	if err := b.openLogInside(); err != nil {
		return err
	}
	if whole != nil && (missing != nil || b.state.Applied() < whole.Index) {
		if err := b.restore(whole, missing, seed); err != nil {
			return withBroken(err, broken)
		}
	}
	return withBroken(b.lookAtLog(), broken)
}

// load opens the segments and reads the state, and changes nothing.
func (b *Broker) load(seed [16]byte) error {
	var generation [4]byte // of references: another one at each boot
	_, err := io.ReadFull(b.o.Rand, generation[:])
	if err != nil {
		return fmt.Errorf("generation of the segments: %w", err)
	}
	b.segs, err = segment.Open(segment.Options{FS: b.disk, Dir: filepath.Join(b.o.Dir, segmentsDir), SealBytes: b.o.SealBytes,
		Generation: binary.BigEndian.Uint32(generation[:])})
	if err != nil {
		return fmt.Errorf("open segments: %w", err)
	}
	folder := filepath.Join(b.o.Dir, stateDir)
	err = ofState(folder, func() error {
		b.state, err = state.Load(state.Options{FS: b.disk, Dir: folder, Segments: b.segs, Filters: b.o.Filters, Fatal: b.fatal})
		return err
	})
	if err != nil {
		return err
	}
	return b.sameSeed(seed) // before raft runs: it would apply another cluster's log
}

// unload closes what load opened.
func (b *Broker) unload() error {
	var errs []error
	if b.state != nil {
		errs = append(errs, b.state.Close())
	}
	errs = append(errs, b.segs.Close())
	b.state, b.segs = nil, nil
	return errors.Join(errs...)
}

// openLogInside opens the log if there is one.
func (b *Broker) openLogInside() error {
	inside, err := contents(b.disk, filepath.Join(b.o.Dir, raftDir))
	if err != nil {
		return err
	}
	if len(inside) > 0 || b.o.FS != nil { // opening it makes it; in memory it lies elsewhere, and has to be asked
		return b.openLog()
	}
	return nil
}

// lookAtLog refuses a log that does not hold what the state and the segments came from.
func (b *Broker) lookAtLog() error {
	last, err := raftnode.Check(filepath.Join(b.o.Dir, raftDir), b.store, b.state.Applied(), b.base)
	if err != nil || last > 0 {
		return err
	}
	queues, err := b.segs.Queues()
	if err != nil || b.state.Applied() > 0 { // a snapshot that a leader sent, and nothing behind it
		return err
	}
	if len(queues) > 0 {
		return fmt.Errorf("data folder %s: %s holds the records of %d queues but %s and %s hold nothing: they are lost, restore the folder from a copy",
			b.o.Dir, segmentsDir, len(queues), raftDir, stateDir)
	}
	b.o.Log.Info().Str("dir", b.o.Dir).Msg("the data folder is empty: a new log begins")
	return nil
}

func (b *Broker) openLog() (err error) {
	open := b.o.OpenStore
	if open == nil {
		open = func(dir string) (raftnode.Store, error) { return raftnode.OpenDisk(dir, 0, b.o.Log) }
	}
	b.store, err = open(filepath.Join(b.o.Dir, raftDir))
	return err
}

// begin makes what is missing, cuts the segments to the state, and starts raft, which replays the rest.
func (b *Broker) begin(ctx context.Context, seed [16]byte) error {
	line := formatWhole
	if b.o.Cluster != nil {
		line = formatMember
	}
	if err := makeParts(b.disk, b.o.Dir, line, seed); err != nil {
		return err
	}
	if b.store == nil {
		if err := b.openLog(); err != nil {
			return err
		}
	}
	if err := ofState(filepath.Join(b.o.Dir, stateDir), b.state.Begin); err != nil {
		return err
	}
	if err := snapshot.Clean(b.disk, b.snapshotsAt(), ""); err != nil {
		return err
	}
	if err := snapshot.CleanIncoming(b.disk, b.snapshotsAt()); err != nil {
		return err
	}
	cluster, err := b.joinCluster(seed)
	if err != nil {
		return err
	}
	cache := int64(-1) // one node: no follower reads the log back
	if cluster != nil {
		cache = 0
	}
	b.node, err = raftnode.Open(ctx, raftnode.Options{
		Cluster: cluster, Admit: b.admitForwarded, Snapshots: transfers{b}, Base: b.base, Restart: b.restart,
		Dir: filepath.Join(b.o.Dir, raftDir), NodeID: strconv.Itoa(b.o.NodeID), Now: b.o.Now, Elapsed: b.o.Elapsed, Log: b.o.Log,
		OpenStore: func(string) (raftnode.Store, error) {
			store := b.store
			b.store = nil // the node closes it, also when it does not start
			return store, nil
		},
		Rand: b.o.Rand, Fatal: b.fatal,
		CacheBytes: cache,
	}, machine{State: b.state, wake: b.wake})
	return err
}

// ofState runs a part of opening the state. Some damage makes pebble panic, and some gives an error of many lines: the boot ends
// with one line.
func ofState(dir string, open func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("open state %s: the folder is damaged, restore it from a copy: %v", dir, p)
		}
	}()
	if err = open(); err != nil && strings.Contains(err.Error(), "\n") {
		err = errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return err
}
