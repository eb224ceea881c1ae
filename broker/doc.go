// Package broker opens and closes the parts of a broker node in their order, and shows the sink the applied state through the
// interfaces of package stages. What a command does is in broker/state, how it becomes durable in broker/raftnode, where
// bodies lie in broker/segment; HTTP is in broker/api. Nothing of the sink is imported here.
//
// Read next: node.go (the order of opening and closing), boot.go (what a start refuses), folder.go (the data folder), then log.go, kv.go and queues.go (what
// the sink sees).
package broker
