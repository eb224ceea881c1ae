package raftnode

import "strings"

// Status is a picture of the node for /status and /health.
type Status struct {
	ID       string
	Role     string // leader, follower, candidate, shutdown
	Leader   string // id of the leader, empty when none is known
	Ready    bool   // this node leads and takes proposals
	Term     uint64
	FirstLog uint64 // lowest index kept, 0 when there is none
	LastLog  uint64
	Commit   uint64
	Applied  uint64 // by the machine, not by raft's count (which moves before the machine has applied)
	Waiting  int64  // commands queued or in flight
	Full     bool   // the disk is full, or nearly: pushes are refused
	Failure  string // the fatal error, if there was one
}

// Status returns the state of the node now.
func (n *Node) Status() Status {
	_, leader := n.raft.LeaderWithID()
	first, _ := n.store.FirstIndex() // 0 once the store is closed
	s := Status{
		ID:       n.o.NodeID,
		Role:     strings.ToLower(n.raft.State().String()),
		Leader:   string(leader),
		Ready:    n.Leads(),
		Term:     n.raft.CurrentTerm(),
		FirstLog: first,
		LastLog:  n.raft.LastIndex(),
		Commit:   n.raft.CommitIndex(),
		Applied:  n.machine.to.Applied(),
		Waiting:  n.prop.busy.Load(),
		Full:     n.logs.full.Load(),
	}
	if n.dead() {
		s.Failure = n.cause.Error()
	}
	return s
}
