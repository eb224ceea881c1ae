// Package sink mirrors queues into a bucket. queue.go is the file to open first: it is the pipeline of one queue, top to bottom, and
// what happens when a pass of it ends.
//
//	queue.go    the pipeline of a queue, its goroutine, its retries
//	activity.go what its row is doing: idle, live, sleeping, forgotten
//	claim.go    from a name to a queue that this node owns: look, keys, lease, rows, start
//	sink.go     the whole sink: New, Run, Drain
//	place.go    the other nodes: presence, whose turn it is to claim a queue (package placement decides)
//	give.go     a queue that goes to another node
//	leases.go   refreshing all leases at once, and ending passes whose lease is gone
//	supervise.go what happens when a fault of the sink itself ends it
//	slots.go    how many windows are written at once, and how many encoded
//	drain.go    the end: what is finished, what is cut off, what is given back
//	bucket.go   the probe of the bucket
//	events.go   what happens, as values; log.go, metrics.go and status.go listen
//
// It is not the broker: it sees one through the four interfaces of package stages, and never imports it. It does not know how windows are
// cut, encoded, uploaded or committed: packages window, encode, upload and commit do. Read queue.go, then package commit.
package sink
