// Package kv is the document store: versioned JSON values with a life, changed by conditional batches that apply whole or not
// at all. The sink's lease, fence and pointer rest on it (contract S3, S4, S6).
//
// It is pure: Apply is a function of a Tx, the two clocks and the operations, so it gives the same outcome on every node. It
// owns no storage (broker/state does), knows no raft and no HTTP; but ParseBatch reads the HTTP form, because what is refused
// there is what Apply may rely on. Read op.go for the words, apply.go for the rules, parse.go for the refusals.
package kv
