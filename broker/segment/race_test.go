package segment

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"queen/stages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// repeat calls each function again and again in a goroutine of its own, until stop is called, which waits for them.
func repeat(t *testing.T, fs ...func() error) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for _, f := range fs {
		wg.Go(func() {
			for {
				if err := f(); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	return func() { close(done); wg.Wait() }
}

// Readers and Sync run beside the writer: a view shows exactly the frames up to its tail, for ever, and every one can be read.
func TestReadersBesideTheWriter(t *testing.T) {
	const calls, queues = 400, 2
	s := open(t, vfs.NewMem(), 9000)
	m := newMaker(6, 4)
	var all [calls][]Frame
	var flat []Frame
	count := map[Tail]int{{}: 0} // frames below each tail; written before the tail can be seen
	var mu sync.Mutex            // stands for the state's lock: an append and its place in count are seen together
	for i := range all {
		all[i] = m.call(20)
		flat = append(flat, all[i]...)
	}
	read := func() error {
		mu.Lock()
		views := []View{s.View(1), s.View(2)}
		n := count[views[0].Tail()]
		mu.Unlock()
		for q, v := range views {
			if v.Tail() != views[0].Tail() {
				return fmt.Errorf("queues differ: %v %v", v.Tail(), views[0].Tail())
			}
			if err := readAll(v, stages.QueueID(q+1), flat[:n]); err != nil {
				return fmt.Errorf("view of %d frames: %w", n, err)
			}
		}
		return nil
	}
	stop := repeat(t, read, read, s.Sync, s.Sync)
	written := 0
	for _, fs := range all {
		mu.Lock()
		written += len(fs)
		for q := stages.QueueID(1); q <= queues; q++ {
			count[mustAppend(t, s, q, fs)] = written
		}
		mu.Unlock()
	}
	stop()
	if err := errors.Join(read(), s.Sync()); err != nil {
		t.Error(err)
	}
}

// What Append returned before Sync was called is durable when Sync returns, also when another Sync and an Append run beside it.
func TestSyncBesideAppend(t *testing.T) {
	disk := newDisk(t)
	s := open(t, disk, 3000)
	m := newMaker(8, 3)
	var mu sync.Mutex
	var appended []Frame
	var tail Tail
	type check struct {
		frames int
		tail   Tail
		disk   *vfs.MemFS
	}
	checks := make(chan check, 1000)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				mu.Lock()
				c := check{frames: len(appended), tail: tail}
				mu.Unlock()
				if err := s.Sync(); err != nil {
					t.Error(err)
				}
				c.disk = disk.CrashClone(vfs.CrashCloneCfg{})
				select {
				case <-done:
					return
				case checks <- c:
				default: // enough of them
				}
			}
		})
	}
	for range 300 {
		fs := m.call(20)
		tl := mustAppend(t, s, 1, fs)
		mu.Lock()
		appended, tail = append(appended, fs...), tl
		mu.Unlock()
	}
	close(done)
	wg.Wait()
	close(checks)
	n := 0
	for c := range checks {
		if n++; n%10 != 0 {
			continue
		}
		after := open(t, c.disk, 3000)
		if err := after.attach(1, c.tail); err != nil {
			t.Fatalf("%v: %v", c.tail, err)
		}
		mustRead(t, after, 1, appended[:c.frames])
	}
	t.Logf("%d crashes", n)
}
