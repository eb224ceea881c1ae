package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"queen/broker/command"
	"queen/broker/raftnode"
	"queen/broker/seal"
	"queen/broker/state"
	"queen/stages"
)

// Broker is what the routes need of a broker.
type Broker interface {
	// Propose makes one command durable and applied, and returns what the state made of it. An error that wraps
	// stages.ErrUnclear means that it may have happened; with any other it has not.
	Propose(ctx context.Context, kind command.Kind, body []byte) (any, error)
	// State is this node's applied state.
	State() *state.State
	// Log reads bodies for one tenant.
	Log(tenant string) stages.Log
	// Status is a picture of this node's replication.
	Status() raftnode.Status
}

// Options of the HTTP surface. Broker, MaxBody, Now and Rand are required.
type Options struct {
	Broker    Broker
	Members   Members          // of the cluster; nil: this node is alone for good, and has no such routes
	MaxBody   int64            // largest request body, bytes
	Now       func() time.Time // wall clock: message ids and uptime, nothing else
	Rand      io.Reader        // message ids, and what payloads are sealed with
	Key       *seal.Key        // seals payloads of queues with encryptionEnabled; nil: they are stored as they are
	Log       zerolog.Logger
	Version   string                // of the program, shown by /health
	Status    func() any            // block `s3` of /status; nil, or a nil answer, leaves it out
	Gatherers []prometheus.Gatherer // joined in /metrics/prometheus
	Settled   <-chan struct{}       // closed when the node shows what was in its log: until then /api is 503; nil = it does
	Stop      <-chan struct{}       // closed when the node stops: long polls are answered, /health is 503; nil = never
}

// Validate reports every problem.
func (o Options) Validate() error {
	var errs []error
	if o.Broker == nil {
		errs = append(errs, errors.New("api: no broker"))
	}
	if o.MaxBody <= 0 || o.MaxBody > command.MaxEntry {
		errs = append(errs, errors.New("api: the body limit must lie between 1 byte and 48 MiB"))
	}
	if o.Now == nil {
		errs = append(errs, errors.New("api: no clock"))
	}
	if o.Rand == nil {
		errs = append(errs, errors.New("api: no source of random bytes"))
	}
	return errors.Join(errs...)
}

// server answers requests. It holds nothing that a request changes but the counter of message ids and the figures of /metrics.
type server struct {
	o       Options
	tenant  [16]byte
	routes  []compiled
	ids     *minter
	buffers buffers
	pushes  sync.Pool // of *pushRequest, cleared
	metrics []prometheus.Gatherer

	started  time.Time
	requests atomic.Int64 // that came in
	messages atomic.Int64 // that were stored

	saidPlain atomic.Int64 // when sayPlain warned last, nanoseconds since the epoch; 0 = never
}

var _ http.Handler = (*server)(nil)

// New returns the handler of all routes.
func New(o Options) (http.Handler, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	tenant, ok := parseUUID([]byte(stages.DefaultTenant))
	if !ok {
		return nil, errors.New("api: the default tenant is no UUID")
	}
	s := &server{o: o, tenant: tenant, routes: compile(routesFor(o)), ids: &minter{now: o.Now, rand: o.Rand},
		started: o.Now()}
	metrics, err := s.gatherers()
	if err != nil {
		return nil, err
	}
	s.metrics = metrics
	return s, nil
}

// settled says whether the node shows what was in its log when it started.
func (s *server) settled() bool {
	if s.o.Settled == nil {
		return true
	}
	select {
	case <-s.o.Settled:
		return true
	default:
		return false
	}
}

// ServeHTTP finds the route and answers; an error of the handler is written in the shape of the route's family.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	route, params, allow := find(s.routes, r.Method, rawPath(r.URL))
	if route == nil {
		if len(allow) == 0 {
			noPath.write(w, r, refuse(codeNoRoute, ""))
			return
		}
		for _, m := range allow {
			w.Header().Add("Allow", m)
		}
		engine.write(w, r, refuse(codeMethod, ""))
		return
	}
	params, err := decode(params)
	if err == nil && route.needsState() && !s.settled() {
		err = raftnode.ErrNoLeader
	}
	if err == nil {
		err = route.handle(s, w, r, params)
	}
	if err == nil {
		return
	}
	e := asError(err)
	if e.Code == codeInternal { // the others are states of the node, which shows them elsewhere
		s.o.Log.Error().Err(err).Str("route", route.Method+" "+route.Pattern).Msg("request failed")
	}
	route.family.write(w, r, e)
}
