package raftnode

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
)

// Check says whether a log may be what follows a state that has applied this index, and returns the index of its last entry: the log
// goes on where the state stands, and every entry from there on can be read. It changes nothing. Whoever is about to remove
// what the state does not know asks first: only the log has it then. A nil store is a log that does not exist; dir is for the error.
//
// base is the entry at which a whole snapshot stands, if there is one: the log may begin right behind it.
func Check(dir string, s Store, applied uint64, base Base) (last uint64, err error) {
	if s == nil {
		return 0, ends(dir, 0, applied, base)
	}
	if last, err = bounds(dir, s, applied, base); err != nil {
		return 0, err
	}
	l := &logs{store: s}
	for index := applied + 1; index <= last; index++ {
		var e raft.Log
		if err := l.GetLog(index, &e); err != nil {
			return 0, fmt.Errorf("the raft log in %s is damaged, restore the folder from a copy: %w", dir, err)
		}
	}
	return last, nil
}

// Base is the entry at which a snapshot stands. Zeros: there is none.
type Base struct{ Index, Term uint64 }

// bounds refuses a log that does not continue the state: raft would silently skip what is between them.
func bounds(dir string, s Store, applied uint64, base Base) (last uint64, err error) {
	first, err := s.FirstIndex()
	if err != nil {
		return 0, fmt.Errorf("read the raft log in %s: %w", dir, err)
	}
	if last, err = s.LastIndex(); err != nil {
		return 0, fmt.Errorf("read the raft log in %s: %w", dir, err)
	}
	if first > 1 && first > applied && (first > applied+1 || base.Index != applied) { // the term of the last applied entry is needed too
		return 0, fmt.Errorf("the raft log in %s begins at entry %d but the state ends at entry %d: what lies between is missing, restore the folder from a copy", dir, first, applied)
	}
	return last, ends(dir, last, applied, base)
}

// ends refuses a log that ends before the state. An empty one goes on from a snapshot.
func ends(dir string, last, applied uint64, base Base) error {
	if last < applied && (last > 0 || base.Index != applied) {
		return fmt.Errorf("the raft log in %s ends at entry %d but the state has applied entry %d: the end of the log is lost, restore the folder from a copy", dir, last, applied)
	}
	return nil
}

const (
	currentTerm = "CurrentTerm" // raft's name for the term in its stable store
	notFound    = "not found"   // so does raft tell an absent value
)

// begin makes an empty log the beginning of a cluster: entry 1, of term 1, names its members. raft.BootstrapCluster does the
// same, but a power loss between its two writes leaves a term without members, which it then takes for a cluster, and nobody
// ever leads. No election can have been held without entry 1: a later term says that the log is gone. One of several nodes begins nothing here
// (fresh.go).
func (n *Node) begin() error {
	last, err := n.store.LastIndex()
	if err != nil || last > 0 || n.o.Cluster != nil {
		return err
	}
	members := n.o.founders()
	switch term, err := n.store.GetUint64([]byte(currentTerm)); {
	case err != nil && err.Error() != notFound:
		return err
	case term > 1:
		return fmt.Errorf("the raft log is empty but this node has been in term %d: the log is lost, restore the folder from a copy", term)
	}
	if err := n.store.SetUint64([]byte(currentTerm), 1); err != nil {
		return err
	}
	return n.logs.StoreLog(&raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(members)})
}

// belong reads the members of the cluster, and refuses the folder of another node: raft would wait for ever for a leader that it may not
// become.
func (n *Node) belong(id raft.ServerID) (err error) {
	if n.members, err = readMembers(n.logs, n.store); err != nil {
		return err
	}
	var names []string
	for _, s := range n.members.list.Servers {
		names = append(names, string(s.ID))
	}
	switch found := slices.Contains(names, string(id)); {
	case n.o.Cluster == nil && found && len(names) > 1:
		return fmt.Errorf("the raft log in %s is of a cluster of the nodes %s: start this one with QUEEN_RAFT_TOKEN and the address that the others know (QUEEN_RAFT_PEERS or QUEEN_RAFT_LISTEN)",
			n.o.Dir, strings.Join(names, ", "))
	case found, n.o.Cluster != nil: // it waits for a beginning or to be added, or it was removed; whose log it is, sameNode knows
		return nil
	}
	return fmt.Errorf("the raft log in %s is that of node %s, and this is node %s: give it its own number again (QUEEN_RAFT_NODE_ID), or use another folder",
		n.o.Dir, strings.Join(names, ", "), id)
}

// Continue makes a log one that goes on from a snapshot which a leader sent: entries that belong to what the node had before it are removed, and
// the members are those that the snapshot names. It may be called again.
func Continue(dir string, s Store, index uint64, p Point) error {
	l := &logs{store: s, shared: true, applied: func() uint64 { return 0 }}
	first, err := l.FirstIndex()
	if err != nil {
		return fmt.Errorf("raft log in %s: %w", dir, err)
	}
	last, err := l.LastIndex()
	if err != nil {
		return fmt.Errorf("raft log in %s: %w", dir, err)
	}
	same := false
	if first <= index && index <= last {
		var at raft.Log
		if err := l.GetLog(index, &at); err != nil {
			return fmt.Errorf("the raft log in %s is damaged, restore the folder from a copy: %w", dir, err)
		}
		same = at.Term == p.Term
	}
	if last > 0 && !same && first != index+1 {
		if err := l.DeleteRange(first, last); err != nil {
			return fmt.Errorf("raft log in %s: make room for what follows a snapshot: %w", dir, err)
		}
	}
	have, err := readMembers(l, s)
	if err == nil && have.index > p.MembersAt {
		return nil
	}
	list, err := decodeMembers(p.Members)
	if err != nil {
		return err
	}
	if err := s.Set([]byte(membersKey), members{p.MembersAt, p.Members, list}.encode()); err != nil {
		return fmt.Errorf("raft log in %s: keep the members of the cluster: %w", dir, err)
	}
	return nil
}
