// Package lake reads a lake: the data objects and manifests that the sink writes, in a bucket or in a folder (docs/formats.md
// section 7). List says what is there; Verify audits all of it, and can compare each record with the broker's log (contract B12).
//
// It writes nothing, and shares no code with the writer on purpose: keys, manifests and lines are read here by rules of their
// own, so that a mistake of the writer cannot excuse itself. Read verify.go for the order of an audit.
package lake

import (
	"context"
	"fmt"
	"io"
	"iter"
)

// Object is one object of the store.
type Object struct {
	Key  string
	Size int64 // bytes
}

// Store holds a lake. Keys are as in the bucket, with slashes.
type Store interface {
	// List yields every object whose key starts with prefix, in any order.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
	// Open reads one object. The caller closes it.
	Open(ctx context.Context, key string) (io.ReadCloser, error)
}

// Fault is one thing that is not as it must be.
type Fault struct {
	Where string // object key, or tenant and queue
	What  string
}

func (f Fault) String() string { return f.Where + ": " + f.What }

// Summary counts what an audit or a listing saw.
type Summary struct {
	Queues, Windows, Objects int
	Checkpoints              int
	Records, Bytes, Lost     int64 // Bytes: stored, after compression
	Compared                 int64 // records that were compared with the log
	Earlier                  int64 // and those that were not: of a queue that was deleted and made again since
	Faults                   int
}

func (s Summary) String() string {
	text := fmt.Sprintf("%s, %s, %s, %s, %s, %s lost", count(s.Queues, "queue"), count(s.Windows, "window"),
		count(s.Objects, "data object"), count64(s.Records, "record"), count64(s.Bytes, "byte"), fmt.Sprint(s.Lost))
	if s.Checkpoints > 0 {
		text += ", " + count(s.Checkpoints, "checkpoint")
	}
	if s.Compared > 0 {
		text += fmt.Sprintf(", %d compared with the log", s.Compared)
	}
	if s.Earlier > 0 {
		text += fmt.Sprintf(", %d of a queue that was deleted since, which no log has", s.Earlier)
	}
	return text
}

func count(n int, noun string) string { return count64(int64(n), noun) }

func count64(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
