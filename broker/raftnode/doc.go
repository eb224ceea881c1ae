// Package raftnode is the raft log of a broker: it makes a command durable on a majority of the nodes and hands it, in log
// order, to a Machine. Today a cluster is one node: its address is its id, its transport is in memory, and no port is opened.
//
// It is not the state machine: what a command does is in broker/state, and replaying a log needs none of this package. It
// reads no command either; it only wraps bodies into entries (broker/command).
//
// The life of a command:
//
//	Propose -> waiting (proposer.go) -> entry of up to 256 KiB -> raft: one fsync for all entries at hand
//	        -> Machine.Apply (machine.go) -> the caller's answer
//
// Invariants:
//
//   - An answer without an error means: durable, and applied on this node.
//
//   - A command is proposed at most once. What raft leaves open is ErrUnclear; every other error means "it did not happen".
//
//   - No command is proposed before this node has applied everything that earlier leaders may have committed: each term
//     begins with a barrier.
//
//   - After an error of the Machine, or of the disk below the log, nothing is applied or answered well any more (Options.Fatal).
//
//   - A log is opened whole or not at all: an end that was acknowledged and is gone, an entry that does not fit its checksum,
//     a damaged meta file or mark are one line that names the file or the entry, and nothing is changed on the disk. Entries
//     that the state has applied and made durable are not read at a start.
//
// Read next: node.go (open, lead, close), proposer.go (group commit), clock.go (the time a command carries); then what makes raft-wal
// tell damage from a torn end: store.go, mark.go, checksum.go, tail.go, metafile.go.
package raftnode
