package broker

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"golang.org/x/sync/errgroup"

	"queen/internal/durable"
)

// noLinks is a disk without hard links.
type noLinks struct{ vfs.FS }

func (noLinks) Link(from, to string) error {
	return &os.LinkError{Op: "link", Old: from, New: to, Err: os.ErrInvalid}
}

// lossPushes pushes records from .. to-1 and notes what was answered.
func lossPushes(ctx context.Context, b *Broker, c *cuts, from, to int) error {
	for i := from; i < to; i++ {
		a := acked{queue: fmt.Sprintf("q%d", i%lossQueues), partition: fmt.Sprintf("p%d", i%lossPartitions), first: uint64(i * 100), count: 1 + i%5}
		r, err := push(ctx, b, a.queue, a.partition, a.first, a.count, 300)
		if err != nil {
			return err
		}
		a.stamp, a.base = r.Stamp, r.Appends[0].Base
		c.answered(a)
	}
	return nil
}

func (c *cuts) cutEach(each bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on, c.each = each, each
}

func (c *cuts) checkAll(t *testing.T, least int) {
	t.Helper()
	t.Logf("%d cuts", len(c.made))
	if len(c.made) < least {
		t.Errorf("%d cuts: the test does not test", len(c.made))
	}
	var check errgroup.Group
	check.SetLimit(4)
	for _, m := range c.made {
		check.Go(func() error {
			lost := m // and the state is lost as well: snapshot and log have it all
			lost.disk, lost.wal = m.disk.CrashClone(vfs.CrashCloneCfg{}), m.wal.CrashClone(0, nil, nil)
			if err := checkLoss(m); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
			err := lost.disk.RemoveAll("/data/" + stateDir)
			if err == nil {
				err = checkLoss(lost)
			}
			if err != nil {
				t.Errorf("%s, without the state: %v", m.name, err)
			}
			return nil
		})
	}
	if err := check.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestPowerLossInASnapshot: the power is cut before every operation on a disk that taking two snapshots does, the second of which takes
// the place of the first, and cutting the log after each.
func TestPowerLossInASnapshot(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := newCuts(seed)
	c.cutEach(false)
	b := start(t, onMemory(errorfs.Wrap(c.disk, c), c.wal, func(err error) { t.Error("fatal:", err) }))
	for round := range 2 {
		must(t, lossPushes(t.Context(), b, c, round*40, round*40+40))
		c.cutEach(true)
		must(t, b.snapshot())
		c.cutEach(false)
		if b.snaps.newest == nil {
			t.Fatalf("round %d: no snapshot was taken, entry %d is applied", round, b.state.Applied())
		}
		if first := b.Status().FirstLog; first != b.snaps.newest.Applied {
			t.Errorf("round %d: the log begins at entry %d, the snapshot stands at %d", round, first, b.snaps.newest.Applied)
		}
	}
	must(t, b.Close())
	c.checkAll(t, 100)
}

// TestPowerLossInARestore: state, segments or both are gone, and the power is cut before every operation of the start that puts the
// snapshot in their place.
func TestPowerLossInARestore(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, gone := range [][]string{{stateDir}, {segmentsDir}, {stateDir, segmentsDir}} {
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			c := newCuts(seed)
			c.cutEach(false)
			b := start(t, onMemory(errorfs.Wrap(c.disk, c), c.wal, func(err error) { t.Error("fatal:", err) }))
			must(t, lossPushes(t.Context(), b, c, 0, 40))
			must(t, b.snapshot())
			must(t, lossPushes(t.Context(), b, c, 40, 60))
			must(t, b.Close())
			for _, part := range gone {
				must(t, c.disk.RemoveAll("/data/"+part))
			}
			must(t, durable.SyncDir(c.disk, "/data"))
			begun := false
			c.whole = func() bool { // pebble opens the state when RESTORE is gone
				_, err := c.disk.Stat("/data/" + restoreFile)
				begun = begun || err == nil
				return begun && err != nil
			}
			c.cutEach(true)
			b, err := New(onMemory(errorfs.Wrap(c.disk, c), c.wal, func(err error) { t.Error("fatal:", err) }))
			must(t, err)
			must(t, b.Open(t.Context()))
			c.cutEach(false)
			must(t, b.Close())
			c.checkAll(t, 60)
		})
	}
}

// TestRestoreNeverGoesBack: segments are lost and the log has lost its end, so snapshot and log together hold less than the state had
// applied. What was acknowledged is not dropped without a word.
func TestRestoreNeverGoesBack(t *testing.T) {
	c := newCuts(1)
	c.cutEach(false)
	b := start(t, onMemory(c.disk, c.wal, func(err error) { t.Error("fatal:", err) }))
	must(t, lossPushes(t.Context(), b, c, 0, 40))
	must(t, b.snapshot())
	must(t, lossPushes(t.Context(), b, c, 40, 50))
	older := c.wal.CrashClone(0, nil, nil)
	must(t, lossPushes(t.Context(), b, c, 50, 60))
	must(t, b.Close())
	must(t, c.disk.RemoveAll("/data/"+segmentsDir))
	again, err := New(onMemory(c.disk, older, func(err error) { t.Error("fatal:", err) }))
	must(t, err)
	if err := again.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "but the state had applied entry") {
		t.Errorf("opened: %v", err)
	}
}
