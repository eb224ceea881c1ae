package sink

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"queen/commit"
	"queen/config"
	"queen/encode"
	"queen/source"
	"queen/stages"
	"queen/upload"
	"queen/window"
)

// Version is what status and the start line show; the writer strings of manifests carry the same number.
const Version = "2.0.0"

// Options is what a sink is made of.
type Options struct {
	Config *config.Sink
	Log    stages.Log
	KV     stages.KV
	Queues stages.Queues
	// Applied shows the rows of KV as this node has applied them, so that what other nodes hold can be watched for nothing. nil = they are read
	// through the log, a third of a time to live apart.
	Applied stages.Applied
	Now     stages.Now
	Key     string                                                            // fingerprint of the encryption key that Log opens payloads with; "" = it has none
	Logger  zerolog.Logger                                                    // with its component set
	Rand    io.Reader                                                         // incarnations and jitter; nil = crypto/rand
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error) // to the bucket; nil = the system's
	Abort   func()                                                            // ends the process at QUEEN_S3_CRASH_AT; nil = nothing
	Shared  *Shared                                                           // with the other sinks of the process; nil = there are none

	former *former // the sink whose place this one takes; nil = it is the first
}

// Sink mirrors the queues of one tenant into one bucket.
type Sink struct {
	o         Options
	cfg       *config.Sink
	client    *upload.Client
	pins      commit.Pins
	discovery *source.Discovery
	shared    *Shared
	need      need
	claims    semaphore
	store     *commit.Store
	backoff   commit.Backoff
	metrics   *metrics
	logs      *logs
	bucket    bucketStatus
	place     place
	names     spellings

	mu      sync.Mutex
	queues  map[string]*queue
	sorted  []*queue // the same by name; nil = to be sorted anew
	phase   string
	unit    unit
	started time.Time
	work    context.Context // of the queues' goroutines; nil before Run
	crew    crew
	abort   context.CancelCauseFunc // ends everything
	cut     context.CancelCauseFunc // ends work
	running sync.WaitGroup
	jitters *mathrand.Rand

	nudged   chan struct{} // the bucket is to be probed soon
	draining chan struct{}
	drain    sync.Once
	ended    chan struct{}
	fall     sync.Once
	fell     chan struct{} // closed when a fault of its own code ends the sink
	fault    *fallen       // it; set before that
}

// claimsAtOnce bounds how many queues are claimed at the same time.
const claimsAtOnce = 16

// New checks what it is given and opens nothing.
func New(o Options) (*Sink, error) {
	if o.Config == nil || o.Log == nil || o.KV == nil || o.Queues == nil || o.Now == nil {
		return nil, errors.New("sink: config, log, kv, queues and clock are needed")
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Abort == nil {
		o.Abort = func() {}
	}
	o.KV = timed{o.KV}
	quick := o.Applied != nil
	if !quick {
		o.Applied = throughLog{o.KV}
	}
	var seed [16]byte
	if _, err := io.ReadFull(o.Rand, seed[:]); err != nil {
		return nil, fmt.Errorf("sink: seed of the jitter: %w", err)
	}
	s := &Sink{o: o, cfg: o.Config, phase: phaseStarting, queues: map[string]*queue{}, claims: newSemaphore(claimsAtOnce),
		nudged: make(chan struct{}, 1), draining: make(chan struct{}), ended: make(chan struct{}), fell: make(chan struct{}),
		jitters: mathrand.New(mathrand.NewPCG(binary.LittleEndian.Uint64(seed[:8]), binary.LittleEndian.Uint64(seed[8:])))}
	s.backoff = commit.Backoff{First: time.Second, Max: time.Minute, Jitter: s.random, Hurry: s.draining}
	s.store = &commit.Store{KV: o.KV, Log: o.Log, Now: o.Now, Sink: s.cfg.Name, Instance: s.cfg.Instance, TTL: s.cfg.LeaseTTL, Backoff: s.backoff,
		// as long as a sink that keeps up can take
		Wait: stages.Micros(0).Add(2*s.cfg.MaxWindow + s.cfg.SafeGuard + time.Minute)}
	if s.shared = o.Shared; s.shared == nil {
		s.shared = NewShared(SharedOptions{Memory: s.cfg.MemoryBytes, Threads: s.cfg.Threads})
	}
	if err := s.newPlace(quick); err != nil {
		return nil, err
	}
	s.need = needOf(s.shared.budget.Limit(), s.cfg.MultipartThreshold, s.cfg.FetchConcurrency, s.shared.formats.Memory())
	if o.former == nil {
		o.former = &former{counters: newCounters()}
		s.o.former = o.former
	}
	s.unit = o.former.unit
	s.metrics = newMetrics(s, o.former.counters)
	s.logs = newLogs(s)
	format, err := encode.Lookup(s.cfg.Format, s.cfg.Codec())
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	s.pins = commit.Pins{Format: format.Name(), Compression: format.Compression(), Level: format.Level(), Layout: s.cfg.Layout,
		Align: s.cfg.Align, Prefix: s.cfg.Prefix, Bucket: s.cfg.Bucket, Endpoint: s.cfg.Endpoint, Writer: format.Writer(), Encoder: format.Encoder()}
	if s.client, err = upload.New(s.clientOptions()); err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	s.discovery, err = source.NewDiscovery(source.Options{Log: o.Log, Guard: s.cfg.SafeGuard, Interval: s.cfg.DiscoveryInterval, Looked: s.looked})
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	for _, name := range s.cfg.Queues {
		if _, err := s.add(name); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Sink) clientOptions() upload.ClientOptions {
	return upload.ClientOptions{Endpoint: s.cfg.Endpoint, Region: s.cfg.Region, Bucket: s.cfg.Bucket, AccessKey: s.cfg.AccessKey,
		SecretKey: upload.Secret(s.cfg.SecretKey.Reveal()), SessionToken: upload.Secret(s.cfg.SessionToken.Reveal()), Ambient: s.cfg.Ambient, PathStyle: s.cfg.PathStyle, SSE: s.cfg.SSE, KMSKeyID: s.cfg.SSEKMSKeyID,
		Dial: s.o.Dial, Random: s.random, Wanted: s.wanted, Observe: func(op upload.Op, code int) { s.raise(nil, requested{op, code}) }}
}

func (s *Sink) uploadOptions(client *upload.Client) upload.StageOptions {
	return upload.StageOptions{Client: client, Chunks: &s.shared.chunks, Sink: s.cfg.Name, Tenant: s.cfg.Tenant, Part: s.need.part, Threshold: s.need.threshold, Hook: s.crash,
		Describe: func(format, compression string) (ext, contentType string, err error) {
			f, err := encode.Lookup(format, compression)
			if err != nil {
				return "", "", err
			}
			return f.Ext(), f.ContentType(), nil
		}}
}

func (s *Sink) rules(partitions int) window.Rules {
	// The cutter's clock is the ceiling, the guard behind the log clock on which a window's age counts (contract S5).
	age := s.cfg.MaxWindow - s.cfg.SafeGuard
	return window.Rules{Target: max(1, s.cfg.TargetBytes), MaxAge: age, Align: window.Align(s.cfg.Align), MaxAppends: s.need.appends(int64(partitions), s.cfg.Layout)}
}

// known says whether this binary can write the window of an intent (contract B1).
func (s *Sink) known(in stages.Intent) (stages.Intent, error) {
	if in.Key != "" && in.Key != s.o.Key {
		return in, fmt.Errorf("its payloads are sealed with the encryption key %s and %s", in.Key, s.ownKey())
	}
	if _, err := upload.DataPattern(in, s.cfg.Tenant, "q"); err != nil {
		return in, err
	}
	_, err := encode.Check(encode.Lookup, in)
	if other, ok := errors.AsType[*encode.EncoderError](err); !ok || other == nil {
		return in, err
	}
	f, err := encode.Lookup(in.Format, in.Compression)
	if err != nil {
		return in, err
	}
	// `at` is new too: a manifest that the first encoder's owner may still send must not speak for our object.
	in.Writer, in.Encoder, in.Level, in.At = f.Writer(), f.Encoder(), f.Level(), stages.MicrosOf(s.o.Now()).ISO()
	return in, nil
}

func (s *Sink) crash(point string) {
	if point == s.cfg.CrashAt {
		s.o.Abort()
	}
}

// Run mirrors until Drain has finished, or until ctx ends, which aborts: open windows are redone by the next life. It returns nil after a
// drain and ctx's cause after an abort.
func (s *Sink) Run(ctx context.Context) error {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	work, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	defer close(s.ended)
	defer s.client.Close()
	s.mu.Lock()
	s.work, s.abort, s.cut, s.started = work, abort, cut, s.o.Now()
	s.mu.Unlock()
	s.raise(nil, starting{})
	defer s.setPhase(phaseStopped)

	serving, stop := s.untilDrain(ctx)
	defer stop()
	var end stopped
	reached := false
	s.guarded("probe", func() { reached = s.reach(serving) })
	if reached {
		s.setPhase(phaseRunning)
		end = s.serve(ctx, serving)
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	s.raise(nil, end)
	return nil
}

// serve runs the queues until serving ends, then drains them and says how that went. Lease rows are refreshed until nothing runs any more.
func (s *Sink) serve(ctx, serving context.Context) stopped {
	var loops, refreshing sync.WaitGroup
	for part, loop := range map[string]func(context.Context){"discovery": s.discovery.Run, "list": s.list, "placement": s.watch} {
		loops.Go(func() { s.guarded(part, func() { loop(serving) }) })
	}
	refresh, stop := context.WithCancel(ctx)
	for part, loop := range map[string]func(context.Context){"refresh": s.refresh,
		"presence": s.beat,        // who drains still holds its queues
		"bucket":   s.watchBucket, // what is open at a drain may wait for the bucket
	} {
		refreshing.Go(func() { s.guarded(part, func() { loop(refresh) }) })
	}
	loops.Go(func() {
		s.guarded("begin", func() {
			for _, q := range s.all() {
				s.begin(serving, q)
			}
		})
	})
	<-serving.Done()
	loops.Wait()
	s.finish()
	stop()
	refreshing.Wait()
	end := s.ending()
	s.release(ctx)
	s.tryLeave(ctx)
	return end
}

func (s *Sink) stopping() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

func (s *Sink) setPhase(phase string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = phase
}

// age is how long the sink runs.
func (s *Sink) age() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.o.Now().Sub(s.started)
}

func (s *Sink) random() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jitters.Float64()
}

func (s *Sink) jitter(most time.Duration) time.Duration {
	return time.Duration(s.random() * float64(most))
}

// all returns the rows sorted by name.
func (s *Sink) all() []*queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sorted == nil {
		s.sorted = slices.SortedFunc(maps.Values(s.queues), func(a, b *queue) int { return cmp.Compare(a.name, b.name) })
	}
	return slices.Clone(s.sorted)
}

// add makes the row of a queue that has none; it is nil for one that has.
func (s *Sink) add(name string) (*queue, error) {
	s.mu.Lock()
	_, known := s.queues[name]
	s.mu.Unlock()
	if known {
		return nil, nil
	}
	q, err := s.newQueue(strings.Clone(name))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[name], s.sorted = q, nil
	s.place.moved.Store(true)
	return q, nil
}

// begin starts a new row. It waits while as many claims run as may, so that ten thousand queues are not ten thousand goroutines at a start.
func (s *Sink) begin(ctx context.Context, q *queue) {
	if s.claims.take(ctx) != nil {
		return
	}
	s.claims.give()
	q.wake()
}

func (s *Sink) remove(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.queues, q.name)
	s.names.remove(q.name)
	s.sorted = nil
}

// looked hears of every look of the discovery.
func (s *Sink) looked(err error) {
	if err != nil {
		s.raise(nil, waiting{"discovery", err})
		for _, q := range s.all() {
			s.raise(q, lookFailed{err})
		}
		return
	}
	s.raise(nil, seen{})
}

// Registry returns the metrics of this sink: all families of contract S12 in its order, those too that have no samples.
func (s *Sink) Registry() prometheus.Gatherer { return complete{s.metrics.registry} }
