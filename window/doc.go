// Package window cuts a queue's appends into windows and puts a window's appends in the order of its object.
//
// It is pure: batches, ceilings and requests to close go in, windows come out. It reads no clock and no log, and it does not know what
// becomes of a window: package commit writes its intent, package source feeds it. Each closing rule is a transcript in
// testdata. Read Cutter first, then Sort.
package window
