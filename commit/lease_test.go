package commit_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"queen/commit"
	"queen/commit/committest"
	"queen/stages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func leases(kv *committest.KV, n int) (all []*commit.Lease) {
	store := &commit.Store{KV: kv, Now: time.Now, Instance: "node-1", TTL: 3 * time.Second}
	for i := range n {
		all = append(all, commit.NewLease(store, commit.NewKeys("default", fmt.Sprintf("q%d", i)), "a1"))
	}
	return all
}

// All leases of a node are refreshed and released in batches of 256, and stay live for as long as they are.
func TestRefreshAndReleaseMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := committest.New(time.Now)
		all := leases(kv, 600)
		for _, l := range all {
			if c, err := l.Acquire(t.Context(), true); err != nil || !c.Held {
				t.Fatalf("%+v %v", c, err)
			}
		}
		batches := 0
		kv.Trace(func(string) { batches++ })
		for range 10 {
			<-time.After(time.Second)
			if lost, err := commit.Refresh(t.Context(), kv, all); err != nil || len(lost) != 0 {
				t.Fatalf("lost %d: %v", len(lost), err)
			}
		}
		if batches != 30 {
			t.Errorf("%d batches, want 30", batches)
		}
		for _, l := range all {
			if err := l.Check(); err != nil {
				t.Fatal(err)
			}
		}
		if left, err := commit.Release(t.Context(), kv, all); err != nil || left != 0 {
			t.Errorf("left %d: %v", left, err)
		}
		if keys := kv.Keys(); len(keys) != 0 {
			t.Errorf("%d rows left", len(keys))
		}
		if all[0].Held() || all[0].Check() == nil {
			t.Error("a released lease is held")
		}
	})
}

// A release that never succeeds ends after ten seconds, and from then on the rows run out: nobody refreshes them.
func TestReleaseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := committest.New(time.Now)
		all := leases(kv, 2)
		for _, l := range all {
			if c, err := l.Acquire(t.Context(), true); err != nil || !c.Held {
				t.Fatal(c, err)
			}
		}
		kv.Script(func([]stages.Op) committest.Fault { return committest.NotLeader })
		begun := time.Now()
		if left, err := commit.Release(t.Context(), kv, all); left != 2 || err == nil {
			t.Errorf("left %d: %v", left, err)
		}
		if took := time.Since(begun); took != 10*time.Second {
			t.Errorf("gave up after %v", took)
		}
		kv.Script(nil)
		kv.Trace(func(line string) { t.Errorf("a lease that was given up is written: %s", line) })
		if _, err := commit.Refresh(t.Context(), kv, all); err != nil || all[0].Held() {
			t.Errorf("held %v: %v", all[0].Held(), err)
		}
	})
}

// A lease that was never claimed costs the log nothing when it is given back; one whose claims had no answer may be ours, and is.
func TestReleaseOfWhatWasNotClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := committest.New(time.Now)
		all := leases(kv, 2)
		kv.Script(func(ops []stages.Op) committest.Fault {
			if ops[0].Kind != stages.OpGet {
				return committest.UnclearApplied
			}
			return committest.None
		})
		if c, err := all[1].Acquire(t.Context(), true); err == nil || c.Held || len(kv.Keys()) != 1 {
			t.Fatal(c, err, kv.Keys())
		}
		kv.Script(nil)
		if left, err := commit.Release(t.Context(), kv, all); left != 0 || err != nil || len(kv.Keys()) != 0 {
			t.Errorf("left %d: %v, rows %v", left, err, kv.Keys())
		}
		kv.Trace(func(line string) { t.Errorf("given back again: %s", line) })
		if left, err := commit.Release(t.Context(), kv, all); left != 0 || err != nil {
			t.Errorf("left %d: %v", left, err)
		}
	})
}

// Refreshes and batches run beside each other on one handle, with a slow store: the handle never fences itself (contract B2), so that no write of
// either is refused. One that is refused is made good by reading the rows, and would cost two batches more.
func TestNeverFencesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := committest.New(time.Now)
		slow := slowKV{kv}
		w := newWorld()
		w.kv = kv
		l := commit.NewLease(&commit.Store{KV: slow, Log: w, Now: time.Now, Sink: "default", Instance: "n", TTL: time.Second,
			Backoff: commit.Backoff{First: time.Second, Max: time.Minute, Jitter: func() float64 { return 0 }}}, commit.NewKeys("default", "q"), "a")
		if c, err := l.Acquire(t.Context(), true); err != nil || !c.Held {
			t.Fatal(c, err)
		}
		g := commit.NewLedger(l, stages.QueueInfo{ID: queueID, Name: "q"}, w)
		pos, err := g.Adopt(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		kv.Trace(func(line string) {
			if strings.Contains(line, "not applied") || strings.Contains(line, "=> lost") {
				t.Errorf("refused: %s", line)
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		var refresher sync.WaitGroup
		refreshed := 0
		refresher.Go(func() {
			for ctx.Err() == nil {
				<-time.After(90 * time.Millisecond)
				lost, err := commit.Refresh(t.Context(), slow, []*commit.Lease{l})
				if err != nil || len(lost) != 0 {
					t.Errorf("lost %d: %v", len(lost), err)
				}
				refreshed++
			}
		})
		p := &proc{w: w, lease: l, ledger: g, pos: pos}
		w.committed = func(c commit.Committed) { p.pos = commit.Position{K: c.Pointer.K, At: c.Pointer.End} }
		for range 40 {
			if err := p.one(t); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		refresher.Wait()
		if p.pos.K != 40 || refreshed < 10 {
			t.Errorf("k = %d after %d refreshes", p.pos.K, refreshed)
		}
		if text := w.out.String(); strings.Contains(text, "event:") {
			t.Error(text)
		}
	})
}

// A fenced batch that hangs does not hold up the refresh of the other leases.
func TestRefreshPassesByABusyLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := committest.New(time.Now)
		hung := &hangingKV{KV: kv, resume: make(chan struct{})}
		busy := commit.NewLease(&commit.Store{KV: hung, Now: time.Now, Instance: "n", TTL: 10 * time.Second}, commit.NewKeys("default", "busy"), "a")
		free := leases(kv, 1)[0]
		for _, l := range []*commit.Lease{busy, free} {
			if c, err := l.Acquire(t.Context(), true); err != nil || !c.Held {
				t.Fatal(c, err)
			}
		}
		hung.hang = true
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = busy.Acquire(t.Context(), true)
		}()
		synctest.Wait()
		<-time.After(2 * time.Second)
		if lost, err := commit.Refresh(t.Context(), kv, []*commit.Lease{busy, free}); err != nil || len(lost) != 0 {
			t.Errorf("lost %d: %v", len(lost), err)
		}
		<-time.After(2 * time.Second)
		if err := free.Check(); err != nil {
			t.Error(err)
		}
		close(hung.resume)
		<-done
	})
}

type hangingKV struct {
	stages.KV
	hang   bool
	resume chan struct{}
}

func (h *hangingKV) Batch(ctx context.Context, ops []stages.Op) ([]stages.Result, *stages.Lost, error) {
	if h.hang {
		<-h.resume
	}
	return h.KV.Batch(ctx, ops)
}

// one runs a window of one stamp.
func (p *proc) one(t *testing.T) error {
	o := commit.Options{Ledger: p.ledger, Turns: commit.NewTurns(), Finisher: p.w, Sort: p.w.sort, Known: p.known, Crash: func(string) {}, Slot: p.w}
	w := stages.Window{K: p.pos.K + 1, Start: p.pos.At, Shown: p.pos.At, End: p.pos.At + 1}
	return commit.NewBegin(o).Do(t.Context(), w, func(job *stages.Job) error {
		up := &stages.Uploaded{Job: job, Manifest: "m"}
		return commit.NewFinish(o).Do(t.Context(), up)
	})
}

type slowKV struct{ stages.KV }

func (s slowKV) Batch(ctx context.Context, ops []stages.Op) ([]stages.Result, *stages.Lost, error) {
	<-time.After(40 * time.Millisecond)
	defer func() { <-time.After(40 * time.Millisecond) }()
	return s.KV.Batch(ctx, ops)
}

func TestBackoff(t *testing.T) {
	low := commit.Backoff{First: time.Second, Max: time.Minute, Jitter: func() float64 { return 0 }}
	high := low
	high.Jitter = func() float64 { return 0.999 }
	for n, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		want *= time.Second
		if d := low.Delay(n); d != want*3/4 {
			t.Errorf("attempt %d: at least %v, want %v", n, d, want*3/4)
		}
		if d := high.Delay(n); d >= want*5/4 || d < want*124/100 {
			t.Errorf("attempt %d: at most %v, want just below %v", n, d, want*5/4)
		}
	}
	if d := low.Delay(1000); d != 45*time.Second {
		t.Errorf("attempt 1000: %v", d)
	}
}

// A stop cuts waits to a quarter of a second, those that have begun and those that begin, but not to nothing.
func TestBackoffHurries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hurry := make(chan struct{})
		b := commit.Backoff{Hurry: hurry}
		go func() {
			<-time.After(10 * time.Second)
			close(hurry)
		}()
		begun := time.Now()
		for _, want := range []time.Duration{10*time.Second + 250*time.Millisecond, 250 * time.Millisecond} {
			if err := b.Wait(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took != want {
				t.Errorf("waited %v, want %v", took, want)
			}
			begun = time.Now()
		}
		if err := b.Wait(t.Context(), time.Millisecond); err != nil || time.Since(begun) != time.Millisecond {
			t.Errorf("a short wait took %v: %v", time.Since(begun), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if b.Wait(ctx, time.Minute) == nil {
			t.Error("waited although the context had ended")
		}
	})
}
