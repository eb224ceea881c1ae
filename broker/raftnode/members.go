package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// membersKey names the members of the cluster in the stable store: u64 raft index of the entry that named them, then that entry's
// data. It is there once an entry behind the first one named them, or the log no longer begins at entry 1 (docs/formats.md section 1.2).
//
// A snapshot has them too, for whoever has nothing else. They are not read from there: a broken snapshot beside a state that is
// whole must not keep a node from starting.
const membersKey = "Members"

// members are who belongs to the cluster.
type members struct {
	index uint64 // of the entry that names them
	data  []byte // of that entry
	list  raft.Configuration
}

// readMembers finds the members of the cluster: the newest entry that named them and was applied is kept, else entry 1 names them. Entries
// behind it are read by raft itself. A node that waits to be added has neither.
func readMembers(l *logs, s Store) (members, error) {
	first, err := l.FirstIndex()
	if err != nil {
		return members{}, err
	}
	value, err := s.Get([]byte(membersKey))
	if err != nil && err.Error() != notFound {
		return members{}, err
	}
	if first > 1 || len(value) > 0 {
		return keptMembers(value)
	}
	if first == 0 {
		return members{}, nil
	}
	var e raft.Log
	if err := l.GetLog(1, &e); err != nil {
		return members{}, err
	}
	if e.Type != raft.LogConfiguration {
		return members{}, fmt.Errorf("raft log entry 1 does not name the members of the cluster: %w", errEntryDamaged)
	}
	list, err := decodeMembers(e.Data)
	return members{1, e.Data, list}, err
}

// keptMembers reads what was kept.
func keptMembers(value []byte) (members, error) {
	if len(value) <= 8 {
		return members{}, errors.New("the raft log begins behind its entry 1, and raft/meta does not name the members of the cluster: restore the folder from a copy")
	}
	list, err := decodeMembers(value[8:])
	return members{binary.BigEndian.Uint64(value), value[8:], list}, err
}

// noteMembers keeps the members that a committed entry names. It is durable before the log may be cut behind that entry (Truncate).
func (n *Node) noteMembers(index uint64, list raft.Configuration) {
	n.membersMu.Lock()
	defer n.membersMu.Unlock()
	if index <= n.members.index {
		return
	}
	m := members{index, raft.EncodeConfiguration(list), list}
	if err := n.store.Set([]byte(membersKey), m.encode()); err != nil {
		n.fail(fmt.Errorf("raft log: keep the members of the cluster: %w", err))
		return
	}
	n.members = m
}

func (n *Node) kept() members {
	n.membersMu.Lock()
	defer n.membersMu.Unlock()
	return n.members
}

func (m members) encode() []byte {
	return append(binary.BigEndian.AppendUint64(nil, m.index), m.data...)
}

// decodeMembers reads raft's encoding; raft panics on what it cannot read.
func decodeMembers(data []byte) (list raft.Configuration, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the members of the cluster cannot be read: %v: %w", p, errEntryDamaged)
		}
	}()
	return raft.DecodeConfiguration(data), nil
}
