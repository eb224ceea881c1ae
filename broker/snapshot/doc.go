// Package snapshot is what the broker's folder keeps in place of the front of its raft log: the state and the segments as they were at
// one raft index, made of hard links (docs/formats.md section 6).
//
// It takes one (take.go), says which ones a folder has and what is wrong with them (find.go), and lays one out as a state and
// segments again (lay.go). It decides nothing: when one is taken, what of the log may go then, and when one is used is
// the broker's (broker/snapshots.go, broker/restore.go).
//
// Invariants:
//
//   - A folder with an index for its name was whole once, with all of it durable: it got that name last.
//   - Nothing in it is changed afterwards below the recorded length of a file, by the live state either: segments are only appended to,
//     and cut only above what the state stands at.
//   - Nothing is used that does not check out, and whatever does not is named.
package snapshot
