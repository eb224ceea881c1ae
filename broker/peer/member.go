package peer

import (
	"fmt"
	"strings"
)

// Member is one node of a cluster.
type Member struct {
	ID   string
	Raft string // host:port at which other nodes reach it
	HTTP string // host:port of its HTTP API
}

// Address is how raft's configuration names where the member is: `raft/http`, as QUEEN_RAFT_PEERS has it.
func (m Member) Address() string { return m.Raft + "/" + m.HTTP }

// Parse reads an address of raft's configuration. That of a node which was founded alone is its id: it can be reached by nobody, and
// both parts are empty then.
func Parse(id, address string) Member {
	raft, http, found := strings.Cut(address, "/")
	if !found {
		return Member{ID: id}
	}
	return Member{ID: id, Raft: raft, HTTP: http}
}

// errUnreachable says that no address of a member is known.
func errUnreachable(id, address string) error {
	return fmt.Errorf("node %s: no address of it is known (%q): it was founded alone, and has to be started with QUEEN_RAFT_PEERS that name it", id, address)
}
