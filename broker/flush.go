package broker

import (
	"context"
	"fmt"
	"time"

	"queen/broker/state"
)

const (
	flushEvery  = 5 * time.Second // so that a restart replays little
	flushSmall  = 16 << 20        // applied bytes below which that is little anyway: then a flush is due only every
	flushRounds = 6               // rounds of flushEvery
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

// flushLoop makes what was applied durable outside the raft log: every 5 s, and every 256 MiB; every 30 s while it is little. A broker that only
// refreshes leases writes the same rows again and again, and each flush costs pebble a table of them and its share of a compaction, so it waits
// for more to come. It also watches the disk, and takes snapshots.
func (b *Broker) flushLoop(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for rounds := 0; ; {
		due, ticked := false, false
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			rounds++
			due, ticked = flushDue(b.state.Unflushed(), rounds, b.state.Reclaiming()), true
		case <-b.wake:
			due = b.state.Unflushed() >= flushBytes
		}
		b.watchDisk()
		if b.failure.Load() == nil && due {
			rounds = 0
			if err := b.flush(); err != nil {
				b.fatal(fmt.Errorf("flush: %w", err))
			}
		} else if b.failure.Load() == nil && ticked {
			if err := b.node.Flush(); err != nil {
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

// flushDue says whether a round flushes the state, when so many have passed since the last flush. Files that wait to be removed do not wait for
// more to come.
func flushDue(unflushed int64, rounds int, reclaiming bool) bool {
	return unflushed >= flushSmall || unflushed > 0 && (rounds >= flushRounds || reclaiming)
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
