package sink

import (
	"context"
	"time"

	"queen/commit"
	"queen/stages"
	"queen/upload"
)

// What happens in a sink. Whoever does something raises an event and decides nothing by it; status, metrics and log lines listen. A queue
// of nil is the sink as a whole. Listeners take no lock but their own, so that an event may be raised under any.
type (
	starting struct{}
	fell     struct { // the sink as a whole
		err  *fallen
		wait time.Duration
	}
	probed  struct{ err error }
	stopped struct {
		left []string // queues owned here that have not drained
		open []string // of their windows, those with an intent: "<queue> <k>"
		why  error    // what cut them off; nil when nothing did
	}
	seen        struct{}            // discovery has looked
	lookFailed  struct{ err error } // it could not: told to each queue, since none of them gets on
	notReleased struct {
		left int
		err  error
	}
	requested struct {
		op   upload.Op
		code int
	}

	entered       struct{ state string }
	queueMissing  struct{}
	heldElsewhere struct{ holder string }
	claimed       struct{}
	restored      struct {
		at  commit.Position
		due uint64 // the last window that was to have a checkpoint; 0 = none
	}
	waiting struct {
		step string
		err  error
	}
	fenced struct {
		err    error
		holder string
		twin   bool
	}
	failed  struct{ err error }
	crashed struct {
		err   error
		stack []byte
	}
	preconditionLost  struct{} // a batch that was sent was rolled back
	rowIgnored        struct{ key string }
	bodiesRead        struct{ err error }
	firstSeen         struct{ ts stages.Micros } // a queue that starts at its beginning starts here
	windowCut         struct{ w stages.Window }
	windowCommitted   struct{ c commit.Committed }
	checkpointWritten struct {
		k         uint64
		positions int
	}
	checkpointFailed struct {
		k   uint64
		err error
	}
	bucketChanged struct{ in stages.Intent }
	foundFinished struct{ k uint64 }
	nameTaken     struct{ as string }    // what readers may take the queue's name for
	nameLike      struct{ other string } // a queue whose name differs in case alone
	draining      struct {
		buffered int64
		aged     bool // behind for 10 s or more
		closing  bool // the open window is finished
		state    string
		leaving  bool // it is given to another node
	}
	drained  struct{}
	parked   struct{} // it waits to be called
	excess   struct{ held, share, nodes, queues int }
	released struct{}
	settled  struct{ holder string } // of a queue that was given back: who took it, "" = nobody
)

// twinHint is what to do about a queue whose lease has this node's name and is not its own.
const twinHint = "another process runs under this node's name; give each its own QUEEN_S3_INSTANCE"

// raise tells the listeners.
func (s *Sink) raise(q *queue, event any) {
	if q == nil {
		s.bucket.hear(event, s.o.Now())
	} else {
		q.status.hear(event, s.o.Now())
	}
	s.metrics.hear(event)
	s.logs.hear(q, event)
}

// listener hands what package commit says on.
type listener struct{ q *queue }

var _ commit.Listener = listener{}

func (l listener) PreconditionLost(string)           { l.q.s.raise(l.q, preconditionLost{}) }
func (l listener) Waiting(_, step string, err error) { l.q.s.raise(l.q, waiting{step, err}) }
func (l listener) Ignored(_, key string)             { l.q.s.raise(l.q, rowIgnored{key}) }
func (l listener) Committed(c commit.Committed)      { l.q.committed(c) }
func (q *queue) cut(w stages.Window)                 { q.s.raise(q, windowCut{w}) }
func (q *queue) uploading(*stages.Job)               { q.s.raise(q, entered{stateUpload}) }

// noting calls before for each input of a stage.
func noting[I, O any](stage stages.Stage[I, O], before func(I)) stages.Stage[I, O] {
	return noted[I, O]{stage, before}
}

type noted[I, O any] struct {
	stages.Stage[I, O]
	before func(I)
}

var _ stages.Stage[int, int] = noted[int, int]{}

func (n noted[I, O]) Do(ctx context.Context, in I, emit func(O) error) error {
	n.before(in)
	return n.Stage.Do(ctx, in, emit)
}

// iso renders a wall clock time as status does.
func iso(t time.Time) string { return stages.MicrosOf(t).ISO() }
