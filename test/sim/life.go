package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/rs/zerolog"

	"queen/broker"
	"queen/broker/api"
	"queen/broker/peer"
	"queen/broker/raftnode"
	"queen/config"
	"queen/internal/crashwal"
	"queen/sink"
	"queen/stages"
)

const (
	secret  = "never-to-be-seen"
	walFile = 64 << 10
)

// life is one process of a node, from its start to its end.
type life struct {
	m       *machine
	wal     *crashwal.FS
	broker  *broker.Broker
	handler http.Handler
	ready   atomic.Bool // it answers and its sink runs

	armed   atomic.Int64 // disk events until the power goes; 0: it does not
	percent int          // of what is not synced then that the disks keep
	once    sync.Once
	hit     chan struct{} // closed when the power is gone
	dark    atomic.Bool   // the power is gone: whatever it does and says now, nobody sees it

	mu    sync.Mutex
	conns map[net.Conn]bool // to the bucket
	sink  *sink.Sink
	still chan struct{} // see stall

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// start begins a life on the machine's disks.
func (m *machine) start() {
	l := &life{m: m, wal: m.wal, hit: make(chan struct{}), conns: map[net.Conn]bool{}}
	m.hook.Store(l)
	b, err := broker.New(l.options())
	if err == nil {
		err = b.Open(m.w.t.Context())
	}
	if err != nil {
		m.w.fail("node %d does not start: %v", m.id, err)
		return
	}
	l.broker = b
	l.handler, err = api.New(api.Options{Broker: b, Members: b.Node(), MaxBody: 1 << 20, Now: m.now, Rand: randomness{}, Log: zerolog.Nop(), Settled: b.Settled()})
	if err != nil {
		m.w.fail("node %d: %v", m.id, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	m.mu.Lock()
	m.life = l
	m.mu.Unlock()
	l.done.Go(func() { l.mirror(ctx) })
}

func (l *life) options() broker.Options {
	m := l.m
	listener, err := m.w.net.Listen(memberOf(m.id).Raft)
	if err != nil {
		m.w.fail("node %d: %v", m.id, err)
	}
	var first []peer.Member
	for i := range nodes {
		first = append(first, memberOf(i+1))
	}
	return broker.Options{
		Dir: "/data", NodeID: m.id, Now: m.now, Elapsed: since(), Log: zerolog.Nop(), FS: errorfs.Wrap(m.disk, l), SealBytes: 32 << 10, SnapshotBytes: 128 << 10,
		Cluster: &broker.Cluster{Self: memberOf(m.id), First: first, Token: "secret", Listener: listener, Dial: l.dialPeer},
		OpenStore: func(string) (raftnode.Store, error) {
			return raftnode.OpenWAL(crashwal.Dir, l.wal, l.wal.Meta(), walFile, zerolog.Nop())
		},
		Fatal: func(err error) {
			if !l.dark.Load() {
				m.w.fail("node %d: fatal: %v", m.id, err)
			}
		},
		Restart: func() {
			m.w.count("snapshot to a node")
			go m.alone(func() { m.again(l) })
		},
	}
}

// since is a monotonic clock: steps of the wall clock do not move it.
func since() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// MaybeError sees each operation on the disk.
func (l *life) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsWrite || op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
		l.event()
	}
	return nil
}

func (l *life) String() string { return "power" }

// event is a moment at which the power may go.
func (l *life) event() {
	if l.armed.Load() > 0 && l.armed.Add(-1) == 0 {
		l.cut()
	}
}

// cut takes the power: first nothing leaves the machine any more, then the disks are what they are. What was said before that was durable before that.
func (l *life) cut() {
	l.once.Do(func() {
		m := l.m
		l.dark.Store(true)
		m.w.net.Kill(memberOf(m.id).Raft)
		l.mu.Lock()
		for c := range l.conns {
			_ = c.Close() // the machine is off
		}
		l.mu.Unlock()
		disk := m.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: l.percent, RNG: m.w.dice()})
		hook := &holder{}
		wal := m.wal.CrashClone(l.percent, m.w.dice(), hook.event)
		m.disk, m.wal, m.hook = disk, wal, hook
		close(l.hit)
	})
}

// mirror runs the sink once the node shows what was in its log.
func (l *life) mirror(ctx context.Context) {
	select {
	case <-l.broker.Settled():
	case <-ctx.Done():
		return
	}
	s, err := sink.New(sink.Options{Config: settings(l.m.id), Log: l.broker.Log(stages.DefaultTenant), KV: rows{l.broker.KV(stages.DefaultTenant), l},
		Applied: l.broker.Applied(stages.DefaultTenant), Queues: l.broker.Queues(stages.DefaultTenant, "default"), Now: stages.Now(time.Now), Logger: zerolog.Nop(),
		Dial: l.dial})
	if err != nil {
		l.m.w.fail("node %d: sink: %v", l.m.id, err)
		return
	}
	l.mu.Lock()
	l.sink = s
	l.mu.Unlock()
	l.ready.Store(true)
	if err := s.Run(ctx); err != nil && ctx.Err() == nil && !l.dark.Load() && l.ready.Load() { // one that is stopped may be cut short
		l.m.w.fail("node %d: the sink ended: %v", l.m.id, err)
	}
}

func settings(id int) *config.Sink {
	return &config.Sink{Tenant: stages.DefaultTenant, Name: "default", All: true, Endpoint: "http://fakes3.test", Region: "us-east-1",
		Bucket: "lake", Prefix: "queen", AccessKey: "key", SecretKey: secret, PathStyle: true, Format: "jsonl", Compression: "zstd",
		Layout: "merged", Align: "hour", Start: "earliest", TargetBytes: 64 << 10, MaxWindow: 5 * time.Second, MemoryBytes: 32 << 20,
		FetchConcurrency: 2, DiscoveryInterval: 200 * time.Millisecond, SafeGuard: 200 * time.Millisecond, LeaseTTL: 3 * time.Second,
		MultipartThreshold: 64 << 20, CheckpointEvery: 20, Instance: fmt.Sprintf("node-%d@sim/node-%d", id, id), CrashAt: "never", Threads: 1, ShutdownGrace: 10 * time.Second}
}

// dialPeer opens a connection to another node, unless the power is gone.
func (l *life) dialPeer(ctx context.Context, to string) (net.Conn, error) {
	c, err := l.m.w.net.Dialer(memberOf(l.m.id).Raft)(ctx, to)
	if err == nil && l.dark.Load() {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	return c, err
}

// dial opens a connection to the bucket, which goes with the life.
func (l *life) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if l.dark.Load() {
		return nil, net.ErrClosed
	}
	c, err := l.m.w.s3.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dark.Load() {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	l.conns[c] = true
	return c, nil
}

// crash takes the power from the node in the middle of what it does, and leaves the disks as a machine would find them.
func (m *machine) crash(percent int) {
	l := m.runs()
	if l == nil {
		return
	}
	l.percent = percent
	l.armed.Store(int64(1 + m.w.pick(60)))
	select {
	case <-l.hit:
	case <-time.After(2 * time.Second): // it does nothing with its disks
		l.cut()
		<-l.hit
	}
	m.off(l)
	l.ready.Store(false)
	l.cancel()
	l.done.Wait()
	_ = l.broker.Close() // on disks that nobody looks at any more
	m.w.count(fmt.Sprintf("power loss, %d %% of what was not synced", percent))
}

func (m *machine) off(l *life) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life == l {
		m.life = nil
	}
}

// stop ends the process as SIGTERM would.
func (m *machine) stop(drain bool) {
	l := m.runs()
	if l == nil {
		return
	}
	m.off(l)
	l.end(drain)
	m.w.count("stop")
}

func (l *life) end(drain bool) {
	l.ready.Store(false)
	l.mu.Lock()
	s := l.sink
	l.mu.Unlock()
	if s != nil && drain {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_ = s.Drain(ctx) // one that is cut short loses nothing
		cancel()
	}
	l.cancel()
	l.done.Wait()
	if err := l.broker.Close(); err != nil {
		l.m.w.fail("node %d: close: %v", l.m.id, err)
	}
}

// again starts the node anew because a snapshot came in.
func (m *machine) again(l *life) {
	m.mu.Lock()
	mine := m.life == l
	if mine {
		m.life = nil
	}
	m.mu.Unlock()
	if !mine {
		return // the power went before
	}
	l.end(false)
	m.start()
}

// randomness is not part of the seed.
type randomness struct{}

func (randomness) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return len(b), nil
}
