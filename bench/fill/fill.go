// Package fill makes the data folder that a benchmark starts from: one queue with a given number of records in appends of a given size
// over a given number of partitions, or many queues with a record each.
//
// It writes through the broker itself, as commands of its log, and leaves out only HTTP and JSON. It is no load test: package load is.
package fill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"queen/bench/records"
	"queen/broker"
	"queen/broker/command"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/stages"
)

// Queue is the name of the one queue.
const Queue = "backlog"

// Shape is what a folder holds.
type Shape struct {
	Dir        string
	Records    int64
	Append     int // records an append
	Partitions int
	Payload    int    // bytes
	Run        uint64 // numbers the transaction ids
	Queues     int    // when not 0: so many queues, idle-0 and so on, with one record each, instead of all the above
}

const (
	writers   = 64         // pushes under way at once
	pushBytes = 128 << 10  // of payload in one push, at most, unless one append has more
	stride    = 2654435761 // odd and large: walks partitions in an order that is not theirs
)

// Make fills the folder and closes it in order.
func Make(ctx context.Context, s Shape) (err error) {
	if s.Append < 1 || s.Partitions < 1 || s.Payload < records.MinPayload {
		return fmt.Errorf("fill: %+v makes no folder", s)
	}
	failed := make(chan error, 1)
	b, err := broker.New(broker.Options{Dir: s.Dir, NodeID: 1, Now: time.Now, Log: zerolog.Nop(), Fatal: func(err error) {
		select {
		case failed <- err:
		default:
		}
	}})
	if err != nil {
		return err
	}
	if err := b.Open(ctx); err != nil {
		return fmt.Errorf("fill %s: %w", s.Dir, err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	tenant, err := uuid.Parse(stages.DefaultTenant)
	if err != nil {
		return err
	}
	f := &filler{shape: s, broker: b, tenant: tenant}
	if s.Queues > 0 {
		return f.queues(ctx)
	}
	group, ctx := errgroup.WithContext(ctx)
	for range writers {
		group.Go(func() error { return f.write(ctx) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("fill %s: %w", s.Dir, err)
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

type filler struct {
	shape  Shape
	broker *broker.Broker
	tenant [16]byte

	mu   sync.Mutex
	next int64 // record
	at   int64 // append
	done atomic.Int64
}

// claim takes the next push: its first record, its first append, and how many records it has.
func (f *filler) claim() (record, at, count int64) {
	s := f.shape
	f.mu.Lock()
	defer f.mu.Unlock()
	appends := min(max(1, int64(pushBytes/s.Payload/s.Append)), int64(s.Partitions))
	count = min(appends*int64(s.Append), s.Records-f.next)
	record, at = f.next, f.at
	f.next += count
	f.at += (count + int64(s.Append) - 1) / int64(s.Append)
	return record, at, count
}

// write pushes until all records are claimed.
func (f *filler) write(ctx context.Context) error {
	ids := rand.NewChaCha8([32]byte{byte(f.done.Add(1))}) // message ids: any 16 bytes do
	for {
		record, at, count := f.claim()
		if count == 0 {
			return nil
		}
		if err := f.push(ctx, ids, record, at, count); err != nil {
			return err
		}
	}
}

func (f *filler) push(ctx context.Context, ids *rand.ChaCha8, record, at, count int64) error {
	s := f.shape
	p := command.Push{Tenant: f.tenant, Queues: []command.PushQueue{{Name: Queue}}}
	for ; count > 0; at++ {
		n := min(count, int64(s.Append))
		count -= n
		a := command.PushAppend{Partition: records.Partition(int(uint64(at) * stride % uint64(s.Partitions))), Count: int(n)}
		a.Block = make([]byte, 0, int(n)*(s.Payload+records.TxIDSize+24))
		for range n {
			a.Block = f.message(a.Block, ids, uint64(record))
			record++
		}
		p.Appends = append(p.Appends, a)
	}
	return f.propose(ctx, p)
}

func (f *filler) message(dst []byte, ids *rand.ChaCha8, i uint64) []byte {
	m := segment.Message{TxID: records.AppendTxID(nil, f.shape.Run, i), Payload: records.AppendPayload(nil, i, f.shape.Payload)}
	_, _ = ids.Read(m.ID[:]) // never fails
	return segment.AppendMessage(dst, m)
}

func (f *filler) propose(ctx context.Context, p command.Push) error {
	answer, err := f.broker.Propose(ctx, command.KindPush, p.Append(nil))
	if err != nil {
		return err
	}
	result, ok := answer.(*state.PushResult)
	if !ok || result.Stale {
		return fmt.Errorf("the push was answered %T", answer)
	}
	for _, a := range result.Appends {
		if len(a.Dups) > 0 {
			return errors.New("a record is a duplicate")
		}
	}
	return nil
}

// queues puts a record into each of many queues.
func (f *filler) queues(ctx context.Context) error {
	ids := rand.NewChaCha8([32]byte{})
	const together = 500
	for first := 0; first < f.shape.Queues; first += together {
		p := command.Push{Tenant: f.tenant}
		for i := first; i < min(first+together, f.shape.Queues); i++ {
			p.Queues = append(p.Queues, command.PushQueue{Name: fmt.Sprintf("idle-%d", i)})
			p.Appends = append(p.Appends, command.PushAppend{Queue: i - first, Partition: "Default", Count: 1, Block: f.message(nil, ids, uint64(i))})
		}
		if err := f.propose(ctx, p); err != nil {
			return fmt.Errorf("fill %s: %w", f.shape.Dir, err)
		}
	}
	return nil
}
