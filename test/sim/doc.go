// Package sim runs whole brokers with their sinks in one process, on simulated time, network, disks and bucket, and breaks them by
// seed: power loss in the middle of a write, partitions one way and both ways, clocks that step by an hour, unclear answers at KV writes, bucket
// faults, sinks that stand still for longer than their leases live, snapshots to nodes that were away. Nothing of theirs is replaced but what is outside of the process: raft is hashicorp's, the log raft-wal's,
// rows are pebble's, requests the AWS SDK's.
//
// The checker is the audit of the lake against the log, and more: every acknowledged record is there once and in its client's order on every node, the same key never had two
// different bodies, no two pushes have one stamp, only a queue's owner moved its rows, and the nodes have the same rows at the same entry of the log.
// That it can go red is seen in test/mutation (simulation_test.go).
//
// The Go scheduler is not part of the seed, so a seed that fails may pass the next time. What the seed fixes is the schedule of faults.
//
// Read world.go (what a world is), life.go (one process of a node), faults.go (what goes wrong), clients.go (who pushes), check.go, rows.go and states.go (what must hold).
package sim
