package source

import (
	"context"
	"time"

	"queen/stages"
)

// BatchMarks is how many marks a batch holds at most.
const BatchMarks = 1024

// Headers reads the append headers of one queue for one pipeline: everything from where the queue stands up to the ceiling, once.
type Headers struct {
	Log   stages.Log
	Queue stages.QueueID
	From  stages.Micros // the first stamp to read: window.Cutter.From
	Guard time.Duration // how far the ceiling stays below the safe time
	Batch int           // marks in a batch at most; 0 = BatchMarks

	// Drain is closed to end the stream after what has been read so far.
	Drain <-chan struct{}
}

// Generate is the generator for stages.Source. Each batch says in its ceiling how far the reading got: in the middle that is the stamp of
// its last mark, of which there may be more; at the end it is the ceiling. A stream that is drained from the start is empty.
func (h Headers) Generate(ctx context.Context, emit func(stages.Batch) error) error {
	if h.Batch <= 0 {
		h.Batch = BatchMarks
	}
	if h.stopped() {
		return nil
	}
	// Safe time first, then the view that Headers takes: so nothing below the ceiling can be missed.
	if err := h.look(ctx, h.Log.Safe().Add(-h.Guard), emit); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// stopped says that the drain began.
func (h Headers) stopped() bool {
	select {
	case <-h.Drain:
		return true
	default:
		return false
	}
}

// look hands on the appends with From <= TS < ceiling. When the drain begins it stops early, with no batch that claims the ceiling.
func (h Headers) look(ctx context.Context, ceiling stages.Micros, emit func(stages.Batch) error) error {
	var marks []stages.Mark
	if h.From < ceiling {
		for header, err := range h.Log.Headers(ctx, h.Queue, h.From, ceiling) {
			if err != nil {
				return err
			}
			if len(marks) == h.Batch {
				if err := emit(stages.Batch{Marks: marks, Ceiling: marks[h.Batch-1].TS}); err != nil {
					return err
				}
				if h.stopped() { // a long backlog must not hold up a drain
					return nil
				}
				marks = make([]stages.Mark, 0, h.Batch)
			}
			marks = append(marks, stages.Mark{TS: header.TS, Weight: int64(header.Weight)})
		}
	}
	return emit(stages.Batch{Marks: marks, Ceiling: ceiling})
}
