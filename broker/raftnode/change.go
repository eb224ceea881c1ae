package raftnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/raft"

	"queen/broker/peer"
)

// Change is what the API asks of the members.
type Change struct {
	Op    string // add, promote, voters, remove
	IDs   []int
	Raft  string // add: host:port
	HTTP  string // add: host:port
	Force bool   // promote, voters: a learner may be far behind
}

// The operations.
const (
	OpAdd     = "add"     // IDs[0] becomes a learner: it gets the log and does not vote
	OpPromote = "promote" // learners become voters
	OpVoters  = "voters"  // these are the voters: others become learners, or are promoted
	OpRemove  = "remove"  // IDs[0] is a member no more
)

// ChangeError is why a change was refused, by the codes of the API.
type ChangeError struct {
	Code string
	Text string
}

var _ error = (*ChangeError)(nil)

func (e *ChangeError) Error() string { return e.Text }

func refused(code, format string, args ...any) *ChangeError {
	return &ChangeError{code, fmt.Sprintf(format, args...)}
}

// Change changes the members, on the leader: another node hands it on. Each step changes one member, so that any two majorities meet; a change of
// several is as far as it came when one fails. It names the membership that it was checked against, and repeating it is safe.
func (n *Node) Change(ctx context.Context, c Change) (Membership, error) {
	if n.o.Cluster == nil {
		return n.Membership(), refused("bad_request", "this node is alone: start it with QUEEN_RAFT_PEERS that name it, and QUEEN_RAFT_TOKEN, so that others can reach it")
	}
	if !n.Leads() {
		return n.calls.change(ctx, c)
	}
	ctx, cancel := withLimit(ctx)
	defer cancel()
	select {
	case n.changing <- struct{}{}:
	case <-ctx.Done():
		return n.Membership(), refused("in_flight", "another change of the members took all of the time; nothing of this one was begun: repeat it")
	}
	defer func() { <-n.changing }()
	err := n.change(ctx, c)
	return n.Membership(), err
}

func withLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, set := ctx.Deadline(); set {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, changeLimit)
}

func (n *Node) change(ctx context.Context, c Change) error {
	m := n.Membership()
	if m.ChangeInFlight {
		return refused("in_flight", "another change of the members is not committed yet: wait until it is")
	}
	switch {
	case c.Op == OpAdd && len(c.IDs) == 1:
		return n.add(ctx, m, c)
	case c.Op == OpPromote && len(c.IDs) > 0:
		return n.promote(ctx, m, c)
	case c.Op == OpVoters && len(c.IDs) > 0:
		return n.setVoters(ctx, m, c)
	case c.Op == OpVoters:
		return refused("last_voter", "a cluster without a voter decides nothing")
	case c.Op == OpRemove && len(c.IDs) == 1:
		return n.remove(ctx, m, c.IDs[0])
	}
	return refused("bad_request", "%q with %d nodes is no change of the members", c.Op, len(c.IDs))
}

func (n *Node) add(ctx context.Context, m Membership, c Change) error {
	id := c.IDs[0]
	for what, address := range map[string]string{"raft": c.Raft, "http": c.HTTP} {
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			return refused("bad_request", "the %s address %q is no host:port", what, address)
		}
	}
	if id < 1 {
		return refused("bad_request", "%d is no node id, it must be a whole number from 1", id)
	}
	for _, have := range m.Members {
		switch {
		case have.NodeID != id && have.Raft == c.Raft:
			return refused("address_mismatch", "node %d has the raft address %s", have.NodeID, c.Raft)
		case have.NodeID == id && (have.Raft != c.Raft || have.HTTP != c.HTTP):
			return refused("address_mismatch", "node %d is a member at %s/%s: remove it before it is added with other addresses", id, have.Raft, have.HTTP)
		case have.NodeID == id && have.Voter:
			return refused("already_voter", "node %d is a voter already", id)
		case have.NodeID == id:
			return nil
		}
	}
	at := peer.Member{Raft: c.Raft, HTTP: c.HTTP}
	return n.settle(ctx, n.raft.AddNonvoter(raft.ServerID(strconv.Itoa(id)), raft.ServerAddress(at.Address()), m.MembershipIndex, left(ctx)))
}

func (n *Node) promote(ctx context.Context, m Membership, c Change) error {
	for _, id := range c.IDs {
		one, ok := find(m, id)
		if !ok {
			return refused("not_a_learner", "node %d is no learner: add it first", id)
		}
		if !one.Voter && !c.Force && (one.Live == nil || !*one.Live || *one.Lag > promoteMaxLag) {
			return refused("learner_behind", "node %d does not answer or lacks more than %d entries: wait, or say force", id, promoteMaxLag)
		}
	}
	if err := enough(m, append(slices.Clone(m.Voters), c.IDs...)); err != nil {
		return err
	}
	for _, id := range c.IDs {
		if err := n.makeVoter(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) makeVoter(ctx context.Context, id int) error {
	m := n.Membership()
	one, ok := find(m, id)
	switch {
	case !ok:
		return refused("membership_changed", "node %d was removed meanwhile", id)
	case one.Voter:
		return nil
	}
	address, _ := n.addressOf(strconv.Itoa(id))
	return n.settle(ctx, n.raft.AddVoter(raft.ServerID(strconv.Itoa(id)), raft.ServerAddress(address), m.MembershipIndex, left(ctx)))
}

func (n *Node) setVoters(ctx context.Context, m Membership, c Change) error {
	for _, id := range c.IDs {
		if _, ok := find(m, id); !ok {
			return refused("not_a_member", "node %d is no member: add it first", id)
		}
	}
	if err := enough(m, c.IDs); err != nil {
		return err
	}
	if err := n.promote(ctx, m, c); err != nil {
		return err
	}
	for _, id := range m.Voters {
		if slices.Contains(c.IDs, id) {
			continue
		}
		if err := n.settle(ctx, n.raft.DemoteVoter(raft.ServerID(strconv.Itoa(id)), n.Membership().MembershipIndex, left(ctx))); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) remove(ctx context.Context, m Membership, id int) error {
	one, ok := find(m, id)
	if !ok {
		return nil // whoever repeats it is answered as well
	}
	if one.Voter {
		rest := slices.DeleteFunc(slices.Clone(m.Voters), func(v int) bool { return v == id })
		if len(rest) == 0 {
			return refused("last_voter", "node %d is the last voter: a cluster without one decides nothing", id)
		}
		if err := enough(m, rest); err != nil {
			return err
		}
	}
	return n.settle(ctx, n.raft.RemoveServer(raft.ServerID(strconv.Itoa(id)), m.MembershipIndex, left(ctx)))
}

// enough refuses a change unless both the voters of now and those of then have a majority that answers.
func enough(m Membership, then []int) error {
	for _, voters := range [][]int{m.Voters, then} {
		seen := map[int]bool{}
		live := 0
		for _, id := range voters {
			if one, ok := find(m, id); ok && !seen[id] && one.Live != nil && *one.Live {
				live++
			}
			seen[id] = true
		}
		if live < len(seen)/2+1 {
			return refused("no_quorum", "of the voters %v only %d answer: a majority has to, or the cluster would stand still", voters, live)
		}
	}
	return nil
}

func find(m Membership, id int) (Member, bool) {
	i := slices.IndexFunc(m.Members, func(one Member) bool { return one.NodeID == id })
	if i < 0 {
		return Member{}, false
	}
	return m.Members[i], true
}

// left is how long ctx still gives.
func left(ctx context.Context) time.Duration {
	if at, set := ctx.Deadline(); set {
		return max(time.Millisecond, time.Until(at))
	}
	return changeLimit
}

// applied waits until the members that an entry names are what this node shows.
func (n *Node) applied(ctx context.Context, index uint64) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for n.kept().index < index {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return refused("timeout", "the change is committed, and not applied here in time")
		}
	}
	return nil
}

// settle waits for a step and sorts out what its end means.
func (n *Node) settle(ctx context.Context, f raft.IndexFuture) error {
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case <-ctx.Done():
		return refused("timeout", "the change is not committed in time; it may still be: read the members before it is repeated")
	case err := <-done:
		switch {
		case err == nil:
			return n.applied(ctx, f.Index())
		case errors.Is(err, raft.ErrEnqueueTimeout):
			return refused("timeout", "the change was not begun in time: repeat it")
		case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrLeadershipTransferInProgress):
			return refused("leader_changed", "the leader changed meanwhile: read the members before the change is repeated (%v)", err)
		}
		return refused("membership_changed", "the members changed meanwhile: read them before the change is repeated (%v)", err)
	}
}
