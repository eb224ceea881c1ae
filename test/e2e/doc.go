// Package e2e holds the suites that run real processes: the broker as its users run it, a real S3 gateway, kill -9, strace, real readers.
//
// Start with guide_test.go, which is the user guide's example; then crash_test.go and kill_test.go, which are the exactly-once argument
// as an experiment. What runs them is package harness.
package e2e
