package broker

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"queen/broker/raftnode"
	"queen/broker/segment"
	"queen/internal/crashdisk"
	"queen/internal/crashwal"
	"queen/internal/rounds"
	"queen/stages"
)

// The power is cut before and after every sync of the broker, and before some of its other writes. What is then on the disks
// is what was synced, and none, some or all of the rest. A broker that opens on them must hold every push that was answered
// before the cut, byte for byte, under rising stamps.
//
// There are two disks, one for the raft log and one for everything else. A copy is made of the second one first: the raft log
// may then be a little ahead, as it is after any flush, and never behind.

const (
	lossQueues     = 3
	lossPartitions = 4
	lossWALFile    = 32 << 10 // so that files of the raft log fill up
)

// acked is one answered push: records first .. first+count-1 under one stamp, at an offset.
type acked struct {
	queue, partition string
	first            uint64
	count            int
	stamp            stages.Micros
	base             int64
}

// cuts copies the disks at chosen moments, with what was answered until then.
type cuts struct {
	disk *crashdisk.FS
	wal  *crashwal.FS
	mu   sync.Mutex
	on   bool
	each bool // before every operation that changes something, not only syncs and some
	rng  *rand.Rand
	acks []acked
	made []cut

	whole func() bool // nil: no; else whether of what is not synced all or nothing is kept now
}

type cut struct {
	name string
	disk *crashdisk.FS
	wal  *crashwal.FS
	acks []acked
}

func newCuts(seed uint64) *cuts {
	c := &cuts{disk: crashdisk.New(), on: true, rng: rand.New(rand.NewPCG(seed, 1))}
	c.wal = crashwal.New(func(e crashwal.Event) {
		c.cut(fmt.Sprintf("raft log, %s %s, done %v", e.Op, e.Name, e.Done), e.Op != crashwal.Write || c.sometimes())
	})
	return c
}

// MaybeError is called before each operation on the disk that is not the raft log's.
func (c *cuts) MaybeError(op errorfs.Op) error {
	sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
	if sync || op.Kind.ReadOrWrite() == errorfs.OpIsWrite && c.sometimes() {
		c.cut(fmt.Sprintf("before operation %d on %s", op.Kind, op.Path), true)
	}
	return nil
}

func (c *cuts) String() string { return "power cuts" }

func (c *cuts) sometimes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.each || c.rng.IntN(12) == 0
}

func (c *cuts) cut(where string, wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.on || !wanted {
		return
	}
	// While the folder is made, or opened, only all or nothing: pebble makes a manifest and the marker that names it before it syncs their
	// folder, and relies on a file system that keeps the order of names.
	some := min(1, len(c.acks))
	if c.whole != nil && c.whole() {
		some = 0
	}
	percent := []int{0, 100, 0, 50}[c.rng.IntN(2+2*some)]
	m := cut{name: fmt.Sprintf("cut %d, %d%% of what is not synced: %s", len(c.made), percent, where)}
	m.acks = slices.Clone(c.acks) // first: what is answered from now on need not be in the copies
	m.disk = c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.rng})
	m.wal = c.wal.CrashClone(percent, c.rng, nil)
	c.made = append(c.made, m)
}

func (c *cuts) answered(a acked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acks = append(c.acks, a)
}

func onMemory(disk vfs.FS, wal *crashwal.FS, fatal func(error)) Options {
	return Options{
		Dir: "/data", NodeID: 1, Now: time.Now, Log: zerolog.Nop(), FS: disk, Fatal: fatal, SealBytes: 8 << 10,
		OpenStore: func(string) (raftnode.Store, error) {
			return raftnode.OpenWAL(crashwal.Dir, wal, wal.Meta(), lossWALFile, zerolog.Nop())
		},
	}
}

func TestPowerLoss(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := newCuts(seed)
	b := start(t, onMemory(errorfs.Wrap(c.disk, c), c.wal, func(err error) { t.Error("fatal:", err) }))
	const callers, pushes = 4, 25
	var work errgroup.Group
	for w := range callers {
		work.Go(func() error { return lossWorker(t.Context(), b, c, w, pushes) })
	}
	if err := work.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.on = false
	made := c.made
	c.mu.Unlock()
	t.Logf("%d pushes answered, %d cuts", len(c.acks), len(made))
	if len(made) < 100 || len(c.acks) != callers*pushes {
		t.Errorf("%d cuts, %d answers: the test does not test", len(made), len(c.acks))
	}
	made = slices.DeleteFunc(made, func(cut) bool { return c.rng.IntN(rounds.Of(1, 10)) != 0 })
	var check errgroup.Group
	check.SetLimit(4)
	for _, m := range made {
		check.Go(func() error {
			if err := checkLoss(m); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
			return nil
		})
	}
	if err := check.Wait(); err != nil {
		t.Fatal(err)
	}
}

// lossWorker pushes records that no other worker has, and flushes or takes a snapshot now and then.
func lossWorker(ctx context.Context, b *Broker, c *cuts, w, pushes int) error {
	for i := range pushes {
		a := acked{
			queue:     fmt.Sprintf("q%d", (w+i)%lossQueues),
			partition: fmt.Sprintf("p%d", i%lossPartitions),
			first:     uint64(w*1_000_000 + i*100),
			count:     1 + i%5,
		}
		r, err := push(ctx, b, a.queue, a.partition, a.first, a.count, 300)
		if err != nil {
			return err
		}
		a.stamp, a.base = r.Stamp, r.Appends[0].Base
		c.answered(a)
		if w == 0 && i%6 == 5 {
			if err := []func() error{b.flush, b.snapshot}[i/6%2](); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkLoss opens a broker on the disk after the cut.
func checkLoss(m cut) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	fatal := make(chan error, 1)
	o := onMemory(m.disk, m.wal, func(err error) {
		select {
		case fatal <- err:
		default:
		}
	})
	var lines lockedBuffer
	o.Log = zerolog.New(&lines)
	b, err := New(o)
	if err != nil {
		return err
	}
	if err := b.Open(ctx); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if strings.Contains(lines.String(), "a snapshot is broken") {
		return fmt.Errorf("a snapshot was left that is not whole: %s", lines.String())
	}
	defer func() {
		if closeErr := b.Close(); err == nil {
			err = closeErr
		}
	}()
	kept, err := readAll(ctx, b)
	if err != nil {
		return err
	}
	for _, a := range m.acks {
		if got, ok := kept[a.first]; !ok {
			return fmt.Errorf("push %d of %d records, answered with stamp %d, is lost", a.first, a.count, a.stamp)
		} else if got != a {
			return fmt.Errorf("push answered as %+v is kept as %+v", a, got)
		}
	}
	if _, err := push(ctx, b, "q0", "p0", 99_000_000, 1, 10); err != nil {
		return fmt.Errorf("push after the cut: %w", err)
	}
	select {
	case err := <-fatal:
		return fmt.Errorf("fatal: %w", err)
	default:
		return nil
	}
}

// readAll reads every record of every queue as the sink does, and checks what holds of any log: stamps rise within a queue and
// are shared by no two pushes, offsets have no gap, every payload is the one its id stands for.
func readAll(ctx context.Context, b *Broker) (map[uint64]acked, error) {
	kept := make(map[uint64]acked)
	stamps := make(map[stages.Micros]bool)
	log := b.Log(stages.DefaultTenant)
	for _, q := range b.Queues(stages.DefaultTenant, "lake").List() {
		var hs []stages.Header
		for h, err := range log.Headers(ctx, q.ID, stages.Beginning, 1<<62) {
			if err != nil {
				return nil, fmt.Errorf("headers of %s: %w", q.Name, err)
			}
			if n := len(hs); stamps[h.TS] || n > 0 && h.TS <= hs[n-1].TS {
				return nil, fmt.Errorf("headers of %s: stamp %d does not rise, or is there twice", q.Name, h.TS)
			}
			stamps[h.TS] = true
			hs = append(hs, h)
		}
		next := make(map[stages.PartitionID]int64)
		list := segment.Pick(q.ID, hs)
		err := log.Bodies(ctx, &list, list.Appends, func(_ int, body stages.Body) error {
			a, err := readAppend(body)
			a.queue = q.Name
			if h := body.Header(); err == nil && h.Base != next[h.Partition] {
				err = fmt.Errorf("an append begins at offset %d, expected %d", h.Base, next[h.Partition])
			}
			next[body.Header().Partition] = a.base + int64(a.count)
			kept[a.first] = a
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("bodies of %s: %w", q.Name, err)
		}
		if err := nameAppends(b, q.ID, hs, kept); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

func readAppend(body stages.Body) (acked, error) {
	h := body.Header()
	a := acked{stamp: h.TS, base: h.Base, count: int(h.Count)}
	i := uint64(0)
	for r, err := range body.Records() {
		if err != nil {
			return a, err
		}
		var n uint64
		if _, err := fmt.Sscanf(string(r.TxID), "tx-%d", &n); err != nil {
			return a, fmt.Errorf("transaction id %q: %w", r.TxID, err)
		}
		if i == 0 {
			a.first = n
		}
		if n != a.first+i || r.Offset != h.Base+int64(i) || !bytes.Equal(r.Payload, message(n, 300).Payload) && !bytes.Equal(r.Payload, message(n, 10).Payload) {
			return a, fmt.Errorf("record %d of push %d at offset %d is %q %q", i, a.first, r.Offset, r.TxID, r.Payload)
		}
		i++
	}
	if i != uint64(h.Count) {
		return a, fmt.Errorf("append of %d records gave %d", h.Count, i)
	}
	return a, nil
}

// nameAppends adds the partition names, through a stamp.
func nameAppends(b *Broker, q stages.QueueID, hs []stages.Header, kept map[uint64]acked) error {
	byStamp := make(map[stages.Micros]string)
	list := segment.Pick(q, hs)
	if err := (&log{state: b.State()}).name(q, list.Parts); err != nil {
		return err
	}
	for i, h := range hs {
		byStamp[h.TS] = list.Parts[list.Appends[i].Part].Name
	}
	for first, a := range kept {
		if name, ok := byStamp[a.stamp]; ok {
			a.partition = name
			kept[first] = a
		}
	}
	return nil
}
