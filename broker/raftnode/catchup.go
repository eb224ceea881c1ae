package raftnode

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
)

// lookEvery is how often a node that is not up to date looks whether it is.
const lookEvery = 10 * time.Millisecond

// lastCommand finds the last entry of a log that the machine has to apply, behind what it has applied; applied itself when there is none.
func lastCommand(l *logs, applied, last uint64) (uint64, error) {
	for index := last; index > applied; index-- {
		var e raft.Log
		if err := l.GetLog(index, &e); err != nil {
			return 0, err
		}
		if e.Type == raft.LogCommand {
			return index, nil
		}
	}
	return applied, nil
}

// catchUp waits until a leader is known and the machine has applied the last command that was in the log at boot. Entries that the leader does not
// have will not be applied: then it is enough to have what the log holds now.
func (n *Node) catchUp(ctx context.Context, last uint64) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if _, leader := n.raft.LeaderWithID(); leader != "" && n.raft.CommitIndex() > 0 && n.machine.to.Applied() >= min(last, n.raft.LastIndex()) {
			if string(leader) != n.o.NodeID { // it has heard another clock: its own has to prove a leap from now on
				n.clockMu.Lock()
				n.clock.begun = true
				n.clockMu.Unlock()
			}
			close(n.caught)
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// CaughtUp is closed when this node has heard a leader and shows what was in its log when it started.
func (n *Node) CaughtUp() <-chan struct{} { return n.caught }
