// Package harness runs the real things for the suites of this module: the queen binary, a real S3 gateway, a proxy between the two that
// can hold a request, and the two checkers of the lake. It speaks to loopback only, and ends only processes it started.
//
// It is not a place for assertions about the product: those are in package e2e. Read broker.go first.
package harness
