package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/rs/zerolog"

	"queen/broker"
	"queen/broker/peer"
	"queen/config"
	"queen/internal/logline"
)

// openBroker opens the raft port, if this node is one of several, and then the broker, which closes it.
func (n *Node) openBroker(ctx context.Context) error {
	o := broker.Options{Dir: n.o.Config.Dir, NodeID: n.o.Config.NodeID, Now: n.o.Now, Rand: n.o.Rand, Fatal: n.o.Fatal, Restart: n.o.Restart, Filters: filters(n.o.Memory), Key: n.key, Log: logline.Named(n.o.Log, "broker")}
	if c := n.o.Config.Cluster; c != nil {
		l, err := net.Listen("tcp", c.Listen)
		if err != nil {
			return fmt.Errorf("listen for other nodes on %s: %w", c.Listen, err)
		}
		if o.Cluster, err = cluster(n.o.Config, l); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	b, err := broker.New(o)
	if err != nil {
		if o.Cluster != nil {
			err = errors.Join(err, o.Cluster.Listener.Close())
		}
		return err
	}
	n.broker = b
	return b.Open(ctx)
}

func cluster(c config.Config, l net.Listener) (*broker.Cluster, error) {
	out := &broker.Cluster{Self: member(c.Cluster.Self), Join: c.Cluster.Join, Token: c.Cluster.Token.Reveal(), Listener: l}
	out.Self.ID = strconv.Itoa(c.NodeID)
	if !c.Cluster.Join {
		for _, p := range c.Cluster.Peers {
			out.First = append(out.First, member(p))
		}
	}
	if t := c.Cluster.TLS; t != (config.TLS{}) {
		secured, err := peer.Files{Cert: t.Cert, Key: t.Key, CA: t.CA}.Load()
		if err != nil {
			return nil, fmt.Errorf("TLS of the raft port (QUEEN_RAFT_TLS_*): %w", err)
		}
		out.TLS = secured
	}
	return out, nil
}

func member(p config.Peer) peer.Member {
	return peer.Member{ID: strconv.Itoa(p.ID), Raft: p.Raft, HTTP: p.HTTP}
}

// announceCluster says who the others are.
func (n *Node) announceCluster(log zerolog.Logger) {
	c := n.o.Config.Cluster
	if c == nil {
		return
	}
	var ids []int
	for _, p := range c.Peers {
		ids = append(ids, p.ID)
	}
	e := log.Info().Str("raft", c.Listen)
	if c.Join {
		e.Msg("this node waits to be added to a cluster, or is a member already")
		return
	}
	e.Ints("nodes", ids).Msg("one node of a cluster")
}

// filters is how many bytes filters of transaction ids may take on a machine with so much memory; 0 when that is not known.
func filters(memory uint64) int64 {
	if memory == 0 {
		return 0
	}
	return int64(min(max(memory/8, 64<<20), 4<<30))
}
