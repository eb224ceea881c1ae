// Package peer is how the nodes of a cluster reach each other: one port a node, on which both ends prove that they know the cluster's token
// before a byte of anything else is read, and on which a stream is of one kind (raft's own calls, or commands that a follower forwards).
//
// It knows nothing of raft and carries no message of its own after the greeting (docs/formats.md section 9). The greeting proves who speaks; what follows is neither encrypted nor
// signed without TLS, so the port belongs then into a network that strangers cannot write to.
//
// Read member.go (who is in a cluster), port.go (accepting and dialling), greeting.go (the proof), tls.go (what may lie under it).
package peer
