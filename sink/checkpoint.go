package sink

import (
	"context"
	"fmt"
	"time"

	"queen/commit"
	"queen/encode"
	"queen/upload"
)

// A checkpoint is an object beside the manifests that says where each partition is read on from behind a window. Nothing here reads one: a queue's
// position is its pointer's tEnd. It is for whoever moves to another mirror, or reads the log from where the lake ends.

// A checkpoint that cannot be written is tried again, with waits that double from the first one; then it is left out.
const (
	checkpointAttempts = 3
	checkpointWait     = time.Second
)

// checkpointDue says whether a window has a checkpoint.
func (s *Sink) checkpointDue(k uint64) bool { return k%uint64(max(1, s.cfg.CheckpointEvery)) == 0 }

// checkpointing is what follows a window that has become real. It runs in the memory of the window, before the next one begins; while it waits
// it holds none. Whatever comes of it, the window stands.
func (q *queue) checkpointing(slot *slot) func(ctx context.Context, c commit.Committed) {
	return func(ctx context.Context, c commit.Committed) {
		if !q.s.checkpointDue(c.Pointer.K) {
			return
		}
		positions, err := q.tryCheckpoint(ctx, c)
		for n := 1; n < checkpointAttempts && err != nil && ctx.Err() == nil; n++ {
			slot.Give()
			q.s.nudge()
			if q.s.backoff.Wait(ctx, checkpointWait<<(n-1)) != nil || slot.retake(ctx) != nil {
				return // what cut the pass off is told elsewhere
			}
			positions, err = q.tryCheckpoint(ctx, c)
		}
		switch {
		case err == nil:
			q.s.raise(q, checkpointWritten{c.Pointer.K, positions})
		case ctx.Err() == nil:
			q.s.raise(q, checkpointFailed{c.Pointer.K, err})
		}
	}
}

// tryCheckpoint writes the checkpoint of a window and returns how many positions are in it.
func (q *queue) tryCheckpoint(ctx context.Context, c commit.Committed) (n int, err error) {
	q.mu.Lock()
	id := q.adopted.info.ID
	q.mu.Unlock()
	positions, err := q.s.o.Log.Positions(ctx, id, c.Pointer.End)
	if err != nil {
		return 0, err
	}
	key := upload.CheckpointKey(c.Intent.Prefix, q.s.cfg.Tenant, q.name, c.Pointer.K)
	out := upload.NewSidecar(q.s.uploadOptions(q.client()), key, encode.CheckpointType)
	defer out.Abort(ctx)
	write := writerFunc(func(p []byte) (int, error) { return len(p), out.Write(ctx, p) })
	if err := q.s.shared.formats.Checkpoint(write, c.Pointer.K, c.Pointer.End, positions); err != nil {
		return 0, fmt.Errorf("write %s: %w", key, err)
	}
	return len(positions), out.Finish(ctx)
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
