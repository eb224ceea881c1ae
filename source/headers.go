package source

import (
	"context"
	"time"

	"queen/stages"
)

// BatchMarks is how many marks a batch holds at most.
const BatchMarks = 4096

// Headers reads the append headers of one queue for one pipeline.
type Headers struct {
	Log   stages.Log
	Queue stages.QueueID
	From  stages.Micros // the first stamp to read: window.Cutter.From
	Guard time.Duration // how far the ceiling stays below the safe time
	Batch int           // marks in a batch at most; 0 = BatchMarks

	// Next is sent to when there is a reason to look again, at most once a discovery interval: Feed.Next.
	Next <-chan struct{}
	// Drain is closed to end the stream after what has been read so far.
	Drain <-chan struct{}
	// Idle is asked, before a look, whether the stream may end: everything below ceiling has been handed on, and it must say whether the
	// window stage has taken it and holds nothing. nil = never.
	Idle func(ceiling stages.Micros) bool
}

// Generate is the generator for stages.Source. Each batch says in its ceiling how far the reading got: in the middle of a look that is
// the stamp of its last mark, of which there may be more; at the end of a look it is the look's ceiling. An empty batch comes when only
// the ceiling rose.
func (h Headers) Generate(ctx context.Context, emit func(stages.Batch) error) error {
	if h.Batch <= 0 {
		h.Batch = BatchMarks
	}
	read := stages.Beginning // everything in [From, read) has been handed on
	for {
		// Safe time first, then the view that Headers takes: so nothing below the ceiling can be missed.
		if ceiling := h.Log.Safe().Add(-h.Guard); ceiling > read {
			if err := h.look(ctx, max(h.From, read), ceiling, emit); err != nil {
				return err
			}
			read = ceiling
		}
		if h.stopped() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.Drain:
			return nil
		case <-h.Next:
		}
		if h.Idle != nil && h.Idle(read) {
			return nil
		}
	}
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

// look hands on the appends with from <= TS < ceiling. When the drain begins it stops early, with no batch that claims the ceiling.
func (h Headers) look(ctx context.Context, from, ceiling stages.Micros, emit func(stages.Batch) error) error {
	var marks []stages.Mark
	if from < ceiling {
		for header, err := range h.Log.Headers(ctx, h.Queue, from, ceiling) {
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
