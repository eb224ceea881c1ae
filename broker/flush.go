package broker

import (
	"context"
	"fmt"
	"time"

	"queen/broker/state"
)

const (
	flushEvery  = 5 * time.Second // so that a restart replays little
	flushBytes  = 256 << 20       // and pebble's memory stays small
	checkBytes  = 64 << 20        // applied bytes after which the loop looks at the disk
	diskReserve = 512 << 20       // bytes that must stay free: pushes stop before the log, the segments and pebble run out
)

// machine is the state as raft drives it; it wakes the flush loop each time checkBytes were applied.
type machine struct {
	*state.State
	wake chan struct{}
}

// Apply applies one entry.
func (m machine) Apply(index uint64, entry []byte) ([]any, error) {
	before := m.Unflushed()
	results, err := m.State.Apply(index, entry)
	if after := m.Unflushed(); after/checkBytes != before/checkBytes {
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
	return results, err
}

// flushLoop makes what was applied durable outside the raft log: every 5 s, and every 256 MiB. It also watches the disk, and takes
// snapshots.
func (b *Broker) flushLoop(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		due, ticked := false, false
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			due, ticked = b.state.Unflushed() > 0, true
		case <-b.wake:
			due = b.state.Unflushed() >= flushBytes
		}
		b.watchDisk()
		if b.failure.Load() == nil && due {
			if err := b.flush(); err != nil {
				b.fatal(fmt.Errorf("flush: %w", err))
			}
		}
		if b.failure.Load() == nil && ticked {
			if err := b.reclaim(); err != nil {
				b.fatal(fmt.Errorf("remove files of records that are gone: %w", err))
			}
		}
		b.trySnapshot(ticked)
	}
}

// reclaim removes files of records that retention or a delete took, one round after nothing refers to them any more: whoever looked them up
// before that can read them in peace. No snapshot is taken meanwhile, which would miss them.
func (b *Broker) reclaim() error {
	b.snaps.mu.Lock()
	defer b.snaps.mu.Unlock()
	if err := b.segs.Remove(b.gone); err != nil {
		return err
	}
	gone, err := b.state.Reclaim()
	b.gone = gone
	return err
}

// flush makes the state durable, and what the raft log does not sync with each entry.
func (b *Broker) flush() error {
	if err := b.state.Flush(); err != nil {
		return err
	}
	return b.node.Flush()
}

// watchDisk notes whether the disk still has its reserve. A file system that does not tell (in memory) is never full.
func (b *Broker) watchDisk() {
	usage, err := b.disk.GetDiskUsage(b.o.Dir)
	full := err == nil && usage.AvailBytes < diskReserve
	if was := b.full.Swap(full); was == full {
		return
	}
	if full {
		b.o.Log.Error().Str("dir", b.o.Dir).Uint64("free", usage.AvailBytes).Uint64("wanted", diskReserve).
			Msg("the disk of the data folder is nearly full: pushes are refused with 507 until so many bytes are free; make room, or let retention take more")
	} else {
		b.o.Log.Info().Msg("the disk of the data folder has room again")
	}
}
