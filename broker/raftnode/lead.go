package raftnode

import (
	"context"

	"github.com/hashicorp/raft"
)

// lead follows the leadership. Proposals are taken from the moment at which a barrier of this term is applied: then the state
// holds all that earlier leaders committed.
func (n *Node) lead(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case leader := <-n.raft.LeaderCh():
			n.leads.Store(false)
			if n.followers != nil {
				n.followers.forget()
			}
			if !leader || n.raft.Barrier(0).Error() != nil || n.dead() {
				continue
			}
			if n.machine.replaced.Load() { // it has nothing to decide by until it has started again
				n.done.Go(n.tryHandOver)
				continue
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
		}
	}
}

// watchLeader says who leads, and when nobody is known to.
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
			switch l := one.Data.(raft.LeaderObservation); string(l.LeaderID) {
			case "":
				n.o.Log.Warn().Uint64("term", n.raft.CurrentTerm()).Msg("no leader is known: commands wait for an election")
			case n.o.NodeID: // lead says so, once it takes commands
			default:
				n.o.Log.Info().Str("node", string(l.LeaderID)).Uint64("term", n.raft.CurrentTerm()).Msg("another node leads the cluster")
			}
		}
	}
}
