package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"queen/broker/command"
	"queen/broker/peer"
	"queen/broker/raftnode"
	"queen/broker/seal"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/stages"
)

// Options of a Broker. Dir, NodeID, Now and Fatal are required.
type Options struct {
	Dir    string // data folder; made when missing
	NodeID int    // raft id of this node, 1 or more
	// Cluster makes it one of several nodes; nil: it is alone. The broker closes its listener, also when it does not open.
	Cluster *Cluster
	Now     func() time.Time // wall clock
	// Elapsed is a monotonic clock, from any fixed moment. Nil: what Now's monotonic reading says.
	Elapsed func() time.Duration
	Log     zerolog.Logger
	Key     *seal.Key // opens sealed payloads for readers; nil: they see what is stored
	// FS holds everything but the raft log. Nil: the disk, and then the folder is locked against other processes.
	FS        vfs.FS
	OpenStore func(dir string) (raftnode.Store, error) // the raft log; nil: on disk
	Rand      io.Reader                                // cluster seed and request ids; nil: crypto/rand
	SealBytes int64                                    // length at which a segment is sealed; 0: 64 MiB
	// SnapshotBytes is how many bytes of full files the raft log may have before a snapshot takes their place; 0: 512 MiB.
	SnapshotBytes int64
	// Fatal is told once of an error after which only a restart is safe. It must not wait for Close.
	Fatal func(error)
	// Filters is how many bytes the filters in RAM may take which spare most look-ups of transaction ids; 0 = 512 MiB.
	Filters int64
	// Restart is told once that this broker has to be closed and another one opened on its folder: a snapshot from another node takes the
	// state's place. Needed with Cluster; it must not wait for Close.
	Restart func()
}

// Validate reports every problem.
func (o Options) Validate() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("broker: no data folder"))
	}
	if o.NodeID < 1 {
		errs = append(errs, fmt.Errorf("broker: node id %d, must be 1 or more", o.NodeID))
	}
	if o.Now == nil {
		errs = append(errs, errors.New("broker: no clock"))
	}
	if o.Fatal == nil {
		errs = append(errs, errors.New("broker: no handler of fatal errors"))
	}
	if o.Cluster != nil && o.Restart == nil {
		errs = append(errs, errors.New("broker: a cluster and no handler of restarts"))
	}
	return errors.Join(append(errs, o.Cluster.Validate())...)
}

// Broker is one node: the replicated log and the state that it leads to.
//
// Opening: lock, FORMAT; a look at snapshots, segments, state and raft log, which changes nothing (boot.go), unless state or segments have to
// be replaced from a snapshot (restore.go); then the state cuts the segments to what it knows, raft replays what the state misses, found.
// Closing is the reverse: raft, so that nothing is applied any more; state, which flushes; segments; lock.
//
// Invariant: whatever the interfaces below show was applied, and nothing is shown before everything that was in the log at
// boot is applied.
type Broker struct {
	o     Options
	disk  vfs.FS
	lock  *lock
	segs  *segment.Store
	state *state.State
	store raftnode.Store // the raft log, until node has it
	base  raftnode.Base  // where the newest whole snapshot stands
	node  *raftnode.Node
	port  *peer.Port // nil: alone, or the node has it
	snaps snapshots
	gone  []segment.Gone // files that the next reclaim removes; guarded by snaps.mu

	wake    chan struct{}         // told by the machine when much was applied
	settled chan struct{}         // closed when what was in the log at boot is applied, and the cluster is founded
	full    atomic.Bool           // the disk has less than its reserve left
	failure atomic.Pointer[error] // the first fatal error

	stop  context.CancelFunc // of the loops
	loop  sync.WaitGroup
	close sync.Once
	err   error // of Close
}

// New returns a broker that is not open yet.
func New(o Options) (*Broker, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	b := &Broker{o: o, disk: o.FS, wake: make(chan struct{}, 1), settled: make(chan struct{})}
	if b.disk == nil {
		b.disk = vfs.Default
		abs, err := filepath.Abs(o.Dir) // whoever changes the working directory later must not move our files
		if err != nil {
			return nil, fmt.Errorf("data folder %s: %w", o.Dir, err)
		}
		b.o.Dir = abs
	}
	if o.Rand == nil {
		b.o.Rand = rand.Reader
	}
	if o.SnapshotBytes == 0 {
		b.o.SnapshotBytes = snapshotBytes
	}
	return b, nil
}

// Open opens the data folder and returns when this node leads and has applied everything that was in its log; as one of several it returns at
// once, and Settled tells. When it fails, nothing stays open.
func (b *Broker) Open(ctx context.Context) error {
	if err := b.open(ctx); err != nil {
		return errors.Join(err, b.Close())
	}
	return nil
}

func (b *Broker) open(ctx context.Context) error {
	dir := b.o.Dir
	if err := makeFolder(b.disk, dir); err != nil {
		return err
	}
	if b.o.FS == nil {
		l, err := takeLock(dir)
		if err != nil {
			return err
		}
		b.lock = l
	}
	seed, err := seedOf(b.disk, dir, b.o.Rand, b.o.Cluster != nil)
	if err != nil {
		return err
	}
	if err := b.look(seed); err != nil {
		return err
	}
	if err := b.begin(ctx, seed); err != nil {
		return err
	}
	loop, stop := context.WithCancel(context.Background())
	b.stop = stop
	if b.o.Cluster != nil {
		b.loop.Go(func() { b.settle(loop, seed) })
	} else if err := b.found(ctx, seed); err != nil {
		return err
	}
	b.watchDisk()
	b.loop.Go(func() { b.flushLoop(loop) })
	b.loop.Go(func() { b.retainLoop(loop) })
	return nil
}

// found gives the cluster its seed, once.
func (b *Broker) found(ctx context.Context, seed [16]byte) error {
	if _, known := b.state.Seed(); !known {
		if _, err := b.node.Propose(ctx, command.KindFound, seed[:]); err != nil {
			return fmt.Errorf("found the cluster: %w", err)
		}
	}
	close(b.settled)
	return b.sameSeed(seed)
}

// sameSeed refuses a state of another cluster. Zeros are the seed of a node that has not heard it.
func (b *Broker) sameSeed(seed [16]byte) error {
	if have, known := b.state.Seed(); known && have != seed && seed != [16]byte{} {
		return twoClusters(b.o.Dir, stateDir, have, seed)
	}
	return nil
}

// fatal ends the node's work: the owner is told, and nothing is flushed any more.
func (b *Broker) fatal(err error) {
	if b.failure.CompareAndSwap(nil, &err) {
		b.o.Fatal(err)
	}
}

// Close stops the node in order and flushes what it applied. It is safe to call twice.
func (b *Broker) Close() error {
	b.close.Do(func() {
		var errs []error
		if b.stop != nil {
			b.stop()
			b.loop.Wait()
		}
		if b.node != nil {
			errs = append(errs, b.node.Close())
		}
		errs = append(errs, b.leaveCluster())
		if b.store != nil {
			errs = append(errs, b.store.Close())
		}
		if b.state != nil {
			errs = append(errs, b.state.Close()) // flushes, unless it failed
		}
		if b.segs != nil {
			errs = append(errs, b.segs.Close())
		}
		errs = append(errs, b.lock.release())
		b.err = errors.Join(errs...)
	})
	return b.err
}

// Propose makes one command durable and applied, and returns what the state made of it (raftnode.Node.Propose). A push is
// refused with raftnode.ErrDiskFull while the disk has less than its reserve left.
func (b *Broker) Propose(ctx context.Context, kind command.Kind, body []byte) (any, error) {
	if err := b.admit(kind); err != nil {
		return nil, err
	}
	select {
	case <-b.settled:
	default:
		return nil, raftnode.ErrNoLeader
	}
	answer, err := b.node.Propose(ctx, kind, body)
	if err == nil {
		b.sayLost(answer)
	}
	return answer, err
}

// admitForwarded refuses what another node forwards and this one may not propose, or does not know.
func (b *Broker) admitForwarded(kind command.Kind, body []byte) error {
	if err := b.admit(kind); err != nil {
		return err
	}
	if err := state.Check(kind, body); err != nil {
		return fmt.Errorf("%w: %w", raftnode.ErrUnknown, err)
	}
	return nil
}

// admit refuses what this node may not propose now.
func (b *Broker) admit(kind command.Kind) error {
	switch {
	case b.failure.Load() != nil:
		return raftnode.ErrNoLeader
	case kind == command.KindPush && b.full.Load():
		return raftnode.ErrDiskFull
	}
	return nil
}

// State is the applied state of this node.
func (b *Broker) State() *state.State { return b.state }

// Node is the raft node.
func (b *Broker) Node() *raftnode.Node { return b.node }

// Status is a picture of this node's replication.
func (b *Broker) Status() raftnode.Status {
	s := b.node.Status()
	s.Full = s.Full || b.full.Load()
	if f := b.failure.Load(); f != nil {
		s.Ready, s.Failure = false, (*f).Error()
	}
	return s
}

// Log is the applied state of one tenant as the sink reads it. The broker must be open.
func (b *Broker) Log(tenant string) stages.Log {
	id, err := tenantID(tenant)
	return &log{state: b.state, segs: b.segs, key: b.o.Key, tenant: id, bad: err}
}

// KV is the namespace queen-s3 of one tenant. The broker must be open.
func (b *Broker) KV(tenant string) stages.KV {
	id, err := tenantID(tenant)
	return &documents{propose: b.Propose, tenant: id, bad: err}
}

// Queues finds the queues of one tenant for one sink. The broker must be open.
func (b *Broker) Queues(tenant, sink string) stages.Queues {
	id, err := tenantID(tenant)
	return &queues{state: b.state, tenant: id, sink: sink, bad: err}
}

// tenantID reads a tenant's UUID. A name that is none has no queues and no documents.
func tenantID(tenant string) ([16]byte, error) {
	id, err := uuid.Parse(tenant)
	if err != nil {
		return id, fmt.Errorf("tenant %q: %w", tenant, err)
	}
	return id, nil
}
