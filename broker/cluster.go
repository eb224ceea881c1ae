package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"queen/broker/command"
	"queen/broker/peer"
	"queen/broker/raftnode"
)

// Cluster is what a node needs to be one of several.
type Cluster struct {
	Self     peer.Member   // its id is the node's, the addresses are those at which others reach it
	First    []peer.Member // the first voters, this node among them; used when the log is empty
	Join     bool          // the log is empty: wait until a leader adds this node
	Token    string        // that every node of the cluster knows
	Listener net.Listener  // of the raft port
	TLS      *tls.Config   // of its streams; nil: they are not encrypted
	// Dial opens a connection to host:port; nil: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Validate reports every problem.
func (c *Cluster) Validate() error {
	if c == nil {
		return nil
	}
	var errs []error
	if c.Token == "" {
		errs = append(errs, errors.New("broker: a cluster and no token"))
	}
	if c.Listener == nil {
		errs = append(errs, errors.New("broker: a cluster and no raft port"))
	}
	return errors.Join(errs...)
}

// joinCluster opens this node to the others; nil: it is alone. had is the seed that the folder names, zeros: none. It counts before the state has it again, which may take a
// leader: a founder that lost its disk asks whether there is a cluster.
func (b *Broker) joinCluster(had [16]byte) (*raftnode.Cluster, error) {
	c := b.o.Cluster
	if c == nil {
		return nil, nil
	}
	seed := func() [16]byte {
		if seed, known := b.state.Seed(); known {
			return seed
		}
		return had
	}
	last, err := b.store.LastIndex()
	if err != nil {
		return nil, fmt.Errorf("raft log: %w", err)
	}
	port, err := peer.New(peer.Options{Self: c.Self, Token: c.Token, Listener: c.Listener, Dial: c.Dial, TLS: c.TLS, Seed: seed, Begun: had == [16]byte{} && last > raftnode.FreshEntries,
		Now: b.o.Now, Log: b.o.Log})
	if err != nil {
		return nil, err
	}
	b.port = port
	return &raftnode.Cluster{Port: port, Self: c.Self, First: c.First, Join: c.Join}, nil
}

// leaveCluster closes the raft port. The node has closed it before, if there is one.
func (b *Broker) leaveCluster() error {
	switch {
	case b.o.Cluster == nil:
		return nil
	case b.port != nil:
		return b.port.Close()
	}
	return b.o.Cluster.Listener.Close()
}

// settleEvery is how often a node that waits for its cluster looks.
const settleEvery = 50 * time.Millisecond

// settle waits until this node shows what was in its log at boot and the cluster has a seed, which a leader gives it, and keeps that in the
// folder. What it cannot keep ends the node.
func (b *Broker) settle(ctx context.Context, seed [16]byte) {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for {
		have, known := b.state.Seed()
		select {
		case <-b.node.CaughtUp():
			if known {
				if err := b.keepSeed(seed, have); err != nil {
					b.fatal(err)
					return
				}
				close(b.settled)
				return
			}
			b.tryFound(ctx)
		default:
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// tryFound proposes a seed when this node leads. Whatever comes of it shows in the state: the next look, or the next leader, tries again.
func (b *Broker) tryFound(ctx context.Context) {
	if !b.node.Leads() {
		return
	}
	var seed [16]byte
	if _, err := io.ReadFull(b.o.Rand, seed[:]); err != nil {
		b.fatal(fmt.Errorf("cluster seed: %w", err))
		return
	}
	if _, err := b.node.Propose(ctx, command.KindFound, seed[:]); err != nil && !nextRound(err) && ctx.Err() == nil {
		b.fatal(fmt.Errorf("found the cluster: %w", err))
	}
}

func (b *Broker) keepSeed(had, have [16]byte) error {
	if had != have && had != [16]byte{} {
		return twoClusters(b.o.Dir, "the cluster of node "+strconv.Itoa(b.o.NodeID), have, had)
	}
	return sayMember(b.disk, b.o.Dir, have)
}

// Settled is closed when this node shows what was in its log when it started: from then on it may be read, and takes commands.
func (b *Broker) Settled() <-chan struct{} { return b.settled }
