package state_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"queen/broker/segment"
	"queen/broker/state"
	"queen/internal/crashdisk"
	"queen/stages"
)

// deadSegments fails syncs of segment files with EIO from the moment it is told to.
type deadSegments struct{ on atomic.Bool }

func (d *deadSegments) MaybeError(op errorfs.Op) error {
	sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
	if d.on.Load() && sync && strings.HasSuffix(op.Path, ".seg") {
		return syscall.EIO
	}
	return nil
}

func (d *deadSegments) String() string { return "dead segments" }

// TestFailedSyncStopsPebble: a sync of the segments fails, and whoever is told of it does not end the process at once. pebble
// must not make durable what names the lost frames: after the power cut the state stands where the last good flush
// left it, with all its frames (design section 4, crash order).
func TestFailedSyncStopsPebble(t *testing.T) {
	for name, flush := range map[string]func(*state.State) error{
		"pebble's own flush": (*state.State).FlushRows,
		"our flush":          (*state.State).Flush,
		"our flush, then pebble's": func(s *state.State) error {
			return errors.Join(s.Flush(), s.FlushRows())
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk, dead := crashdisk.New(), &deadSegments{}
			fs := errorfs.Wrap(disk, dead)
			segments, err := segment.Open(segment.Options{FS: fs, Dir: "segments", SealBytes: sealBytes, Generation: 1})
			if err != nil {
				t.Fatal(err)
			}
			var told atomic.Int64
			s, err := state.Open(state.Options{FS: fs, Dir: "state", Segments: segments, Fatal: func(error) { told.Add(1) }})
			if err != nil {
				t.Fatal(err)
			}
			next := uint32(0)
			apply := func(index uint64) error {
				_, err := s.Apply(index, entry(stages.Micros(index)*1000, pushOf(&next, 0, item{"q", "p", 0, []string{"=" + strings.Repeat("x", 3000)}})))
				return err
			}
			for i := uint64(1); i <= 5; i++ {
				if err := apply(i); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
			for i := uint64(6); i <= 10; i++ {
				if err := apply(i); err != nil {
					t.Fatal(err)
				}
			}
			dead.on.Store(true)
			if err := flush(s); !errors.Is(err, syscall.EIO) {
				t.Errorf("flush: %v", err)
			}
			if told.Load() != 1 {
				t.Errorf("told %d times", told.Load())
			}
			if err := apply(11); err == nil {
				t.Error("an entry was applied after a failed sync")
			}
			if err := s.Read(func(*state.Reader) error { return nil }); err == nil {
				t.Error("the state is read after a failed sync")
			}
			before := disk.CrashClone(vfs.CrashCloneCfg{})
			if err := s.Close(); err != nil { // nothing is flushed, and nothing waits for pebble
				t.Errorf("close: %v", err)
			}
			if err := segments.Close(); err != nil {
				t.Error(err)
			}
			for when, disk := range map[string]*crashdisk.FS{"before the close": before, "after it": disk.CrashClone(vfs.CrashCloneCfg{})} {
				n, err := tryOpen(t, disk, 2)
				if err != nil {
					t.Fatalf("power cut %s: %v", when, err)
				}
				if n.Applied() != 5 {
					t.Errorf("power cut %s: applied %d", when, n.Applied())
				}
				n.close()
			}
		})
	}
}
