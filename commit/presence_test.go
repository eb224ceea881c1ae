package commit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"queen/commit"
	"queen/commit/committest"
	"queen/stages"
)

func presence(kv stages.KV, instance, incarnation string) *commit.Presence {
	return commit.NewPresence(&commit.Store{KV: kv, Now: time.Now, Sink: "default", Instance: instance, TTL: 3500 * time.Millisecond}, incarnation)
}

// One batch writes the row and reads those of all nodes; there is one for each further thousand.
func TestBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := committest.New(time.Now)
		kv.Put("s3:default:node:lease", `{"instance":"a queue of that name","incarnation":"x","sinceMs":1}`, 0)
		kv.Put("s3:other:node=n9", `{"instance":"n9","incarnation":"x","sinceMs":1}`, 0)
		for i := range 2500 {
			kv.Put(fmt.Sprintf("s3:default:node=n%04d", i), fmt.Sprintf(`{"instance":"n%04d","incarnation":"x","sinceMs":1}`, i), 0)
		}
		var batches []string
		kv.Trace(func(line string) { batches = append(batches, line) })
		p := presence(kv, "node-1@host", "00000000000000a1")
		rows, err := p.Beat(t.Context())
		if err != nil || len(rows) != 2501 || len(batches) != 3 {
			t.Fatalf("%d rows in %d batches: %v", len(rows), len(batches), err)
		}
		if want := `kv put node=node-1%40host ttl=3s {"instance":"node-1@host","incarnation":"00000000000000a1","sinceMs":946684800000} -> `; !strings.HasPrefix(batches[0], want) {
			t.Error(batches[0])
		}
		if name := commit.HolderOf(rows[2500]); name != "node-1@host" || commit.HolderOf(rows[0]) != "n0000" {
			t.Errorf("the last is %s", name)
		}
		<-time.After(2 * time.Second)
		if _, err := p.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		if row := kv.Get("s3:default:node=node-1%40host"); !strings.Contains(string(row.Value), `"sinceMs":946684800000}`) {
			t.Errorf("since the first beat: %s", row.Value)
		}
		<-time.After(2 * time.Second)
		if row := kv.Get("s3:default:node=node-1%40host"); row.Version == 0 {
			t.Error("the row ran out between two beats")
		}
		if err := p.Leave(t.Context()); err != nil || kv.Get("s3:default:node=node-1%40host").Version != 0 {
			t.Errorf("the row is still there: %v", err)
		}
	})
}

// forgetful is a store that does not know the cursor.
type forgetful struct{ stages.KV }

func (f forgetful) Batch(ctx context.Context, ops []stages.Op) ([]stages.Result, *stages.Lost, error) {
	for i := range ops {
		ops[i].After = ""
	}
	return f.KV.Batch(ctx, ops)
}

// A store that gives the same page again is not asked for ever.
func TestBeatEnds(t *testing.T) {
	kv := committest.New(time.Now)
	for i := range 1500 {
		kv.Put(fmt.Sprintf("s3:default:node=n%04d", i), `{}`, 0)
	}
	if _, err := presence(forgetful{kv}, "n", "a").Beat(t.Context()); err == nil {
		t.Error("the same page twice is no error")
	}
}

// A row of the same name that another process wrote is left alone, and a store that fails is asked for ten seconds.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := committest.New(time.Now)
		p, next := presence(kv, "n", "a1"), presence(kv, "n", "a2")
		for _, one := range []*commit.Presence{p, next} {
			if _, err := one.Beat(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Leave(t.Context()); err != nil || kv.Get("s3:default:node=n").Version == 0 {
			t.Errorf("the row of the next life is gone: %v", err)
		}
		fails := 5
		kv.Script(func([]stages.Op) committest.Fault {
			if fails--; fails >= 0 {
				return committest.NotLeader
			}
			return committest.None
		})
		if err := next.Leave(t.Context()); err != nil || kv.Get("s3:default:node=n").Version != 0 {
			t.Errorf("through a leaderless moment: %v", err)
		}
		kv.Script(func([]stages.Op) committest.Fault { return committest.NotLeader })
		begun := time.Now()
		if err := next.Leave(t.Context()); err == nil || time.Since(begun) != 10*time.Second {
			t.Errorf("gave up after %v: %v", time.Since(begun), err)
		}
	})
}
