package sink

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"queen/commit"
	"queen/encode"
	"queen/encode/codec"
	"queen/encode/rows"
	"queen/stages"
	"queen/upload"
)

// Shared is what the sinks of one process share: the one number of bytes that they may hold, and how many windows are encoded at once.
type Shared struct {
	budget   *stages.Budget
	encoders permits
	chunks   stages.Chunks   // of all objects on their way
	formats  encode.Registry // with the encoders of all objects
	load     atomic.Int64    // queues that the sinks hold
}

// SharedOptions are what a process gives its sinks.
type SharedOptions struct {
	Memory  int64             // bytes (QUEEN_S3_MEMORY_MB)
	Threads int               // windows encoded at once (QUEEN_S3_THREADS)
	Held    func(bytes int64) // told how many bytes are held each time that changes, in order; must return at once. nil = nobody asks
	Pushes  func() uint64     // how many pushes the broker has applied: compressors leave a processor to them. nil = they take all

	Processors func() int // how many the process may use; needed with Pushes
}

// NewShared returns the share of a process.
func NewShared(o SharedOptions) *Shared {
	var pace *codec.Pace
	if o.Pushes != nil {
		pace = codec.NewPace(o.Pushes, o.Processors)
	}
	return &Shared{budget: stages.NewBudget(o.Memory, o.Held), encoders: permits{newSemaphore(max(1, o.Threads))}, formats: encode.NewRegistry(pace)}
}

// chunksBetween is how many chunks are between encoder and upload: the one that is filled, and the one behind it.
const chunksBetween = 2

// need says what a window takes while it is written. A filling window takes nothing: it is a few sums.
type need struct {
	part      int64 // bytes of a part of an upload
	threshold int64 // bytes up to which an object goes in one request
	slot      int64 // bytes beside the list: encoder, records read ahead, parts
	readers   int   // reads of bodies in flight
	memory    int64
}

// promisedBytes is what an append may cost at most, but for its partition: a window whose list is smaller than half of the memory at that is never
// closed for it (contract B3).
const promisedBytes = 40

// needOf divides a memory limit. A part is a twelfth of it, so that what writing takes leaves room for lists in 64 MiB; no more is read ahead
// than an eighth of it. Below some 52 MiB a window needs more than there is, or 58 in a layout
// of many objects: one is written at a time all the same.
func needOf(memory, threshold int64, readers int, encoder int64) need {
	n := need{memory: memory, part: min(max(memory/12, upload.MinPart), upload.MaxPart) &^ (stages.ChunkBytes - 1)}
	n.threshold = min(threshold, 3*n.part)
	n.readers = int(max(1, min(int64(readers), memory/8/rows.BufferBytes-1)))
	n.slot = upload.Memory(n.part, n.threshold) + chunksBetween*stages.ChunkBytes + encoder + rows.Memory(n.readers)
	return n
}

// beside is what writing a window in a layout takes beside its list. A merged one sends its manifest when its object is gone, another one while
// its objects are made.
func (n need) beside(layout string) int64 {
	if layout == "merged" {
		return n.slot
	}
	return n.slot + upload.ManifestMemory
}

// appends is how many a window of a queue with so many partitions may have. Its list takes at most half of the memory, and not more than what
// is beside it leaves, unless that is less than what is promised.
func (n need) appends(partitions int64, layout string) int64 {
	room := max(min(n.memory/2, n.memory-n.beside(layout)), n.memory/2/promisedBytes*stages.AppendBytes)
	most := (room - partitions*stages.PartBytes) / stages.AppendBytes
	if most < partitions { // each append may have a partition of its own
		most = room / (stages.AppendBytes + stages.PartBytes)
	}
	return max(1024, most)
}

// window is what writing a window takes.
func (n need) window(appends, partitions int64, layout string) int64 {
	return n.beside(layout) + appends*stages.AppendBytes + min(appends, partitions)*stages.PartBytes
}

// slot is one pass's hold on memory; it implements commit.Slot. Each window takes all that it needs in one request, from before its intent
// until its pointer has moved, and asks for no more meanwhile, so no two windows can wait for each other. A pass that fails gives its memory back
// before it waits; while somebody waits for memory, a request that ran into a time limit ends its pass (upload.ClientOptions.Wanted); and a
// bucket that gives no answer at all gets none (bucketStatus.answering).
type slot struct {
	q *queue

	mu     sync.Mutex
	held   int64 // bytes
	wanted int64 // bytes that the last window asked for
}

var _ commit.Slot = (*slot)(nil)

// Take waits for the memory of a window. The queue is seen to wait: its window is cut and not begun.
func (s *slot) Take(ctx context.Context, w stages.Window) error {
	sink := s.q.s
	sink.raise(s.q, entered{stateIntent})
	appends := w.Appends
	if w.Why == stages.Redo { // cut by an earlier life, maybe with other settings
		var err error
		if appends, err = s.count(ctx, w); err != nil {
			return err
		}
	}
	if err := sink.bucket.answering(ctx); err != nil {
		return err
	}
	s.q.mu.Lock()
	partitions, layout := s.q.partitions, sink.pins.Layout
	if in := s.q.adopted.at.Redo; w.Why == stages.Redo && in != nil {
		layout = in.Layout
	}
	s.q.mu.Unlock()
	wanted := sink.need.window(appends, int64(partitions), layout)
	if sink.checkpointDue(w.K) {
		wanted += int64(partitions) * stages.PositionBytes
	}
	s.mu.Lock()
	s.wanted = wanted
	s.mu.Unlock()
	return s.retake(ctx)
}

// retake waits for the memory that the last window wanted, of which nothing may be held.
func (s *slot) retake(ctx context.Context) error {
	s.mu.Lock()
	wanted := s.wanted
	s.mu.Unlock()
	charged, err := s.q.s.shared.budget.Take(ctx, s.q.s, wanted)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held += charged
	return nil
}

// count counts the appends of a window.
func (s *slot) count(ctx context.Context, w stages.Window) (n int64, err error) {
	s.q.mu.Lock()
	id := s.q.adopted.info.ID
	s.q.mu.Unlock()
	for _, err := range s.q.s.o.Log.Headers(ctx, id, w.Start, w.End) {
		if err != nil {
			return 0, fmt.Errorf("count the appends of window %d: %w", w.K, err)
		}
		n++
	}
	return n, nil
}

// Give gives the memory back if it is held.
func (s *slot) Give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.q.s.shared.budget.Give(s.held)
	s.held = 0
}

// permits bound how many windows are encoded at once, by all sinks of a process. One is held while an encoder makes bytes and reads bodies for
// them, and not while they wait for the upload. Who holds one waits for nothing but the log; who waits for one may hold a slot, which nobody needs to give a permit back. So
// there is no circle. Bytes do not depend on it: an encoder stands still and goes on.
type permits struct{ free semaphore }

// around bounds a stage that encodes.
func (p permits) around(stage stages.Stage[*stages.Job, stages.Chunk]) stages.Stage[*stages.Job, stages.Chunk] {
	return encoding{stage, p.free}
}

type encoding struct {
	stages.Stage[*stages.Job, stages.Chunk]
	free semaphore
}

// Do implements stages.Stage. Emit is called by one goroutine at a time, and Do of the stage returns after it.
func (e encoding) Do(ctx context.Context, job *stages.Job, emit func(stages.Chunk) error) error {
	if err := e.free.take(ctx); err != nil {
		return err
	}
	held := true
	defer func() {
		if held {
			e.free.give()
		}
	}()
	return e.Stage.Do(ctx, job, func(c stages.Chunk) error {
		e.free.give()
		held = false
		if err := emit(c); err != nil || c.End {
			return err
		}
		if err := e.free.take(ctx); err != nil {
			return err
		}
		held = true
		return nil
	})
}

// semaphore lets as many through as it has room for; who waits longest is next.
type semaphore chan struct{}

func newSemaphore(n int) semaphore { return make(semaphore, n) }

func (s semaphore) take(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s semaphore) give() { <-s }
