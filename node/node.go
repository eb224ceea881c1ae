// Package node is one Queen: it joins the broker, its HTTP surface and the sink, made from one Config. The program, the demo and
// tests of whole processes start here; broker and sink know nothing of each other and meet through the interfaces of package
// stages that this package passes on.
//
// It holds no queue, no window and no rule of its own. Read Open for the order of a start, Close for that of a stop.
package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"queen/broker"
	"queen/broker/api"
	"queen/broker/seal"
	"queen/config"
	"queen/internal/logline"
)

// Version is the version of this program. The sink has one of its own, which is part of the lake's format.
const Version = "0.1.0"

// Options of a Node.
type Options struct {
	Config  config.Config
	Now     func() time.Time // wall clock
	Log     zerolog.Logger
	Rand    io.Reader    // nil: crypto/rand
	Fatal   func(error)  // told once of an error after which only a restart is safe; must not wait for Close
	Restart func()       // told once that this node has to be closed and another one opened with the same options: a snapshot from another node came in; needed with a cluster
	Abort   func()       // ends the process at once at a crash point; nil: QUEEN_S3_CRASH_AT is refused
	Memory  uint64       // bytes that the process may use, an eighth of which filters of transaction ids may take; 0: unknown
	Tune    func(Tuning) // sets Go's runtime while windows are written, or nothing is pushed; nil: it is left alone
	Version string       // shown by /health; empty: Version
}

// Validate reports every problem.
func (o Options) Validate() error {
	var errs []error
	if o.Now == nil {
		errs = append(errs, errors.New("node: no clock"))
	}
	if o.Fatal == nil {
		errs = append(errs, errors.New("node: no handler of fatal errors"))
	}
	if o.Config.Cluster != nil && o.Restart == nil {
		errs = append(errs, errors.New("node: a cluster and no handler of restarts"))
	}
	if s := o.Config.Sink; s != nil && s.CrashAt != "never" && o.Abort == nil {
		errs = append(errs, errors.New("node: a crash point and no way to crash"))
	}
	return errors.Join(errs...)
}

// Node is one process's Queen.
type Node struct {
	o        Options
	broker   *broker.Broker
	key      *seal.Key // of payloads at rest; nil: none was given
	sink     *mirror   // nil: the sink is off
	listener net.Listener
	server   *http.Server
	incoming *incoming
	opened   bool
	stopping chan struct{} // closed by Close: long polls are answered, /health is 503
	serving  sync.WaitGroup
	close    sync.Once
	err      error // of Close
}

// New returns a node that is not open yet. It does no I/O.
func New(o Options) (*Node, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Version == "" {
		o.Version = Version
	}
	var key *seal.Key
	if text := o.Config.EncryptionKey; text.Set() {
		var err error
		if key, err = seal.ParseKey(text.Reveal()); err != nil {
			return nil, fmt.Errorf("the encryption key: %w", err)
		}
	}
	return &Node{o: o, key: key, stopping: make(chan struct{})}, nil
}

// Open takes the port, opens the broker, starts the sink, and serves. It returns when requests are answered. When it fails,
// nothing stays open.
func (n *Node) Open(ctx context.Context) error {
	if err := n.open(ctx); err != nil {
		return errors.Join(err, n.Close(ctx))
	}
	n.opened = true
	n.announce()
	return nil
}

func (n *Node) open(ctx context.Context) (err error) {
	for _, w := range n.o.Config.Warnings {
		n.o.Log.Warn().Str(logline.Component, "boot").Msg(w)
	}
	// The port first: one that is taken must not cost a replay of the log.
	address := net.JoinHostPort(n.o.Config.Bind, strconv.Itoa(n.o.Config.Port))
	if n.listener, err = net.Listen("tcp", address); err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	if err := n.openBroker(ctx); err != nil {
		return err // it names the folder, or the raft port
	}
	if n.o.Config.Sink != nil {
		if n.sink, err = newMirror(n.o, n.broker, n.key.Fingerprint().String()); err != nil {
			return err
		}
	}
	handler, err := n.handler()
	if err != nil {
		return err
	}
	n.incoming = newIncoming(handler)
	n.server = newServer(n.incoming, logline.Named(n.o.Log, "http"))
	n.serving.Go(func() {
		if err := n.server.Serve(n.listener); !errors.Is(err, http.ErrServerClosed) {
			n.o.Fatal(fmt.Errorf("serve %s: %w", address, err))
		}
	})
	n.serving.Go(n.startSink)
	return nil
}

// startSink starts the sink when this node shows what was in its log: a node that is alone does when it is open.
func (n *Node) startSink() {
	select {
	case <-n.broker.Settled():
		n.sink.start()
	case <-n.stopping:
	}
}

func (n *Node) handler() (http.Handler, error) {
	o := api.Options{Broker: n.broker, Members: n.broker.Node(), MaxBody: n.o.Config.MaxBody, Now: n.o.Now, Rand: n.o.Rand, Key: n.key, Version: n.o.Version,
		Log: logline.Named(n.o.Log, "api"), Stop: n.stopping, Settled: n.broker.Settled()}
	if n.sink != nil {
		o.Status, o.Gatherers = n.sink.status, []prometheus.Gatherer{n.sink.metrics()}
	}
	return api.New(o)
}

// announce says where the node listens, where its data lies, and what the sink does.
func (n *Node) announce() {
	log := logline.Named(n.o.Log, "queen")
	dir, err := filepath.Abs(n.o.Config.Dir)
	if err != nil {
		dir = n.o.Config.Dir
	}
	log.Info().Str("url", n.URL()).Str("version", n.o.Version).Msg("listening")
	log.Info().Str("dir", dir).Int("node", n.o.Config.NodeID).Msg("data")
	n.announceCluster(log)
	if n.key != nil {
		log.Info().Str("key", n.key.String()).Msg("payloads of queues with encryptionEnabled are sealed on the disk")
	}
	s := n.o.Config.Sink
	if s == nil {
		log.Info().Msg("the S3 sink is off (QUEEN_S3_EMBEDDED=true starts it)")
		return
	}
	event := log.Info()
	if s.All {
		event = event.Str("queues", "*")
	} else {
		event = event.Strs("queues", s.Queues)
	}
	event.Str("to", "s3://"+s.Bucket+"/"+s.Prefix).Str("endpoint", s.Endpoint).Msg("the S3 sink mirrors")
}

// Addr is the address that the node listens on, with the port that the system picked where none was set.
func (n *Node) Addr() net.Addr { return n.listener.Addr() }

// URL is where a client on this machine reaches the node.
func (n *Node) URL() string {
	host, port, err := net.SplitHostPort(n.Addr().String())
	if err != nil {
		return "http://" + n.Addr().String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Broker is the broker inside, for the demo and for tests.
func (n *Node) Broker() *broker.Broker { return n.broker }
