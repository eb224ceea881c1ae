package sink

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/config"
	"queen/stages"
)

const (
	rightKey = "00112233aabbccdd"
	otherKey = "ffffffffffffffff"
)

// failedFor says that a queue is failed here, is not owned, and that its error says something.
func failedFor(l *life, queue, says string) func() bool {
	return func() bool {
		row := l.row(queue)
		return row["state"] == stateFailed && row["ownedHere"] == false && strings.Contains(fmt.Sprint(row["lastError"]), says)
	}
}

// C8a, contract B1: a queue whose payloads are sealed is of nodes that have its key. Another leaves it alone, whether it holds the queue's first
// window or the redo of one, and mirrors what it can open; the node with the key writes all of it, and its intent names the key.
func TestC8KeyOfAQueue(t *testing.T) {
	for _, c := range []struct{ key, says string }{{"", "this node has none"}, {otherKey, "this node has another, " + otherKey}} {
		inWorld(t, func(w *world) {
			w.mem.push("orders", "p", 3)
			w.mem.seal("orders", rightKey)
			w.mem.push("open", "p", 3)
			queues := func(cfg *config.Sink) { cfg.Queues = []string{"orders", "open"} }
			w.key = c.key
			l := w.start(queues)
			w.until(time.Minute, "left alone", failedFor(l, "orders", "sealed with the encryption key "+rightKey+" and "+c.says))
			w.until(time.Minute, "the other queue", func() bool { return l.k("open") == 1 })
			elapse(10 * time.Minute)
			if w.mem.kv.Get("s3:default:orders:intent").Version != 0 || w.mem.kv.Get("s3:default:orders:lease").Version != 0 {
				t.Error("a row was written")
			}
			l.stop()

			w.key = rightKey
			l = w.start(func(cfg *config.Sink) { queues(cfg); cfg.CrashAt = "before_commit" })
			<-l.ended
			in, err := stages.ParseIntent(w.mem.kv.Get("s3:default:orders:intent").Value)
			if err != nil || in.Key != rightKey || in.Unknown != "" {
				t.Fatalf("intent %+v, %v", in, err)
			}
			before := w.requests("put")
			w.key = c.key
			elapse(time.Minute) // the lease of the dead process runs out
			l = w.start(queues)
			w.until(time.Minute, "the redo left alone", failedFor(l, "orders", c.says))
			elapse(10 * time.Minute)
			if w.requests("put") != before {
				t.Error("the redo was put by a node without the key")
			}
			l.stop()

			w.key = rightKey
			l = w.start(queues)
			w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
			l.stop()
			if n := w.audit("orders"); n != 3 {
				t.Errorf("%d records", n)
			}
			if in, _ := stages.ParseIntent(w.mem.kv.Get("s3:default:open:intent").Value); in.Key != "" {
				t.Errorf("the intent of an open queue names key %q", in.Key)
			}
		})
	}
}

// The first sealed payload of a queue comes while a node without the key has it: its window is not begun, and the queue is given back.
func TestC8KeyComesWhileOwned(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 1)
		l := w.start(nil)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.mem.push("orders", "p", 1)
		w.mem.seal("orders", rightKey)
		w.until(time.Minute, "given back", failedFor(l, "orders", "this node has none"))
		if in, _ := stages.ParseIntent(w.mem.kv.Get("s3:default:orders:intent").Value); in.K != 1 {
			t.Errorf("intent %d was begun", in.K)
		}
		if w.mem.kv.Get("s3:default:orders:lease").Version != 0 {
			t.Error("the lease is held")
		}
		l.stop()
		w.key = rightKey
		l = w.start(nil)
		w.until(time.Minute, "window 2", func() bool { return l.k("orders") == 2 })
		l.stop()
		w.audit("orders")
	})
}
