package raftnode

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"queen/broker/peer"
	"queen/stages"
)

// TestFullDiskAfterTheEndWasTakenBack: a follower whose end of the log is overruled meets a full disk before it has stored what takes its place. raft would go on with
// a log that is not what it thinks: the node ends, and has what the others have once it has started again.
func TestFullDiskAfterTheEndWasTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fatal := make(chan error, 3)
		c := newClusterOf(t, 3, func(_ string, _ *peer.Options, o *Options) { o.Fatal = func(err error) { fatal <- err } })
		defer c.stopAll()
		old := c.leader(c.ids()...)
		if err := c.push(old, "before"); err != nil {
			t.Fatal(err)
		}
		others := c.others(old)
		c.cut(old, others, true)
		for i := range 10 {
			go func() {
				if err := c.push(old, fmt.Sprint("overruled ", i)); err == nil {
					t.Error("acknowledged without a majority")
				}
			}()
		}
		next := c.leader(others...)
		for _, id := range others {
			if err := c.push(id, "meanwhile "+id); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		full := error(syscall.ENOSPC)
		c.stores[old].fail.Store(&full)
		c.cut(old, others, false)
		select {
		case err := <-fatal:
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("it ended with %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("the node goes on with a log of which it does not know the end")
		}
		c.stores[old].fail.Store(nil) // there is room again
		c.stop(old)
		c.start(old, false)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if got, want := c.tapes[old].seen(), c.tapes[next].seen(); !slices.Equal(got, want) || !slices.Contains(want, "meanwhile "+others[0]) {
			t.Errorf("after a restart node %s applied %q, the others %q", old, got, want)
		}
		if len(fatal) > 0 {
			t.Errorf("fatal: %v", <-fatal)
		}
	})
}

// TestLargeEntriesToAFollowerThatIsBehind: one call carries at most 8 MiB of entries, or one entry, and the follower gets all of them.
func TestLargeEntriesToAFollowerThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.stopAll()
		leader := c.leader(c.ids()...)
		away := c.others(leader)[0]
		time.Sleep(time.Second)
		c.stop(away)
		const mib = 1 << 20
		for i, size := range []int{3 * mib, 3 * mib, 3 * mib, 3 * mib, 9 * mib, 3 * mib, 1, 2} {
			if err := c.push(leader, strings.Repeat(string(rune('a'+i)), size)); err != nil {
				t.Fatal(err)
			}
		}
		c.stores[away].most.Store(0)
		c.start(away, false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got, want := c.tapes[away].seen(), c.tapes[leader].seen(); !slices.Equal(got, want) || len(want) != 8 {
			t.Errorf("the follower has %d commands, the leader %d", len(got), len(want))
		}
		if most := c.stores[away].most.Load(); most < 9*mib || most > 9*mib+1000 {
			t.Errorf("one call carried %d bytes of entries", most)
		}
		c.stop(away)
		for i := range 6 {
			if err := c.push(leader, strings.Repeat(fmt.Sprint(i), 3*mib)); err != nil {
				t.Fatal(err)
			}
		}
		c.stores[away].most.Store(0)
		c.start(away, false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if most := c.stores[away].most.Load(); most < 3*mib || most > maxAppend {
			t.Errorf("one call carried %d bytes of entries", most)
		}
		if got := len(c.tapes[away].seen()); got != 14 {
			t.Errorf("the follower has %d commands of 14", got)
		}
	})
}

// TestANewLeaderProvesItsLeap: the wall clock of a node goes an hour ahead while it follows. When it leads, it is believed after 60 s of it and not at once, for it
// has heard another clock.
func TestANewLeaderProvesItsLeap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead [4]atomic.Int64
		began := time.Now()
		c := newClusterOf(t, 3, func(id string, _ *peer.Options, o *Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead[id[0]-'0'].Load())) }
			o.Elapsed = func() time.Duration { return time.Since(began) }
		})
		defer c.stopAll()
		first := c.leader(c.ids()...)
		for _, id := range c.ids() {
			c.caughtUp(id)
		}
		if err := c.push(first, "before"); err != nil {
			t.Fatal(err)
		}
		for _, id := range c.others(first) {
			ahead[id[0]-'0'].Store(int64(time.Hour))
		}
		c.stop(first)
		next := c.leader(c.ids()...)
		led := time.Now()
		for time.Since(led) < 70*time.Second {
			if err := c.push(next, "after"); err != nil {
				t.Fatal(err)
			}
			off := time.Duration(c.tapes[next].Now()-stages.Micros(time.Now().UnixMicro())) * time.Microsecond
			switch since := time.Since(led); {
			case since < leapProof-time.Second && off > leapLimit:
				t.Fatalf("after %s of leading the log clock is %s ahead", since, off)
			case since > leapProof+5*time.Second && off < time.Hour-time.Minute:
				t.Fatalf("after %s of leading its wall clock is not believed: %s", since, off)
			}
			time.Sleep(time.Second)
		}
	})
}
