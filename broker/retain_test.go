package broker

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"queen/broker/command"
	"queen/broker/raftnode"
	"queen/broker/state"
	"queen/stages"
)

// TestRetentionOutlivesAFullDisk: a command that the log has no room for is no reason to end the node; the next round asks again.
func TestRetentionOutlivesAFullDisk(t *testing.T) {
	for _, err := range []error{raftnode.ErrDiskFull, raftnode.ErrNoLeader, raftnode.ErrUnclear} {
		if !nextRound(fmt.Errorf("propose: %w", err)) {
			t.Errorf("%v ends the node", err)
		}
	}
	if nextRound(raftnode.ErrTooLarge) {
		t.Error("a command that never fits is tried for ever")
	}
}

// TestRetentionReachesTheLastQueue: queues whose records wait for a sink are looked at a few at a time, and do not hide those behind them.
func TestRetentionReachesTheLastQueue(t *testing.T) {
	var ahead atomic.Int64
	o := options(t, t.TempDir())
	o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	b := start(t, o)
	tenant, err := tenantID(stages.DefaultTenant)
	if err != nil {
		t.Fatal(err)
	}
	const most = 150 // more than two looks
	var starts []stages.Op
	for i := range most {
		name := fmt.Sprintf("q%03d", i)
		c := command.Configure{Tenant: tenant, Queue: name, Options: []command.Option{{Number: command.OptMaxWaitTimeSeconds, Type: command.TypeInt, Int: 1}}}
		if _, err := b.Propose(t.Context(), command.KindConfigure, c.Append(nil)); err != nil {
			t.Fatal(err)
		}
		mustPush(t, b, name, "p", uint64(i), 1)
		if i < most-1 {
			starts = append(starts, stages.Op{Kind: stages.OpPut, Key: "s3:lake:" + name + ":start", Value: []byte(`{"start":"earliest","wait":3600000000}`), Forever: true})
		}
	}
	for chunk := range slices.Chunk(starts, 50) {
		if _, _, err := b.KV(stages.DefaultTenant).Batch(t.Context(), chunk); err != nil {
			t.Fatal(err)
		}
	}
	ahead.Store(int64(9 * time.Second))
	if _, err := b.Propose(t.Context(), command.KindTick, nil); err != nil {
		t.Fatal(err)
	}
	if err := b.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = b.State().Read(func(r *state.Reader) error {
		for i, row := range r.Queues(tenant) {
			if p, _ := r.Partition(row.ID, "p"); (p.Start == p.Next) != (i == most-1) {
				t.Errorf("%s: offsets %d to %d are there", row.Name, p.Start, p.Next)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
