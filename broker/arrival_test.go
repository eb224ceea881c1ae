package broker

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"queen/broker/raftnode"
	"queen/broker/snapshot"
)

const (
	behindHas  = 40  // appends that a node has which is behind
	behindMiss = 60  // and how many more the others have
	behindAll  = 100 // in their snapshot
)

// behind stops node 3, which has some appends, and goes on without it until the log of the others begins behind its end.
func (c *trio) behind() {
	c.t.Helper()
	c.settled(1, 2, 3)
	c.more(0, behindHas)
	time.Sleep(time.Second)
	c.stop(3)
	c.more(behindHas, behindMiss)
	time.Sleep(20 * time.Second) // node 3 is not waited for any more
	c.snapshots()
}

// more pushes appends n, n+1, ... through node 1.
func (c *trio) more(n, many int) {
	c.t.Helper()
	for i := n; i < n+many; i++ {
		c.push(1, fmt.Sprint("p", i%5), uint64(i*4), 4, 300)
	}
}

// snapshots takes one on nodes 1 and 2 and cuts their logs.
func (c *trio) snapshots() {
	c.t.Helper()
	for _, id := range []int{1, 2} {
		if err := c.nodes[id].snapshot(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// sent is the newest snapshot of a node as it is sent.
func (c *trio) sent(id int) (*snapshot.Manifest, []byte) {
	c.t.Helper()
	from := c.nodes[id]
	m := from.snaps.newest
	r, err := snapshot.Send(from.disk, snapshot.At(from.disk, from.snapshotsAt(), m))
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err := r.Close(); err != nil {
		c.t.Error(err)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return m, text
}

func pointOf(m *snapshot.Manifest) raftnode.Point {
	return raftnode.Point{Term: m.Term, MembersAt: m.MembersAt, Members: m.Members}
}

// take lets a running node take a snapshot in.
func (c *trio) take(id int, m *snapshot.Manifest, text []byte) {
	c.t.Helper()
	in, err := transfers{c.nodes[id]}.Receive(m.Applied, pointOf(m))
	if err == nil {
		_, err = io.Copy(in, bytes.NewReader(text))
	}
	if err == nil {
		err = in.Keep()
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// comeBack starts node 3, as often as it asks for it, until it has what node 1 has.
func (c *trio) comeBack(what string) {
	c.t.Helper()
	if c.nodes[3] == nil {
		c.start(3, false)
	}
	for began := time.Now(); ; {
		select {
		case <-c.nodes[3].Settled():
			if slices.Equal(c.records(3, "orders"), c.records(1, "orders")) {
				return
			}
		default:
		}
		if time.Since(began) > 2*time.Minute {
			c.t.Fatalf("%s: node 3 does not get what the others have: %+v", what, c.nodes[3].Status())
		}
		select {
		case <-c.restarts:
			c.stop(3)
			c.start(3, false)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestPowerLossWhileASnapshotComesIn: the power of a node goes before each change on its disks from the moment at which a leader begins to send it a snapshot until it has
// started again from it. It starts, alone, with the state that it had or with that of the snapshot, and gets the rest from the others.
func TestPowerLossWhileASnapshotComesIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := coldTrio(t, 3)
		defer c.stopAll()
		power := newCuts(3)
		power.cutEach(false)
		c.disks[3], c.wals[3] = power.disk, power.wal
		c.change = func(id int, o *Options) {
			if c.disks[id] == power.disk {
				o.FS = errorfs.Wrap(power.disk, power)
			}
		}
		for id := 1; id <= 3; id++ {
			c.start(id, false)
		}
		c.behind()
		power.cutEach(true)
		c.comeBack("without a power loss")
		power.cutEach(false)
		c.stop(3)
		want := c.records(1, "orders")
		old, whole := 0, 0
		made := thin(power.made)
		for _, m := range made {
			c.disks[3], c.wals[3] = m.disk, m.wal
			c.cut(3, true)
			c.start(3, false)
			got := c.records(3, "orders")
			if n := len(got); n == behindHas {
				old++
			} else if n == behindAll {
				whole++
			} else {
				t.Errorf("%s: node 3 starts with %d appends", m.name, n)
			}
			if !slices.Equal(got, want[:len(got)]) {
				t.Errorf("%s: node 3 starts with other appends", m.name)
			}
			c.cut(3, false)
			c.comeBack(m.name)
			c.stop(3)
		}
		t.Logf("%d of %d moments, %d with the state that it had, %d with the new one", len(made), len(power.made), old, whole)
		if old < 10 || whole < 10 {
			t.Error("the test does not test")
		}
	})
}

// thin keeps every moment around the steps that give a snapshot its place, and some of the others.
func thin(made []cut) (kept []cut) {
	for i, m := range made {
		near := false
		for _, other := range made[max(0, i-1):min(len(made), i+2)] {
			near = near || strings.Contains(other.name, restoreFile) || strings.HasSuffix(other.name, "/"+snapshotsDir) || strings.Contains(other.name, "incoming/SNAPSHOT")
		}
		if near || i%5 == 0 {
			kept = append(kept, m)
		}
	}
	return kept
}

// TestAnEmptyLogBehindASnapshot: a node took a snapshot in and stopped before the first entry behind it was stored. It starts from the snapshot, as often as that happens, and
// goes on with the others.
func TestAnEmptyLogBehindASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		defer c.stopAll()
		c.behind()
		m, text := c.sent(1)
		want := c.records(1, "orders")
		c.stop(1)
		c.stop(2)
		c.start(3, false)
		c.take(3, m, text)
		c.stop(3)
		alone := func(what string) {
			t.Helper()
			c.start(3, false)
			if got := c.records(3, "orders"); !slices.Equal(got, want) {
				t.Errorf("%s: node 3 has %d appends, the snapshot %d", what, len(got), len(want))
			}
			if last := c.nodes[3].Status().LastLog; last > m.Applied {
				t.Errorf("%s: the log ends at entry %d, the snapshot stands at %d", what, last, m.Applied)
			}
			c.stop(3)
		}
		alone("from the snapshot")
		alone("once more")
		c.start(1, false)
		c.start(2, false)
		c.comeBack("with the others")
		c.push(1, "p0", 9000, 1, 10) // their log may begin behind the snapshot of node 3: then it gets another one
		c.comeBack("after another push")
	})
}

// TestAnOlderSnapshotWhileANewerOneWaits: a node that has taken a snapshot in, and waits for its restart, refuses an older one, of an earlier leader: RESTORE would name that.
func TestAnOlderSnapshotWhileANewerOneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		defer c.stopAll()
		c.behind()
		older, _ := c.sent(1)
		c.more(behindAll, 20)
		c.snapshots()
		newer, text := c.sent(1)
		c.cut(3, true)
		c.start(3, false)
		c.take(3, newer, text)
		for _, m := range []*snapshot.Manifest{older, newer} {
			if in, err := (transfers{c.nodes[3]}).Receive(m.Applied, pointOf(m)); err == nil {
				t.Errorf("a snapshot of entry %d is taken in, one of %d waits: %v", m.Applied, newer.Applied, in.Drop())
			}
		}
		c.stop(3)
		c.start(3, false)
		if got := c.nodes[3].State().Applied(); got != newer.Applied {
			t.Errorf("node 3 starts at entry %d, the snapshot stands at %d", got, newer.Applied)
		}
		c.cut(3, false)
		c.comeBack("with the others")
	})
}
