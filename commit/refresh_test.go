package commit_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"queen/commit"
	"queen/commit/committest"
	"queen/stages"
)

// slowly is a store whose batches take a second each. Batches with the row of a lease that has this key fail.
type slowly struct {
	stages.KV
	fails     string
	now, most atomic.Int64 // batches under way
}

func (k *slowly) Batch(ctx context.Context, ops []stages.Op) ([]stages.Result, *stages.Lost, error) {
	n := k.now.Add(1)
	defer k.now.Add(-1)
	for most := k.most.Load(); n > most && !k.most.CompareAndSwap(most, n); most = k.most.Load() {
	}
	<-time.After(time.Second)
	for _, op := range ops {
		if op.Key == k.fails {
			return nil, nil, errors.New("no answer")
		}
	}
	return k.KV.Batch(ctx, ops)
}

// Eight batches of refreshes go four at a time. One that fails, and leases that are lost, are told whatever became of the others.
func TestRefreshesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := committest.New(time.Now)
		all := leases(kv, 8*256)
		for _, l := range all {
			if c, err := l.Acquire(t.Context(), true); err != nil || !c.Held {
				t.Fatalf("%+v %v", c, err)
			}
		}
		for _, name := range []string{"q5", "q2000"} {
			if _, _, err := kv.Batch(t.Context(), []stages.Op{{Kind: stages.OpPut, Key: commit.NewKeys("default", name).Lease(), Value: []byte(`{"instance":"node-2"}`), TTL: time.Minute}}); err != nil {
				t.Fatal(err)
			}
		}
		slow := &slowly{KV: kv, fails: commit.NewKeys("default", "q1000").Lease()}
		began := time.Now()
		lost, err := commit.Refresh(t.Context(), slow, all)
		if took := time.Since(began); took != 2*time.Second || slow.most.Load() != 4 {
			t.Errorf("%s, at most %d batches at once", took, slow.most.Load())
		}
		if err == nil || strings.Count(err.Error(), "no answer") != 1 {
			t.Errorf("%v", err)
		}
		if len(lost) != 2 || lost[0] != all[5] || lost[1] != all[2000] {
			t.Errorf("lost %d leases", len(lost))
		}
	})
}

// broken is a store that panics.
type broken struct{ stages.KV }

func (broken) Batch(context.Context, []stages.Op) ([]stages.Result, *stages.Lost, error) {
	panic("in the store")
}

// A panic in a batch is one of whoever refreshes, who may guard against it.
func TestRefreshPanicsWhereItIsCalled(t *testing.T) {
	kv := committest.New(time.Now)
	all := leases(kv, 300)
	for _, l := range all {
		if c, err := l.Acquire(t.Context(), true); err != nil || !c.Held {
			t.Fatalf("%+v %v", c, err)
		}
	}
	defer func() {
		if p := recover(); p != "in the store" {
			t.Errorf("%v", p)
		}
	}()
	lost, err := commit.Refresh(t.Context(), broken{kv}, all)
	t.Errorf("%d lost, %v", len(lost), err)
}
