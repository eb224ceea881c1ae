package raftnode

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"queen/broker/command"
	"queen/broker/peer"
	"queen/stages"
)

// Timeouts of one node. Nobody else can lead, so an election only costs the time that it waits for a leader to be heard.
const (
	electionTimeout = 20 * time.Millisecond
	drainLimit      = 10 * time.Second // how long Close waits for what is in flight
)

// Options of a Node. Dir, NodeID, Now and Fatal are required.
type Options struct {
	Dir    string // folder of the raft log; made when missing
	NodeID string // also the node's raft address while it is the only one
	// Cluster makes it one of several nodes. Nil: a cluster of one, which opens no port.
	Cluster *Cluster
	// Snapshots is where snapshots for followers come from and go to; needed with Cluster. Base is what is known of the entry at which the newest one
	// stands: the log may begin behind it.
	Snapshots Snapshots
	Base      Base
	// Restart is told, once, that a snapshot came in whole: the owner closes everything and starts again. It must not wait for Close.
	Restart func()
	// Admit refuses commands that another node forwards, before they are proposed; nil: none. What cannot be applied must be refused with ErrUnknown: in the
	// log it would stop every node.
	Admit func(kind command.Kind, body []byte) error
	Now   func() time.Time // wall clock
	// Elapsed is a monotonic clock, from any fixed moment. Nil: what Now's monotonic reading says.
	Elapsed    func() time.Duration
	Log        zerolog.Logger
	OpenStore  func(dir string) (Store, error) // nil: raft-wal on disk
	Rand       io.Reader                       // request ids; nil: crypto/rand
	CacheBytes int64                           // newest entries kept in memory for followers; 0: 64 MiB, less than 0: none
	// Fatal is told once of an error after which the node cannot go on: the state refused an entry, or the log's disk failed.
	// It must not wait for Close.
	Fatal func(error)
}

// Validate reports every problem.
func (o Options) Validate() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("raft node: no folder"))
	}
	if o.NodeID == "" {
		errs = append(errs, errors.New("raft node: no node id"))
	}
	if o.Now == nil {
		errs = append(errs, errors.New("raft node: no clock"))
	}
	if o.Fatal == nil {
		errs = append(errs, errors.New("raft node: no handler of fatal errors"))
	}
	return errors.Join(append(errs, o.validateCluster())...)
}

func (o Options) defaults() Options {
	if o.Elapsed == nil {
		now, start := o.Now, o.Now()
		o.Elapsed = func() time.Duration { return now().Sub(start) }
	}
	if o.OpenStore == nil {
		log := o.Log
		o.OpenStore = func(dir string) (Store, error) { return OpenDisk(dir, 0, log) }
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	return o
}

// Node is one member of the cluster. Its goroutines are raft's own and three of ours: lead (follows the leadership), pack and
// answer (proposer.go); in a cluster also the server of forwarded commands (forward.go) and catchUp. Close waits for all of them.
type Node struct {
	o         Options
	store     Store
	logs      *logs
	machine   *machine
	raft      *raft.Raft
	prop      *proposer
	calls     *calls     // nil: a cluster of one
	followers *followers // nil: a cluster of one
	carrier   *carrier   // nil: a cluster of one
	fresh     fresh
	handed    handed

	changing  chan struct{} // holds one while the members are being changed: one change at a time
	membersMu sync.Mutex
	members   members // as of the newest entry that names them and was applied

	clockMu sync.Mutex
	clock   Clock

	leads  atomic.Bool   // leader, and the barrier of this term is applied
	led    chan struct{} // closed when leads becomes true for the first time
	caught chan struct{} // closed when the machine has what was in the log at boot
	closed chan struct{} // closed by Close
	failed chan struct{} // closed by the first fatal error
	cause  error         // that error; readable once failed is closed
	fail1  sync.Once

	heldSince atomic.Int64               // since when the log is kept for a follower, monotonic; 0: it is not
	runs      atomic.Bool                // raft has started
	restart   atomic.Pointer[time.Timer] // set when a snapshot came in

	stop    context.CancelFunc
	done    sync.WaitGroup
	close1  sync.Once
	closing error
}

// Open starts the node in o.Dir and returns when it leads and the machine has applied everything that was in the log. An
// empty folder becomes a cluster of one. A node of several returns at once: CaughtUp tells when the machine has applied what was in the log.
// It fails with a sentence when log and machine do not fit together.
func Open(ctx context.Context, o Options, m Machine) (*Node, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.defaults()
	n := &Node{o: o, led: make(chan struct{}), failed: make(chan struct{}), caught: make(chan struct{}), closed: make(chan struct{}), changing: make(chan struct{}, 1)}
	store, err := o.OpenStore(o.Dir)
	if err != nil {
		return nil, err
	}
	n.store = store
	n.logs = &logs{store: store, limit: o.CacheBytes, fatal: n.fail, shared: o.Cluster != nil}
	n.logs.base.Store(&o.Base)
	n.logs.applied = func() uint64 {
		if n.machine.replaced.Load() { // what is there now counts for nothing
			return 0
		}
		return m.Applied()
	}
	n.machine = &machine{to: m, applied: n.noteTime, members: n.noteMembers, fatal: n.fail}
	n.noteTime()
	if err := n.start(m.Applied()); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if o.Cluster != nil {
		return n, nil
	}
	select {
	case <-n.led:
		return n, nil
	case <-n.failed:
		return nil, errors.Join(n.cause, n.Close())
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("start raft: %w", ctx.Err()), n.Close())
	}
}

// start checks that the log continues the state, and runs raft.
func (n *Node) start(applied uint64) error {
	last, err := bounds(n.o.Dir, n.store, applied, n.o.Base)
	if err != nil {
		return err
	}
	if err := n.sameNode(); err != nil {
		return err
	}
	if err := n.readFresh(applied); err != nil {
		return fmt.Errorf("raft log in %s: %w", n.o.Dir, err)
	}
	if err := n.begin(); err != nil {
		return fmt.Errorf("begin a cluster in %s: %w", n.o.Dir, err)
	}
	if err := n.belong(raft.ServerID(n.o.NodeID)); err != nil {
		return err
	}
	if last, err = lastCommand(n.logs, applied, last); err != nil {
		return err
	}
	state, err := standingAt(n.logs, n.members, applied)
	if err == nil {
		state.of, state.runs, state.kept = n.o.Snapshots, &n.runs, n.arrived
		err = n.run(state)
	}
	if err != nil {
		return fmt.Errorf("start raft in %s: %w", n.o.Dir, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.prop = newProposer(n.raft, n.nextTime, n.Leads)
	n.done.Go(func() { n.lead(ctx) })
	n.done.Go(func() { n.prop.pack(ctx) })
	n.done.Go(n.prop.answer)
	n.done.Go(func() { n.catchUp(ctx, last) })
	if n.o.Cluster != nil {
		n.calls = newCalls(n)
		n.calls.start(n.o.Cluster.Port.Lane(peer.Forward))
		n.done.Go(func() { n.watchLeader(ctx) })
		n.done.Go(func() { n.ripen(ctx) })
	}
	return nil
}

// run starts raft. It reads all entries first that the state does not have, and panics on one that it cannot read: that is an
// error here, so that the boot ends with one line.
func (n *Node) run(state standing) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the raft log is damaged, restore the folder from a copy: %v", p)
		}
	}()
	n.raft, err = raft.NewRaft(n.config(), n.machine, n.logs, &terms{n.store, n.fail}, state, n.transport())
	n.runs.Store(err == nil)
	return err
}

func (n *Node) config() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(n.o.NodeID)
	c.HeartbeatTimeout = electionTimeout
	c.ElectionTimeout = electionTimeout
	c.LeaderLeaseTimeout = electionTimeout
	c.MaxAppendEntries = maxEntries     // bounds an RPC and one StoreLogs; entries have up to 48 MiB
	c.BatchApplyCh = true               // entries in flight wait inside raft, so one fsync takes all of them
	c.SnapshotInterval = 24 * time.Hour // raft takes no snapshots (truncate.go)
	c.SnapshotThreshold = math.MaxUint64
	c.NoSnapshotRestoreOnStart = true
	c.NoLegacyTelemetry = true
	c.Logger = logger(n.o.Log, n.o.Now)
	n.tune(c)
	return c
}

// Propose makes one command durable and applied, and returns what the machine made of it. It waits for at most 30 s.
// Errors: ErrTooLarge, ErrNoLeader and the end of ctx (nothing happened); ErrUnclear (it may have happened, and may still).
// A full disk is ErrDiskFull; the command that met it first is unclear as well. The body must not be changed until it returned.
func (n *Node) Propose(ctx context.Context, kind command.Kind, body []byte) (any, error) {
	if n.calls != nil && !n.Leads() {
		return n.forward(ctx, kind, body)
	}
	request, err := n.request()
	if err != nil {
		return nil, err
	}
	return n.own(ctx, kind, request, body)
}

// own proposes on this node.
func (n *Node) own(ctx context.Context, kind command.Kind, request [16]byte, body []byte) (any, error) {
	result, err := n.prop.propose(ctx, kind, request, body)
	if errors.Is(err, ErrNoLeader) && n.logs.full.Load() {
		return nil, ErrDiskFull // a log that cannot be written makes its node step down
	}
	return result, err
}

// Leads says whether this node takes proposals.
func (n *Node) Leads() bool {
	return n.leads.Load() && !n.dead() && !n.machine.replaced.Load()
}

func (n *Node) dead() bool {
	select {
	case <-n.failed:
		return true
	default:
		return false
	}
}

func (n *Node) nextTime() stages.Micros {
	wall, mono := stages.Micros(n.o.Now().UnixMicro()), n.o.Elapsed()
	n.clockMu.Lock()
	defer n.clockMu.Unlock()
	return n.clock.Propose(wall, mono)
}

func (n *Node) noteTime() {
	now, mono := n.machine.to.Now(), n.o.Elapsed()
	n.clockMu.Lock()
	defer n.clockMu.Unlock()
	n.clock.Applied(now, mono)
}

// fail ends the node's work and tells the owner, once.
func (n *Node) fail(err error) {
	n.fail1.Do(func() {
		n.leads.Store(false)
		n.cause = err
		close(n.failed)
		n.o.Fatal(err)
	})
}

// Flush makes durable what the log keeps beside its entries and does not sync with each of them (mark.go). A failure of the disk is
// fatal.
func (n *Node) Flush() error {
	s, ok := n.store.(syncer)
	if !ok || n.dead() {
		return nil
	}
	if err := s.Sync(); err != nil {
		err = fmt.Errorf("raft log: %w", err)
		n.fail(err)
		return err
	}
	return nil
}

// Close answers what is in flight, refuses what waits, and stops raft and its store. It is safe to call twice.
func (n *Node) Close() error {
	n.close1.Do(func() {
		close(n.closed)
		if t := n.restart.Load(); t != nil {
			t.Stop()
		}
		n.tryHandOver()
		n.leads.Store(false)
		n.stop()
		drained := make(chan struct{})
		go func() { n.done.Wait(); close(drained) }()
		limit := time.NewTimer(drainLimit)
		defer limit.Stop()
		select {
		case <-drained: // while raft still runs, so that answers are true
		case <-limit.C:
		}
		down := n.raft.Shutdown()
		var err error
		if n.calls != nil { // raft waits for streams that it reads and writes: they end first
			err = errors.Join(n.calls.close(), n.o.Cluster.Port.Close())
			n.carrier.interrupt()
		}
		n.closing = errors.Join(down.Error(), err, n.store.Close())
	})
	return n.closing
}
