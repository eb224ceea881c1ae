package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"queen/broker/command"
	"queen/broker/state"
	"queen/stages"
)

// alike waits until some nodes have applied the same entries, and finds that each row which follows from these is the same on all of them (state.Shared).
func (c *trio) alike(what string, ids ...int) {
	c.t.Helper()
	for range 1000 {
		synctest.Wait()
		rows, applied := map[int][]string{}, map[uint64]bool{}
		for _, id := range ids {
			at, err := c.nodes[id].State().Shared(func(key, value []byte) {
				rows[id] = append(rows[id], fmt.Sprintf("%c %x = %x", key[0], key[1:], value))
			})
			if err != nil {
				c.t.Fatalf("%s: node %d: %v", what, id, err)
			}
			applied[at] = true
		}
		if len(applied) > 1 {
			time.Sleep(7 * time.Millisecond)
			continue
		}
		for _, id := range ids[1:] {
			if a, b := strings.Join(rows[ids[0]], "\n"), strings.Join(rows[id], "\n"); a != b {
				c.t.Errorf("%s: the states of nodes %d and %d differ: %d and %d rows, first %s", what, ids[0], id, len(rows[ids[0]]), len(rows[id]), firstOther(rows[ids[0]], rows[id]))
			}
		}
		return
	}
	c.t.Fatalf("%s: the nodes %v do not come to the same entry", what, ids)
}

func firstOther(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%.200s\nand\n%.200s", a[i], b[i])
		}
	}
	return "none, but one has more"
}

// row writes a row of a sink through a node.
func (c *trio) row(id int, queue, row, value string, ttl time.Duration) {
	c.t.Helper()
	op := stages.Op{Kind: stages.OpPut, Key: "s3:default:" + queue + ":" + row, Value: json.RawMessage(value), TTL: ttl, Forever: ttl == 0}
	if _, lost, err := c.nodes[id].KV(stages.DefaultTenant).Batch(c.t.Context(), []stages.Op{op}); err != nil || lost != nil {
		c.t.Fatalf("row %s of %s: %v %v", row, queue, lost, err)
	}
}

// command proposes through a node.
func (c *trio) command(id int, kind command.Kind, body []byte) any {
	c.t.Helper()
	answer, err := c.nodes[id].Propose(c.t.Context(), kind, body)
	if err != nil {
		c.t.Fatalf("%v: %v", kind, err)
	}
	return answer
}

// leapProven is when a clock that leapt is believed.
const leapProven = time.Minute

// TestTheStateOfASnapshot: what a node has from a snapshot is what the others have, row by row: transaction ids in RAM and in rows, a lease that runs out, a queue that was deleted
// while a window of it was open, what was lost of it. And it stays so: whatever comes after that is made of it on each node is the same. The window lists the same on all of them.
func TestTheStateOfASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := coldTrio(t, 3)
		defer c.stopAll()
		begun := time.Now()
		var ahead atomic.Int64
		c.change = func(_ int, o *Options) {
			o.Elapsed = func() time.Duration { return time.Since(begun) }
			o.Now = func() time.Time { return begun.Add(time.Since(begun) + time.Duration(ahead.Load())) }
		}
		for id := 1; id <= 3; id++ {
			c.start(id, false)
		}
		c.settled(1, 2, 3)
		tenant, err := tenantID(stages.DefaultTenant)
		if err != nil {
			t.Fatal(err)
		}
		c.more(0, 10)
		c.alike("three nodes", 1, 2, 3)
		c.stop(3)
		const most = 70_000 // ids: more than stay in RAM alone
		c.push(1, "many", 1<<20, most, 1)
		held := func(first uint64) {
			t.Helper()
			if _, err := push(t.Context(), c.nodes[1], "held", "p", first, 5, 10); err != nil {
				t.Fatal(err)
			}
		}
		held(0)
		c.row(1, "held", "lease", `{"instance":"a","incarnation":"b","sinceMs":1}`, 30*time.Second)
		c.row(2, "held", "start", `{"start":"earliest","wait":0}`, 0)
		c.row(2, "held", "intent", fmt.Sprintf(`{"k":1,"tStart":0,"tEnd":%d}`, c.nodes[2].State().Now()), 0)
		held(5)
		id := c.queueID(1, "held")
		c.command(2, command.KindDelete, command.Delete{Tenant: tenant, Queue: "held"}.Append(nil))
		held(10)
		time.Sleep(20 * time.Second) // node 3 is not waited for any more
		c.snapshots()
		c.more(10, 10)
		c.comeBack("behind the log")
		if at := c.nodes[3].Status().FirstLog; at < 5 {
			t.Fatalf("the log of node 3 begins at entry %d: it has no snapshot", at)
		}
		c.alike("with a snapshot", 1, 2, 3)
		c.listed(id, 5)
		again, err := push(t.Context(), c.nodes[3], "orders", "many", 1<<20, 1000, 1)
		if err != nil || len(again.Appends[0].Dups) != 1000 {
			t.Errorf("pushed again: %+v, %v", again, err)
		}
		c.more(5, 15) // of which the youngest are in no row
		c.alike("what was there is known", 1, 2, 3)
		c.stop(3)
		c.start(3, false)
		c.settled(3)
		c.more(5, 15)
		c.alike("after another start", 1, 2, 3)
		ahead.Store(int64(2 * time.Hour))    // transaction ids become rows,
		time.Sleep(leapProven + time.Second) // and the lease runs out
		c.row(3, "held", "committed", fmt.Sprintf(`{"k":1,"tEnd":%q,"manifest":"m","records":5,"bytes":9,"committedAtMs":1}`, c.nodes[3].State().Now().ISO()), 0)
		for n := range 3 {
			c.push(1+n, "many", uint64(1<<20+most+n), 1, 1)
		}
		c.alike("the window is real", 1, 2, 3)
		if c.queueID(3, "held") == id {
			t.Error("the queue was not made anew")
		}
		if _, err := c.nodes[3].Log(stages.DefaultTenant).Listing(t.Context(), id, "default", 1); !errors.Is(err, errNoQueue) {
			t.Errorf("the deleted queue is still there: %v", err)
		}
	})
}

// listed lists the open window of a queue on each node.
func (c *trio) listed(queue stages.QueueID, records int64) {
	c.t.Helper()
	said := map[string]bool{}
	for id := 1; id <= 3; id++ {
		list, err := c.nodes[id].Log(stages.DefaultTenant).Listing(c.t.Context(), queue, "default", 1)
		if err != nil || list.Records != records {
			c.t.Errorf("node %d lists %d records: %v", id, list.Records, err)
		}
		text := fmt.Sprint(list.Start, list.End, list.Parts, list.Lost)
		for _, a := range list.Appends {
			text += fmt.Sprint(" ", a.Part, a.Sum)
		}
		said[text] = true
	}
	if len(said) != 1 {
		c.t.Errorf("one window, %d listings", len(said))
	}
}

// queueID finds a queue by its name.
func (c *trio) queueID(id int, queue string) (found stages.QueueID) {
	c.t.Helper()
	tenant, err := tenantID(stages.DefaultTenant)
	if err == nil {
		err = c.nodes[id].State().Read(func(r *state.Reader) error {
			if row, ok := r.Queue(tenant, queue); ok {
				found = row.ID
			}
			return nil
		})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return found
}
