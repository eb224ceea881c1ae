package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queen/broker/command"
	"queen/broker/raftnode"
	"queen/broker/state"
	"queen/stages"
)

const (
	retainEvery = 5 * time.Second
	retainMost  = 20_000 // appends that one command looks at: a few milliseconds
	retainTimes = 1000   // commands or looks a round: what is left waits for the next one
)

// retainLoop asks the log to remove what retention lets go, every 5 s. What goes is decided when the command is applied, by the log clock and
// the rows that stand there then: this only looks where something would.
func (b *Broker) retainLoop(ctx context.Context) {
	tick := time.NewTicker(retainEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if b.failure.Load() != nil {
			return
		}
		if !b.node.Leads() { // the leader does, for all
			continue
		}
		if err := b.retain(ctx); err != nil && ctx.Err() == nil {
			b.fatal(fmt.Errorf("retention: %w", err))
			return
		}
	}
}

// retain removes what is due now. Who does not lead, has a full disk, or gets no clear answer, is done: the next round looks again.
func (b *Broker) retain(ctx context.Context) error {
	var from stages.QueueID
	for range retainTimes {
		var due []stages.QueueID
		var next stages.QueueID
		err := b.state.Read(func(r *state.Reader) (err error) {
			due, next, err = r.Due(from, command.MaxRetain)
			return err
		})
		if err != nil || len(due) == 0 && next == 0 {
			return err
		}
		from = next // after the last one, those of which a command left something
		if len(due) == 0 {
			continue
		}
		_, err = b.Propose(ctx, command.KindRetain, command.Retain{Most: retainMost, Queues: due}.Append(nil))
		if err != nil && (nextRound(err) || ctx.Err() != nil) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// nextRound says whether a command that failed so is worth another try, in five seconds; anything else ends the node.
func nextRound(err error) bool {
	return errors.Is(err, raftnode.ErrNoLeader) || errors.Is(err, raftnode.ErrDiskFull) || errors.Is(err, stages.ErrUnclear)
}

// sayLost tells, once, what a command removed that a sink had not read: the window that reports it may be far away, or never come.
func (b *Broker) sayLost(answer any) {
	var went state.Retained
	by := "retention"
	switch a := answer.(type) {
	case state.Retained:
		went = a
	case *state.Deleted:
		went, by = a.Retained, "delete"
	}
	for _, q := range went {
		for _, l := range q.Lost {
			b.o.Log.Warn().Str("queue", q.Queue).Str("sink", l.Sink).Int64("records", l.Records).Str("by", by).
				Msg("records were removed before the sink read them")
		}
	}
}
