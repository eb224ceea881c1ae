// Package api is the broker's HTTP surface: it turns requests into commands or reads of the applied state, and answers in the
// shapes that clients made for the existing product expect (contract R1, R6).
//
// There is one route table (routes.go) and one table of errors (errors.go). Each route family has a file: push.go, fetch.go, kv.go,
// configure.go, resources.go, health.go. A handler returns an error and writes nothing, or writes its whole answer; the family of
// its route decides how an error looks.
//
// Two rules hold everywhere. A payload is never decoded: it is cut from the request by internal/jsontext and spliced into answers
// as it is. A path is matched as it was sent, still escaped, and its segments are percent-decoded exactly once: nothing is cleaned,
// nothing is redirected, so `a%2Fb`, `..` and an empty name stay what the client wrote.
//
// Where the wire left a choice: a known path with another method is 405 with Allow, in the engine's shape; HEAD is answered wherever
// GET is; a body over the limit is 413 in plain text and ends the connection; a member that is given twice in a push, and half a
// surrogate pair in a name or transaction id, are refused, because either would be two readings of one request; a partition sent to
// fetch as a number is the name that the number spells; a fetch counts payload bytes for maxBytes, and about what records weigh for
// minBytes (at most 8 MiB); an offset above 0 in a partition that was never written is out of range 0 to 0. The namespace queen-s3
// refuses writes with 403 read_only_namespace / kv_sink_namespace while the sink runs.
//
// It decides nothing about queues, documents or offsets: that is broker/state, when a command is applied. It knows nothing of raft
// but an interface with Propose, and nothing of the sink but a block of its status.
package api
