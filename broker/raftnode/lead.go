package raftnode

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
)

// barrierEvery is how often a leader that could not begin its term tries again.
const barrierEvery = 20 * time.Millisecond

// lead follows the leadership, and begins each term of this node's. raft says once that a term has begun, and refuses the barrier while it still ends a transfer of
// an earlier one (up to callTimeout, when the node that it went to does not answer): as long as this node is raft's leader nobody else will be, so it tries again.
func (n *Node) lead(ctx context.Context) {
	var again <-chan time.Time // nil: there is nothing to try again
	for {
		leader, said := true, again != nil
		select {
		case <-ctx.Done():
			return
		case leader = <-n.raft.LeaderCh():
			n.leads.Store(false)
			if n.followers != nil {
				n.followers.forget()
			}
		case <-again:
		}
		again = nil
		if !leader || n.dead() {
			continue
		}
		// Whoever is not raft's leader any more, or not yet, hears of the next term when it begins.
		if err := n.beginTerm(); err != nil && n.raft.State() == raft.Leader {
			if !said {
				n.o.Log.Warn().Err(err).Uint64("term", n.raft.CurrentTerm()).Msg("this node was elected and cannot take commands yet: it tries until it can")
			}
			again = time.After(barrierEvery)
		}
	}
}

// beginTerm takes proposals from the moment at which a barrier of this term is applied: then the state holds all that earlier leaders committed.
func (n *Node) beginTerm() error {
	if err := n.raft.Barrier(0).Error(); err != nil {
		return err
	}
	if n.dead() {
		return nil
	}
	if n.machine.replaced.Load() { // it has nothing to decide by until it has started again
		n.done.Go(n.tryHandOver)
		return nil
	}
	n.leads.Store(true)
	if n.o.Cluster != nil {
		n.o.Log.Info().Uint64("term", n.raft.CurrentTerm()).Msg("this node leads the cluster")
	}
	n.done.Go(n.tryRename)
	select {
	case <-n.led:
	default:
		close(n.led)
	}
	return nil
}

// watchLeader says who leads, and when nobody is known to. Commands that were handed to another node are not waited for any more.
func (n *Node) watchLeader(ctx context.Context) {
	seen := make(chan raft.Observation, 8)
	o := raft.NewObserver(seen, false, func(o *raft.Observation) bool { _, ok := o.Data.(raft.LeaderObservation); return ok })
	n.raft.RegisterObserver(o)
	defer n.raft.DeregisterObserver(o)
	for {
		select {
		case <-ctx.Done():
			return
		case one := <-seen:
			l := one.Data.(raft.LeaderObservation)
			if l.LeaderID != "" {
				n.handed.leads(string(l.LeaderID))
			}
			switch string(l.LeaderID) {
			case "":
				n.o.Log.Warn().Uint64("term", n.raft.CurrentTerm()).Msg("no leader is known: commands wait for an election")
			case n.o.NodeID: // lead says so, once it takes commands
			default:
				n.o.Log.Info().Str("node", string(l.LeaderID)).Uint64("term", n.raft.CurrentTerm()).Msg("another node leads the cluster")
			}
		}
	}
}
