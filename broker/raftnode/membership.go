package raftnode

import (
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/raft"

	"queen/broker/peer"
)

// What a change of the members is checked against.
const (
	memberLive    = 3 * heartbeatTimeout // a node that answered so long ago counts as there
	promoteMaxLag = 1000                 // entries that a learner may lack when it becomes a voter
)

// Membership is a picture of who is in the cluster, in the shape of the API (contract R3).
type Membership struct {
	NodeID              int      `json:"nodeId"`
	Source              string   `json:"source"` // leader: what follows is what it knows; follower: what this node has heard
	ViewAgeMs           int64    `json:"viewAgeMs"`
	Leader              *int     `json:"leader"`
	Term                uint64   `json:"term"`
	Voters              []int    `json:"voters"`
	Learners            []int    `json:"learners"`
	Joint               *[][]int `json:"joint"` // always null: members change one at a time
	MembershipIndex     uint64   `json:"membershipIndex"`
	MembershipCommitted bool     `json:"membershipCommitted"`
	ChangeInFlight      bool     `json:"changeInFlight"`
	LastLogIndex        uint64   `json:"lastLogIndex"`
	CommittedIndex      uint64   `json:"committedIndex"`
	LiveWithinMs        int64    `json:"liveWithinMs"`
	PromoteMaxLag       uint64   `json:"promoteMaxLag"`
	Members             []Member `json:"members"`
}

// Member is one node of a Membership. What only the leader knows is null elsewhere.
type Member struct {
	NodeID    int     `json:"nodeId"`
	Voter     bool    `json:"voter"`
	Raft      string  `json:"raft"`
	HTTP      string  `json:"http"`
	Matched   *uint64 `json:"matched"`
	Lag       *uint64 `json:"lag"`
	LastAckMs *int64  `json:"lastAckMs"`
	Live      *bool   `json:"live"`
}

// Membership returns the picture that this node has.
func (n *Node) Membership() Membership {
	kept, latest := n.kept(), n.raft.GetConfiguration().Configuration()
	committed := n.raft.CommitIndex()
	inFlight := !slices.Equal(latest.Servers, kept.list.Servers) // raft knows the entry that names them before it is committed and applied
	_, leader := n.raft.LeaderWithID()
	m := Membership{
		NodeID: number(raft.ServerID(n.o.NodeID)), Source: "follower", Term: n.raft.CurrentTerm(), Voters: []int{}, Learners: []int{},
		MembershipIndex: kept.index, MembershipCommitted: !inFlight, ChangeInFlight: inFlight,
		LastLogIndex: n.raft.LastIndex(), CommittedIndex: committed, LiveWithinMs: memberLive.Milliseconds(), PromoteMaxLag: promoteMaxLag,
		Members: []Member{},
	}
	if leader != "" {
		id := number(leader)
		m.Leader = &id
	}
	leads := n.raft.State() == raft.Leader
	if leads {
		m.Source = "leader"
	} else if last := n.raft.LastContact(); !last.IsZero() {
		m.ViewAgeMs = max(0, n.o.Now().Sub(last).Milliseconds())
	}
	servers := slices.Clone(latest.Servers)
	slices.SortFunc(servers, func(a, b raft.Server) int { return number(a.ID) - number(b.ID) })
	for _, s := range servers {
		if s.Suffrage == raft.Voter {
			m.Voters = append(m.Voters, number(s.ID))
		} else {
			m.Learners = append(m.Learners, number(s.ID))
		}
		m.Members = append(m.Members, n.member(s, leads, m.LastLogIndex))
	}
	return m
}

func (n *Node) member(s raft.Server, leads bool, last uint64) Member {
	at := peer.Parse(string(s.ID), string(s.Address))
	m := Member{NodeID: number(s.ID), Voter: s.Suffrage == raft.Voter, Raft: at.Raft, HTTP: at.HTTP}
	if !leads {
		return m
	}
	matched, lag, ack, live := last, uint64(0), int64(0), true
	if string(s.ID) != n.o.NodeID {
		f, heard := n.heard(string(s.ID))
		since := n.o.Elapsed() - f.at
		matched, lag, live = f.matched, last-min(last, f.matched), heard && since <= memberLive
		if ack = since.Milliseconds(); !heard {
			m.Matched, m.Lag, m.Live = &matched, &lag, &live
			return m
		}
	}
	m.Matched, m.Lag, m.LastAckMs, m.Live = &matched, &lag, &ack, &live
	return m
}

func (n *Node) heard(id string) (follower, bool) {
	if n.followers == nil {
		return follower{}, false
	}
	return n.followers.of(id)
}

// number is a node's id, which is one here.
func number(id raft.ServerID) int {
	n, err := strconv.Atoi(string(id))
	if err != nil {
		return 0
	}
	return n
}

// changeLimit is how long a change may take where the caller does not say.
const changeLimit = 30 * time.Second
