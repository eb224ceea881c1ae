package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"queen/broker"
	"queen/internal/logline"
	"queen/internal/processors"
	"queen/sink"
)

// mirror runs the sink beside the broker: it starts it, and lets it drain within its grace. Its methods on nil do nothing.
type mirror struct {
	o      Options
	sink   *sink.Supervisor
	mu     sync.Mutex // over start and drain, which may come at once
	ended  bool       // drained before it was started
	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned
	err    error         // of Run; readable once done is closed
}

// newMirror joins the sink to the broker's applied state and documents. The broker must be open; key is the fingerprint of its encryption key.
func newMirror(o Options, b *broker.Broker, key string) (*mirror, error) {
	tenant := o.Config.Sink.Tenant
	log := b.Log(tenant)
	var held func(bytes int64)
	if o.Tune != nil {
		t := newTuning(o.Tune)
		log, held = observed{log, t}, t.held
	}
	s, err := sink.NewSupervisor(sink.Options{Config: o.Config.Sink, Log: log, KV: b.KV(tenant), Applied: b.Applied(tenant), Queues: b.Queues(tenant, o.Config.Sink.Name), Now: o.Now, Key: key,
		Logger: logline.Named(o.Log, "queen-s3"), Rand: o.Rand, Abort: o.Abort,
		Shared: sink.NewShared(sink.SharedOptions{Memory: o.Config.Sink.MemoryBytes, Threads: o.Config.Sink.Threads, Held: held, Pushes: b.State().Pushes, Processors: processors.Count})})
	if err != nil {
		return nil, err
	}
	return &mirror{o: o, sink: s}, nil
}

func (m *mirror) status() any { return m.sink.Status() }

func (m *mirror) metrics() prometheus.Gatherer { return m.sink.Registry() }

func (m *mirror) start() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel, m.done = cancel, make(chan struct{})
	go func() {
		defer close(m.done)
		m.err = m.sink.Run(ctx)
		if m.err != nil && ctx.Err() == nil {
			m.o.Fatal(fmt.Errorf("the S3 sink ended: %w", m.err))
		}
	}()
}

// end says whether the sink was started. It will not be any more.
func (m *mirror) end() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	return m.done != nil
}

// drain starts the drain and returns at once; the channel gives its outcome. Past the grace, or when ctx ends, the sink is cut
// off, which loses nothing: the next life redoes the window from its intent (contract S13).
func (m *mirror) drain(ctx context.Context) <-chan error {
	out := make(chan error, 1)
	if m == nil || !m.end() {
		out <- nil
		return out
	}
	grace, cancel := context.WithTimeout(ctx, m.o.Config.Sink.ShutdownGrace)
	go func() {
		defer cancel()
		err := m.sink.Drain(grace)
		m.cancel()
		<-m.done
		if grace.Err() != nil {
			log := logline.Named(m.o.Log, "queen")
			log.Warn().Msg("the drain of the S3 sink was cut short: its windows are redone from their intents, its leases wait out their TTL")
			err = nil
		}
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		out <- err
	}()
	return out
}
