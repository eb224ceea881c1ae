// Package commit makes windows real, one after another: the lease of a queue, the fence that every write goes through, the
// intent that fixes a window before anything is uploaded, and the pointer that moves when all of it is in the bucket.
//
//	acquire lease -> Adopt (start row, position, open intent)
//	                 Begin:  [fence, intent] -> crash after_intent -> wait until applied here -> list -> sort -> Job
//	                         ... encode, upload (crash mid_upload, after_upload) ...
//	                 Finish: crash before_commit -> [fence, pointer] -> crash after_commit
//
// What holds (contract S3 to S6, B1, B2):
//
//   - Every write of start row, intent or pointer is one batch of two required operations: the lease row rewritten at the
//     version this node wrote last, and the target row at the version it saw last.
//   - An answer that is unclear, or a lost precondition, decides nothing by itself. All rows are read through the log, and
//     what they say decides: still ours and the target as before (write again), ours and the target is what we wanted to write
//     (it had landed), another holder (fenced), no holder (the lease ran out: start again from the rows).
//   - One intent is open at a time. Begin of window k+1 waits for Finish of window k.
//   - A window is listed after its intent, from a view in which that intent is the open one, whether it is written for the
//     first time or redone.
//
// Beside that stands presence.go: the row that says that a node is there, by which package sink shares the queues out.
//
// It is not: the client of the bucket (package upload), the rules that cut windows (package window), or the decision which
// node runs which queue (package sink). Read ledger.go first, then begin.go and finish.go.
package commit
