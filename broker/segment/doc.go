// Package segment keeps the bodies of records: one append-only log of files per queue, in stamp order, as docs/formats.md
// sections 3 and 4 lay it out to the byte. It is scanned by time, read by reference, and cut back at boot to what the
// replicated state knows.
//
// It is not a database and decides nothing: which frames exist is said by the state's rows (Tail), never by the presence of
// a file. It holds no lock for readers beyond a map look-up, knows no clock, and starts no goroutine.
//
// Read DESIGN.md for the invariants, then store.go (the writer), view.go (readers), attach.go (boot).
package segment
