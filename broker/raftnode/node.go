package raftnode

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"queen/broker/command"
	"queen/stages"
)

// Timeouts of one node. Nobody else can lead, so an election only costs the time that it waits for a leader to be heard.
const (
	electionTimeout = 20 * time.Millisecond
	drainLimit      = 10 * time.Second // how long Close waits for what is in flight
)

// Options of a Node. Dir, NodeID, Now and Fatal are required.
type Options struct {
	Dir    string           // folder of the raft log; made when missing
	NodeID string           // also the node's raft address while a cluster is one node
	Now    func() time.Time // wall clock
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
	return errors.Join(errs...)
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
// answer (proposer.go). Close waits for all of them.
type Node struct {
	o       Options
	store   Store
	logs    *logs
	machine *machine
	members members
	raft    *raft.Raft
	prop    *proposer

	clockMu sync.Mutex
	clock   Clock

	leads  atomic.Bool   // leader, and the barrier of this term is applied
	led    chan struct{} // closed when leads becomes true for the first time
	failed chan struct{} // closed by the first fatal error
	cause  error         // that error; readable once failed is closed
	fail1  sync.Once

	stop    context.CancelFunc
	done    sync.WaitGroup
	close1  sync.Once
	closing error
}

// Open starts the node in o.Dir and returns when it leads and the machine has applied everything that was in the log. An
// empty folder becomes a cluster of one. It fails with a sentence when log and machine do not fit together.
func Open(ctx context.Context, o Options, m Machine) (*Node, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.defaults()
	n := &Node{o: o, led: make(chan struct{}), failed: make(chan struct{})}
	store, err := o.OpenStore(o.Dir)
	if err != nil {
		return nil, err
	}
	n.store = store
	n.logs = &logs{store: store, limit: o.CacheBytes, fatal: n.fail}
	n.machine = &machine{to: m, applied: n.noteTime, fatal: n.fail}
	n.noteTime()
	if err := n.start(m.Applied()); err != nil {
		return nil, errors.Join(err, store.Close())
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
	if _, err := bounds(n.o.Dir, n.store, applied); err != nil {
		return err
	}
	id := raft.ServerID(n.o.NodeID)
	address, transport := raft.NewInmemTransport(raft.ServerAddress(n.o.NodeID))
	config := n.config()
	alone := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: id, Address: address}}}
	if err := n.begin(alone); err != nil {
		return fmt.Errorf("begin a cluster in %s: %w", n.o.Dir, err)
	}
	if err := n.belong(id); err != nil {
		return err
	}
	state, err := standingAt(n.logs, n.members, applied)
	if err == nil {
		n.raft, err = n.run(config, transport, state)
	}
	if err != nil {
		return fmt.Errorf("start raft in %s: %w", n.o.Dir, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.prop = newProposer(n.raft, n.nextTime, n.Leads, n.o.Rand)
	n.done.Go(func() { n.lead(ctx) })
	n.done.Go(func() { n.prop.pack(ctx) })
	n.done.Go(n.prop.answer)
	return nil
}

// Check says whether a log may be what follows a state that has applied this index, and returns the index of its last entry: the log
// goes on where the state stands, and every entry from there on can be read. It changes nothing. Whoever is about to remove
// what the state does not know asks first: only the log has it then. A nil store is a log that does not exist; dir is for the error.
func Check(dir string, s Store, applied uint64) (last uint64, err error) {
	if s == nil {
		return 0, ends(dir, 0, applied)
	}
	if last, err = bounds(dir, s, applied); err != nil {
		return 0, err
	}
	l := &logs{store: s}
	for index := applied + 1; index <= last; index++ {
		var e raft.Log
		if err := l.GetLog(index, &e); err != nil {
			return 0, fmt.Errorf("the raft log in %s is damaged, restore the folder from a copy: %w", dir, err)
		}
	}
	return last, nil
}

// bounds refuses a log that does not continue the state: raft would silently skip what is between them.
func bounds(dir string, s Store, applied uint64) (last uint64, err error) {
	first, err := s.FirstIndex()
	if err != nil {
		return 0, fmt.Errorf("read the raft log in %s: %w", dir, err)
	}
	if last, err = s.LastIndex(); err != nil {
		return 0, fmt.Errorf("read the raft log in %s: %w", dir, err)
	}
	if first > 1 && first > applied { // the term of the last applied entry is needed too
		return 0, fmt.Errorf("the raft log in %s begins at entry %d but the state ends at entry %d: what lies between is missing, restore the folder from a copy", dir, first, applied)
	}
	return last, ends(dir, last, applied)
}

// ends refuses a log that ends before the state.
func ends(dir string, last, applied uint64) error {
	if last < applied {
		return fmt.Errorf("the raft log in %s ends at entry %d but the state has applied entry %d: the end of the log is lost, restore the folder from a copy", dir, last, applied)
	}
	return nil
}

// run starts raft. It reads all entries first that the state does not have, and panics on one that it cannot read: that is an
// error here, so that the boot ends with one line.
func (n *Node) run(config *raft.Config, transport raft.Transport, state standing) (r *raft.Raft, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = nil, fmt.Errorf("the raft log is damaged, restore the folder from a copy: %v", p)
		}
	}()
	return raft.NewRaft(config, n.machine, n.logs, n.store, state, transport)
}

const (
	currentTerm = "CurrentTerm" // raft's name for the term in its stable store
	notFound    = "not found"   // so does raft tell an absent value
)

// begin makes an empty log the beginning of a cluster: entry 1, of term 1, names its members. raft.BootstrapCluster does the
// same, but a power loss between its two writes leaves a term without members, which it then takes for a cluster, and nobody
// ever leads. No election can have been held without entry 1: a later term says that the log is gone.
func (n *Node) begin(members raft.Configuration) error {
	last, err := n.store.LastIndex()
	if err != nil || last > 0 {
		return err
	}
	switch term, err := n.store.GetUint64([]byte(currentTerm)); {
	case err != nil && err.Error() != notFound:
		return err
	case term > 1:
		return fmt.Errorf("the raft log is empty but this node has been in term %d: the log is lost, restore the folder from a copy", term)
	}
	if err := n.store.SetUint64([]byte(currentTerm), 1); err != nil {
		return err
	}
	return n.logs.StoreLog(&raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(members)})
}

// belong reads the members of the cluster, and refuses the folder of another node: raft would wait for ever for a leader that it may not
// become.
func (n *Node) belong(id raft.ServerID) (err error) {
	if n.members, err = readMembers(n.logs, n.store); err != nil {
		return err
	}
	var names []string
	for _, s := range n.members.list.Servers {
		if s.ID == id {
			return nil
		}
		names = append(names, string(s.ID))
	}
	return fmt.Errorf("the raft log in %s is that of node %s, and this is node %s: give it its own number again (QUEEN_RAFT_NODE_ID), or use another folder",
		n.o.Dir, strings.Join(names, ", "), id)
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
	c.Logger = logger(n.o.Log)
	return c
}

// lead follows the leadership. Proposals are taken from the moment at which a barrier of this term is applied: then the state
// holds all that earlier leaders committed.
func (n *Node) lead(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case leader := <-n.raft.LeaderCh():
			n.leads.Store(false)
			if !leader || n.raft.Barrier(0).Error() != nil || n.dead() {
				continue
			}
			n.leads.Store(true)
			select {
			case <-n.led:
			default:
				close(n.led)
			}
		}
	}
}

// Propose makes one command durable and applied, and returns what the machine made of it. It waits for at most 30 s.
// Errors: ErrTooLarge, ErrNoLeader and the end of ctx (nothing happened); ErrUnclear (it may have happened, and may still).
// A full disk is ErrDiskFull; the command that met it first is unclear as well. The body must not be changed until it returned.
func (n *Node) Propose(ctx context.Context, kind command.Kind, body []byte) (any, error) {
	result, err := n.prop.propose(ctx, kind, body)
	if errors.Is(err, ErrNoLeader) && n.logs.full.Load() {
		return nil, ErrDiskFull // a log that cannot be written makes its node step down
	}
	return result, err
}

// Leads says whether this node takes proposals.
func (n *Node) Leads() bool { return n.leads.Load() && !n.dead() }

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
		err := n.raft.Shutdown().Error()
		n.closing = errors.Join(err, n.store.Close())
	})
	return n.closing
}
