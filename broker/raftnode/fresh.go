package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// A node with an empty log may be one that is new, or one that lost its disk: then it has voted and has acknowledged entries that it does not know of any more, and a
// vote of it could elect a leader without them. The two cannot be told apart. So such a node neither votes nor stands for election until it has what the cluster
// had when it came: then it is as good as it ever was. It keeps that in the stable store (freshKey), before anything else.
//
// A cluster begins where a majority of its first members, this node among them, can be reached and none of them has heard of a founding. Members that
// came later are in no list of first members; but they call each other, and this node, at least every dial's limit. So it begins nothing once a node of a cluster has called it, and when it
// is the only one in its list, which asks nobody, it first gives others the time to call.
const (
	freshKey   = "Fresh"
	aloneFor   = 6 * time.Second // longer than others, who call again and again, try one call (peer: 5 s)
	askEvery   = 200 * time.Millisecond
	askLimit   = 2 * time.Second
	neverElect = 24 * time.Hour // the timeouts of a node that may not stand for election
)

// FreshEntries is how many entries a founder writes by itself: in a log with more there is one of a leader.
const FreshEntries = 1

var errFresh = errors.New("this node came with an empty log and does not vote before it has what the cluster has")

// fresh is whether this node is one, and how far its leader has committed.
type fresh struct {
	mu     sync.Mutex
	is     bool
	commit uint64 // the newest that a leader told
	term   uint64 // of that leader
}

func (f *fresh) holds() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.is
}

func (f *fresh) heard(commit, term uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.is && commit > 0 {
		f.commit, f.term = commit, term
	}
}

// told is the newest that heard was called with.
func (f *fresh) told() (commit, term uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.commit, f.term
}

// readFresh says whether this node may not vote yet, and keeps it when its log is empty.
func (n *Node) readFresh(applied uint64) error {
	if n.o.Cluster == nil {
		return nil
	}
	value, err := n.store.GetUint64([]byte(freshKey))
	if err != nil && err.Error() != notFound {
		return err
	}
	last, err := n.store.LastIndex()
	if err != nil {
		return err
	}
	n.fresh.is = value == 1
	if last > 0 || applied > 0 {
		return nil
	}
	if !n.fresh.is {
		n.fresh.is = true
		if err := n.store.SetUint64([]byte(freshKey), 1); err != nil {
			return err
		}
	}
	return n.forgetHalfBeginning()
}

// forgetHalfBeginning takes back what a power loss between the two writes of raft.BootstrapCluster leaves: term 1 without entry 1, which raft would take for a cluster, and nobody
// would ever lead. No vote is given in term 1: the first election is for term 2.
func (n *Node) forgetHalfBeginning() error {
	switch term, err := n.store.GetUint64([]byte(currentTerm)); {
	case err != nil && err.Error() != notFound:
		return err
	case term == 1:
		return n.store.SetUint64([]byte(currentTerm), 0)
	}
	return nil
}

// ripen waits until this node may vote: because it begins a cluster with others, or because it has what the cluster has.
func (n *Node) ripen(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	said, began := false, n.o.Elapsed()
	for n.fresh.holds() {
		done, err := n.caughtUpFresh()
		alone := len(n.o.Cluster.First) == 1 && n.o.Elapsed()-began < aloneFor
		if err == nil && !done && !alone && len(n.o.Cluster.First) > 0 && n.raft.LastIndex() <= FreshEntries {
			done, err = n.tryBegin(ctx)
		}
		if err == nil && done {
			err = n.vote()
		}
		if err != nil {
			n.fail(fmt.Errorf("begin in a cluster: %w", err))
			return
		}
		if !said && !done {
			said = true
			n.o.Log.Info().Msg("the log of this node is empty: it waits for a majority of the first members, or for what the cluster has, before it votes")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// vote ends it.
func (n *Node) vote() error {
	if err := n.store.SetUint64([]byte(freshKey), 0); err != nil {
		return err
	}
	r := n.raft.ReloadableConfig()
	r.HeartbeatTimeout, r.ElectionTimeout = heartbeatTimeout, heartbeatTimeout
	if err := n.raft.ReloadConfig(r); err != nil {
		return err
	}
	n.fresh.mu.Lock()
	defer n.fresh.mu.Unlock()
	n.fresh.is = false
	return nil
}

// caughtUpFresh says whether this node has all that was committed when it came. What a leader says is committed counts once that is an entry of the
// leader's own term: then everything that was committed before lies below it.
func (n *Node) caughtUpFresh() (bool, error) {
	commit, term := n.fresh.told()
	if commit == 0 || n.raft.CommitIndex() < commit {
		return false, nil
	}
	var e raft.Log
	switch err := n.logs.GetLog(commit, &e); {
	case errors.Is(err, raft.ErrLogNotFound): // a snapshot stands for it, of an earlier term than what follows
		return false, nil
	case err != nil:
		return false, err
	}
	return e.Term == term, nil
}

// tryBegin begins a cluster when a majority of its first members answers and nobody has heard of one.
func (n *Node) tryBegin(ctx context.Context) (bool, error) {
	first := n.o.Cluster.First
	var asking sync.WaitGroup
	var known atomic.Bool // one has heard of a cluster
	var live atomic.Int64 // members that answer, this one among them
	live.Store(1)
	for _, m := range first {
		if m.ID == n.o.NodeID {
			continue
		}
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askLimit)
			defer cancel()
			seed, err := n.o.Cluster.Port.Seed(ctx, m.ID, m.Address())
			if err != nil { // it is not there yet; the next round asks again
				return
			}
			live.Add(1)
			if seed != [16]byte{} {
				known.Store(true)
			}
		})
	}
	asking.Wait()
	if known.Load() || n.o.Cluster.Port.Heard() || ctx.Err() != nil || int(live.Load()) < len(first)/2+1 {
		return false, nil
	}
	if n.raft.LastIndex() > 0 { // it was interrupted between the beginning and its end, or a leader was quicker
		return true, nil
	}
	if err := n.raft.BootstrapCluster(n.o.founders()).Error(); err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		return false, err
	}
	return true, nil
}

// sameNode keeps whose log this is, and refuses another node: it would vote a second time where the other one has voted.
func (n *Node) sameNode() error {
	const key = "Node"
	value, err := n.store.Get([]byte(key))
	if err != nil && err.Error() != notFound {
		return err
	}
	if len(value) > 0 && string(value) != n.o.NodeID {
		return fmt.Errorf("the raft log in %s is that of node %s, and this is node %s: give it its own number again (QUEEN_RAFT_NODE_ID), or use another folder", n.o.Dir, value, n.o.NodeID)
	}
	if len(value) > 0 || n.o.Cluster == nil {
		return nil
	}
	return n.store.Set([]byte(key), []byte(n.o.NodeID))
}

// encodePeer is a node's identity in raft's calls and in its vote: two nodes never have the same, whatever addresses they were given.
func encodePeer(id raft.ServerID, address raft.ServerAddress) []byte { return []byte(at(id, address)) }
