package sink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"queen/commit/committest"
	"queen/config"
	"queen/encode"
	"queen/internal/fakes3"
	"queen/stages"
	"queen/upload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "never-to-be-seen"

// world is a broker and a bucket, both in memory, and the lives of the sinks that use them.
type world struct {
	t    *testing.T
	mem  *memory
	s3   *fakes3.Server
	logs lockedBuffer
	now  stages.Now // of the sinks; nil = the test's
	rand io.Reader  // of the sinks; nil = the system's

	shared *Shared // of the lives; nil = each has its own
	blind  bool    // the broker shows no applied rows
	key    string  // fingerprint of the encryption key of the next life
}

// inWorld runs a test on simulated time.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, mem: newMemory(), s3: fakes3.New(fakes3.Options{Bucket: "lake", Secret: secret})}
		defer w.s3.Close()
		test(w)
		if strings.Contains(w.logs.String(), secret) {
			t.Error("the log shows the secret")
		}
	})
}

// life is one process's sink.
type life struct {
	w      *world
	s      *Sink
	dead   atomic.Bool
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
	stall  stall
	faults faults
}

var errDead = errors.New("the process is dead")

func settings(endpoint string) *config.Sink {
	return &config.Sink{Tenant: stages.DefaultTenant, Name: "default", Queues: []string{"orders"}, Endpoint: endpoint, Region: "us-east-1",
		Bucket: "lake", Prefix: "queen", AccessKey: "key", SecretKey: secret, PathStyle: true, Format: "jsonl", Compression: "zstd",
		Layout: "merged", Align: "none", Start: "earliest", TargetBytes: 1 << 20, MaxWindow: 10 * time.Second, MemoryBytes: 64 << 20,
		FetchConcurrency: 2, DiscoveryInterval: time.Second, SafeGuard: 2 * time.Second, LeaseTTL: 30 * time.Second,
		MultipartThreshold: 64 << 20, CheckpointEvery: 20, Instance: "node-1@h", CrashAt: "never", Threads: 2, ShutdownGrace: 30 * time.Second}
}

// start begins a life; change adapts its settings.
func (w *world) start(change func(*config.Sink)) *life {
	w.t.Helper()
	cfg := settings(w.s3.Endpoint())
	if change != nil {
		change(cfg)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	l := &life{w: w, cancel: cancel, ended: make(chan struct{})}
	s, err := New(w.options(l, cfg))
	if err != nil {
		w.t.Fatal(err)
	}
	l.s = s
	go func() {
		defer close(l.ended)
		l.err = s.Run(ctx)
	}()
	return l
}

// options are those of a sink of a life.
func (w *world) options(l *life, cfg *config.Sink) Options {
	now := w.now
	if now == nil {
		now = l.stall.now
	}
	var applied stages.Applied
	if !w.blind {
		applied = view{w.mem.kv, l}
	}
	return Options{Config: cfg, Log: w.mem, KV: gate{w.mem.kv, l}, Applied: applied, Queues: w.mem, Now: now, Rand: w.rand, Logger: zerolog.New(&w.logs),
		Dial: l.dial, Abort: l.kill, Shared: w.shared, Key: w.key}
}

// kill ends the process: from now on nothing of it reaches the broker or the bucket.
func (l *life) kill() {
	l.dead.Store(true)
	l.cancel()
}

// gone waits until nothing of a dead process runs.
func (l *life) gone() {
	l.kill()
	<-l.ended
}

// stop drains the sink.
func (l *life) stop() {
	l.w.t.Helper()
	if err := l.s.Drain(l.w.t.Context()); err != nil {
		l.w.t.Errorf("drain: %v", err)
	}
	<-l.ended
	if l.err != nil {
		l.w.t.Errorf("run: %v", l.err)
	}
	l.cancel()
}

// gate is the way to the store, which a dead process has not.
type gate struct {
	stages.KV
	l *life
}

func (g gate) Batch(ctx context.Context, ops []stages.Op) ([]stages.Result, *stages.Lost, error) {
	for _, op := range ops {
		g.l.faults.at(op.Key)
	}
	g.l.stall.wait(ctx)
	if g.l.dead.Load() {
		return nil, nil, errDead
	}
	return g.KV.Batch(ctx, ops)
}

// view is what the node has applied.
type view struct {
	kv *committest.KV
	l  *life
}

func (v view) Rows(ctx context.Context, keys []string) ([]stages.LiveRow, error) {
	v.l.stall.wait(ctx)
	if v.l.dead.Load() {
		return nil, errDead
	}
	return v.kv.Rows(ctx, keys)
}

func (v view) Prefix(ctx context.Context, prefix string) ([]stages.LiveRow, error) {
	v.l.faults.at("applied")
	v.l.stall.wait(ctx)
	if v.l.dead.Load() {
		return nil, errDead
	}
	return v.kv.Prefix(ctx, prefix)
}

func (l *life) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.stall.wait(ctx)
	if l.dead.Load() {
		return nil, errDead
	}
	c, err := l.w.s3.Dial(ctx, network, addr)
	return wire{c, l}, err
}

type wire struct {
	net.Conn
	l *life
}

func (c wire) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.l.stall.wait(context.Background())
	return n, err
}

func (c wire) Write(p []byte) (int, error) {
	c.l.stall.wait(context.Background())
	if c.l.dead.Load() {
		return 0, errDead
	}
	return c.Conn.Write(p)
}

// elapse lets time go by.
func elapse(d time.Duration) { <-time.After(d) }

// until waits for cond, at most for a limit of simulated time.
func (w *world) until(limit time.Duration, what string, cond func() bool) {
	w.t.Helper()
	for end := time.Now().Add(limit); ; elapse(50 * time.Millisecond) {
		synctest.Wait()
		if cond() {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("not within %v: %s\n%s", limit, what, w.logs.String())
		}
	}
}

// row is the queue's row in status.
func (l *life) row(queue string) map[string]any {
	for _, r := range l.report()["queues"].([]any) {
		if row := r.(map[string]any); row["name"] == queue {
			return row
		}
	}
	return map[string]any{}
}

func (l *life) report() map[string]any {
	return l.s.Status().(map[string]any)["sinks"].([]any)[0].(map[string]any)
}

func (l *life) k(queue string) uint64 {
	k, _ := l.row(queue)["k"].(uint64)
	return k
}

// objects returns key and sha256 of everything in the bucket.
func (w *world) objects() map[string]string {
	all := map[string]string{}
	for _, key := range w.s3.Keys() {
		data, _ := w.s3.Object(key)
		sum := sha256.Sum256(data)
		all[key] = hex.EncodeToString(sum[:])
	}
	return all
}

// audit decodes all objects: every record of the queue that is committed is in one object, once, byte for byte, and every object is named
// by a manifest, with its hash. It returns how many records there are.
func (w *world) audit(queue string) int {
	w.t.Helper()
	seen := map[string]int{}
	named := map[string]bool{}
	objects := w.objects()
	lost := 0
	for k := uint64(1); ; k++ {
		key := upload.ManifestKey("queen", stages.DefaultTenant, queue, k)
		text, ok := w.s3.Object(key)
		if !ok {
			break
		}
		m, err := upload.ParseManifest(text)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, o := range m.Objects {
			named[o.Key] = true
			if objects[o.Key] != o.SHA256 {
				w.t.Errorf("%s: sha256 %s, its manifest says %s", o.Key, objects[o.Key], o.SHA256)
			}
		}
		for _, r := range m.Lost {
			lost += int(r.To - r.From + 1)
		}
	}
	records := 0
	for key := range objects {
		if !strings.Contains(key, "/tenant=") || strings.Contains(key, "/_queen/") || !strings.Contains(key, "/queue="+stages.Esc(queue)+"/") {
			continue
		}
		if !named[key] {
			w.t.Errorf("%s is in no manifest", key)
		}
		data, _ := w.s3.Object(key)
		codec := map[string]string{"zst": "zstd", "gz": "gzip", "jsonl": "none"}[key[strings.LastIndexByte(key, '.')+1:]]
		format, err := encode.Lookup("jsonl", codec)
		if err != nil {
			w.t.Fatal(err)
		}
		for row, err := range format.Decode(bytes.NewReader(data)) {
			if err != nil {
				w.t.Fatalf("%s: %v", key, err)
			}
			records++
			seen[fmt.Sprintf("%s %d %s %s", row.Partition, row.Offset, row.TxID, row.Payload)]++
		}
	}
	w.compare(queue, seen, lost)
	return records
}

func (w *world) compare(queue string, seen map[string]int, lost int) {
	w.t.Helper()
	w.mem.mu.Lock()
	defer w.mem.mu.Unlock()
	q := w.mem.queue(queue)
	stored := map[string]bool{}
	for _, a := range q.appends {
		for _, r := range a.records {
			stored[fmt.Sprintf("%s %d %s %s", q.names[a.h.Partition], r.Offset, r.TxID, r.Payload)] = true
		}
	}
	for r, n := range seen {
		if n != 1 || !stored[r] && lost == 0 {
			w.t.Errorf("record %s: %d times in the bucket, in the log: %v", r, n, stored[r])
		}
	}
}

type lockedBuffer struct {
	mu     sync.Mutex
	b      bytes.Buffer
	faults faults // at "the bucket cannot be reached"
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("the bucket cannot be reached")) {
		b.faults.at("the bucket cannot be reached")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *lockedBuffer) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Len()
}

func (w *world) logged(line string) int { return strings.Count(w.logs.String(), line) }

func (w *world) requests(op string) (n int) {
	for _, r := range w.s3.Requests() {
		if r.Op == op {
			n++
		}
	}
	return n
}

func hasState(l *life, queue string, states ...string) func() bool {
	return func() bool { return slices.Contains(states, fmt.Sprint(l.row(queue)["state"])) }
}
