package raftnode

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"queen/broker/peer"
)

// Timeouts of a cluster. A leader that is gone is missed after 1 to 2 s, and an election takes about one more: clients see 503 for at
// most about 4 s (contract R3).
const (
	heartbeatTimeout = time.Second
	leaseTimeout     = 500 * time.Millisecond // a leader that hears no majority for so long steps down
	commitEvery      = 10 * time.Millisecond  // how late a follower hears of a commit when nothing else is sent
	callTimeout      = 10 * time.Second       // of one of raft's calls
	handOverLimit    = 3 * time.Second        // for another node to take the leadership when this one stops
)

// Cluster makes a node one of several. A nil Cluster is a cluster of one, which opens no port.
type Cluster struct {
	Port  *peer.Port
	Self  peer.Member
	First []peer.Member // the first voters, this node among them; read when the log is empty
	Join  bool          // the log is empty: wait until a leader adds this node
}

func (o Options) validateCluster() error {
	c, id := o.Cluster, o.NodeID
	if c == nil {
		return nil
	}
	var errs []error
	if o.Snapshots == nil || o.Restart == nil {
		errs = append(errs, errors.New("raft node: a cluster, and nowhere for snapshots"))
	}
	if c.Port == nil {
		errs = append(errs, errors.New("raft node: a cluster and no port"))
	}
	if c.Self.ID != id {
		errs = append(errs, fmt.Errorf("raft node: it is node %s, and its address is that of node %s", id, c.Self.ID))
	}
	if len(c.First) > 0 && !slices.ContainsFunc(c.First, func(m peer.Member) bool { return m.ID == id }) {
		errs = append(errs, fmt.Errorf("raft node: node %s is not among the first members", id))
	}
	return errors.Join(errs...)
}

// founders is what entry 1 says in an empty log: the same bytes on each of the first nodes. Empty: this node waits to be added.
func (o Options) founders() raft.Configuration {
	var list raft.Configuration
	if o.Cluster == nil {
		id := raft.ServerID(o.NodeID)
		list.Servers = []raft.Server{{Suffrage: raft.Voter, ID: id, Address: o.address()}}
		return list
	}
	for _, m := range o.Cluster.First {
		list.Servers = append(list.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.Address())})
	}
	slices.SortFunc(list.Servers, func(a, b raft.Server) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return list
}

// address is this node's in raft's configuration: its id while nobody else can reach it.
func (o Options) address() raft.ServerAddress {
	if o.Cluster == nil || o.Cluster.Self.Raft == "" {
		return raft.ServerAddress(o.NodeID)
	}
	return raft.ServerAddress(o.Cluster.Self.Address())
}

// transport is how raft calls other nodes.
func (n *Node) transport() raft.Transport {
	if n.o.Cluster == nil {
		_, t := raft.NewInmemTransport(n.o.address())
		return t
	}
	c := n.o.Cluster
	dialled := &links{}
	inner := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: streams{c.Port.Lane(peer.Raft), c.Port, dialled}, MaxPool: 3, Timeout: callTimeout, Logger: logger(n.o.Log, n.o.Now).Named("net"),
	})
	n.followers = newFollowers(n.o.Elapsed)
	n.carrier = &carrier{NetworkTransport: inner, seen: n.followers, arriving: newArriving(inner.Consumer(), &n.fresh, c.Port), open: dialled}
	return n.carrier
}

// tune sets what differs in a cluster.
func (n *Node) tune(c *raft.Config) {
	if n.o.Cluster == nil {
		return
	}
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = heartbeatTimeout, heartbeatTimeout, leaseTimeout
	c.CommitTimeout = commitEvery
	if n.fresh.holds() {
		c.HeartbeatTimeout, c.ElectionTimeout = neverElect, neverElect
	}
	c.ShutdownOnRemove = false // it says so in its status, and serves what it has
}

// Members are the nodes of the cluster as this node knows them.
func (n *Node) Members() []raft.Server {
	return n.raft.GetConfiguration().Configuration().Servers
}

// addressOf is the address of a member.
func (n *Node) addressOf(id string) (string, bool) {
	for _, s := range n.Members() {
		if string(s.ID) == id {
			return string(s.Address), true
		}
	}
	return "", false
}

// handOver gives the leadership to another voter, so that a stop costs no election. It may fail: then one is held.
func (n *Node) tryHandOver() {
	if n.o.Cluster == nil || n.raft.State() != raft.Leader || len(n.Members()) < 2 {
		return
	}
	done := make(chan error, 1)
	go func() { done <- n.raft.LeadershipTransfer().Error() }()
	limit := time.NewTimer(handOverLimit)
	defer limit.Stop()
	select {
	case err := <-done:
		if err != nil {
			n.o.Log.Warn().Err(err).Msg("the leadership could not be handed over: the others hold an election")
		}
	case <-limit.C:
		n.o.Log.Warn().Dur("within", handOverLimit).Msg("the leadership was not taken in time: the others hold an election")
	}
}

// tryRename puts the address at which others reach this node into the configuration: one that was founded alone has none there, and
// one that moved has an old one. It is best effort, at the beginning of each term. It may wait, so it runs beside everything else.
func (n *Node) tryRename() {
	if n.o.Cluster == nil || n.o.Cluster.Self.Raft == "" {
		return
	}
	have, ok := n.addressOf(n.o.NodeID)
	if !ok || have == string(n.o.address()) {
		return
	}
	n.raft.AddVoter(raft.ServerID(n.o.NodeID), n.o.address(), 0, callTimeout) // its end changes nothing here: the next term tries again
}
