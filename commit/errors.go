package commit

import (
	"errors"
	"fmt"
	"time"
)

// Kind says what an error asks of the runtime. It is decided where the error is made.
type Kind uint8

// The kinds.
const (
	// Retry: nothing is wrong with the queue; start it again from its rows after Wait.
	Retry Kind = iota
	// Fenced: another process holds the queue. Not an error of this node: look again after a TTL.
	Fenced
	// Fatal: only a person, or a node with another binary or setting, can help. The text is a whole sentence.
	Fatal
	// Data: what this node reads from its own log does not fit together; another node may have a good copy.
	Data
)

// String returns the kind's name as used in logs.
func (k Kind) String() string {
	return [...]string{"retry", "fenced", "fatal", "data"}[k]
}

// Error is an error with its kind.
type Error struct {
	Kind   Kind
	Wait   time.Duration // Retry: how long; negative = the caller's own back-off
	Holder string        // Fenced: who holds the queue now
	Twin   bool          // Fenced: the holder carries this node's own name in another incarnation
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of err; an error without one is Retry.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Retry
}

// errMoved ends a pass whose rows are not what it last saw: the next one starts from the rows at once.
func errMoved(format string, args ...any) error {
	return &Error{Kind: Retry, Err: fmt.Errorf(format, args...)}
}

// errAgain ends one attempt; the caller backs off by its own rule.
func errAgain(format string, args ...any) error {
	return &Error{Kind: Retry, Wait: -1, Err: fmt.Errorf(format, args...)}
}

func errFatal(format string, args ...any) error {
	return &Error{Kind: Fatal, Err: fmt.Errorf(format, args...)}
}

func errData(format string, args ...any) error {
	return &Error{Kind: Data, Err: fmt.Errorf(format, args...)}
}

func errFenced(key string, doc leaseDoc, twin bool) error {
	return &Error{Kind: Fenced, Holder: doc.Instance, Twin: twin,
		Err: fmt.Errorf("lease %s: held by %s", key, doc.Instance)}
}
