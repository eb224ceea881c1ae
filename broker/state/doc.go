// Package state is the replicated state machine of the broker: raft entries in, queues, partitions, heads, documents and
// remembered transaction ids out. The same entries give the same state on every node: nothing here looks at a wall clock, a
// random source, a host name or the order of a map.
//
// It owns the small rows (pebble) and tells broker/segment what bodies to append. It is not raft (broker/raftnode feeds it),
// decides nothing about HTTP (broker/api) and starts no goroutine. What operations on documents and transaction ids do is in
// broker/kv and broker/dedup, which are pure.
//
// Read apply.go first: it is the whole life of an entry. Then push.go, configure.go and document.go for what the kinds of
// commands do, state.go for what is held in RAM, reader.go for what others see, open.go and flush.go for the crash order.
package state
