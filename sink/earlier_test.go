package sink

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"queen/commit/committest"
	"queen/config"
	"queen/internal/fakes3"
	"queen/stages"
	"queen/upload"
)

// earlierLife leaves two windows in the bucket and a broker that knows nothing of them, and returns what is in the bucket.
func (w *world) earlierLife() map[string]string {
	w.t.Helper()
	l := w.start(nil)
	for k := uint64(1); k <= 2; k++ {
		w.mem.push("orders", "p", 5)
		w.until(time.Minute, "a window", func() bool { return l.k("orders") == k })
	}
	l.stop()
	mem := newMemory()
	mem.kv = committest.New(time.Now)
	w.mem = mem
	mem.push("orders", "p", 3)
	return w.objects()
}

// refusedAsEarlier waits until the queue says why it stands, and for some time after.
func (w *world) refusedAsEarlier(l *life, before map[string]string) {
	w.t.Helper()
	w.until(10*time.Minute, "the refusal", func() bool {
		row := l.row("orders")
		return row["state"] == "failed" && strings.Contains(fmt.Sprint(row["lastError"]), "earlier life")
	})
	elapse(10 * time.Minute)
	for key, sum := range w.objects() {
		if old, ok := before[key]; ok && old != sum {
			w.t.Errorf("%s was written over", key)
		}
	}
	if after := w.objects(); !maps.Equal(before, after) {
		w.t.Errorf("the bucket has changed: %v", w.s3.Keys())
	}
	if row := w.mem.kv.Get(committedKey); row.Version != 0 {
		w.t.Errorf("a pointer: %s", row.Value)
	}
}

// A look at the earlier life that failed is no "no", whatever the store said.
func TestEarlierLifeIsSeenThroughFaults(t *testing.T) {
	for name, rule := range map[string]fakes3.Rule{
		"403 signature":  {Op: "get", Key: "queen/_queen/*/*/*/*", Times: 3, Status: 403, Code: "SignatureDoesNotMatch"},
		"403 access key": {Op: "get", Key: "0000000001.json", Times: 3, Status: 403, Code: "InvalidAccessKeyId"},
		"403 clock":      {Op: "get", Key: "0000000001.json", Times: 3, Status: 403, Code: "RequestTimeTooSkewed"},
		"403 no code":    {Op: "get", Key: "0000000001.json", Times: 3, Status: 403},
		"404 bucket":     {Op: "get", Key: "0000000001.json", Times: 3, Status: 404, Code: "NoSuchBucket"},
		"503":            {Op: "get", Key: "0000000001.json", Times: 9, Status: 503},
		"no answer":      {Op: "get", Key: "0000000001.json", Times: 9, Cut: fakes3.CutBefore},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				before := w.earlierLife()
				w.s3.Script(rule)
				l := w.start(nil)
				elapse(30 * time.Second)
				if row := w.mem.kv.Get(intentKey); row.Version != 0 {
					t.Errorf("an intent before a look had an answer: %s", row.Value)
				}
				w.refusedAsEarlier(l, before)
				l.stop()
			})
		})
	}
}

// The store refused everything, so that the look was hidden and the intent of window 1 was written; its redo must not write over what is there.
func TestEarlierLifeIsSeenAtTheRedo(t *testing.T) {
	for name, change := range map[string]func(in *stages.Intent, m *upload.Manifest){
		"other bounds": func(*stages.Intent, *upload.Manifest) {},
		"other start":  func(in *stages.Intent, m *upload.Manifest) { m.Start, m.End = in.Start-1, in.End },
		"other end":    func(in *stages.Intent, m *upload.Manifest) { m.Start, m.End = in.Start, in.End+1 },
		"other sink":   func(in *stages.Intent, m *upload.Manifest) { m.Start, m.End, m.Sink = in.Start, in.End, "other" },
		"other queue":  func(in *stages.Intent, m *upload.Manifest) { m.Start, m.End, m.Queue = in.Start, in.End, "other" },
	} {
		t.Run(name, func(t *testing.T) {
			for _, restart := range []bool{false, true} {
				inWorld(t, func(w *world) {
					w.earlierLife()
					w.s3.Script(fakes3.Rule{Op: "get", Status: 403, Code: "AccessDenied"}, fakes3.Rule{Op: "put", Status: 403, Code: "AccessDenied"})
					l := w.start(nil)
					w.until(time.Minute, "the refused upload", hasState(l, "orders", "failed"))
					in, err := stages.ParseIntent(w.mem.kv.Get(intentKey).Value)
					if err != nil {
						t.Fatal(err)
					}
					key := upload.ManifestKey("queen", stages.DefaultTenant, "orders", 1)
					text, _ := w.s3.Object(key)
					m, err := upload.ParseManifest(text)
					if err != nil {
						t.Fatal(err)
					}
					change(&in, m)
					w.s3.Put(key, m.Append(nil))
					if restart {
						l.gone()
						l = w.start(nil)
						elapse(time.Second)
					}
					before := w.objects()
					w.s3.Unscript()
					w.refusedAsEarlier(l, before)
					l.stop()
				})
			}
		})
	}
}

// What an own attempt at window 1 has left is no earlier life, nor is a store that hides what it may not list.
func TestOwnFirstAttemptGoesOn(t *testing.T) {
	for _, point := range []string{"after_intent", "mid_upload", "after_upload", "before_commit"} {
		t.Run(point, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.s3.Script(fakes3.Rule{Op: "get", Times: 2, Status: 403, Code: "AccessDenied"})
				w.mem.push("orders", "p", 5)
				l := w.start(func(c *config.Sink) { c.CrashAt = point })
				<-l.ended
				l = w.start(nil)
				w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
				w.exactly("orders")
				l.stop()
			})
		})
	}
}

// The pass waits for its records; meanwhile another broker counts on this prefix.
func TestEarlierLifeIsSeenRightBeforeTheIntent(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(func(c *config.Sink) { c.MaxWindow = 5 * time.Minute })
		elapse(time.Minute)
		other := []byte("whatever it says")
		key := upload.ManifestKey("queen", stages.DefaultTenant, "orders", 1)
		w.s3.Put(key, other)
		w.refusedAsEarlier(l, w.objects())
		if w.mem.kv.Get(intentKey).Version != 0 {
			t.Error("an intent was written")
		}
		l.stop()
	})
}

// The prefix is changed to one that holds an earlier life: a queue that has windows elsewhere does not write over those either.
func TestEarlierLifeUnderAChangedPrefix(t *testing.T) {
	inWorld(t, func(w *world) {
		w.earlierLife()
		elsewhere := func(c *config.Sink) { c.Prefix = "elsewhere" }
		l := w.start(elsewhere)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		l.stop()
		looks := w.requests("get")
		before := w.objects()
		w.mem.push("orders", "p", 5)
		l = w.start(nil)
		w.until(time.Minute, "the refusal", hasState(l, "orders", "failed"))
		if said := fmt.Sprint(l.row("orders")["lastError"]); !strings.Contains(said, "earlier life") || !strings.Contains(said, "another prefix") {
			t.Error(said)
		}
		elapse(5 * time.Minute)
		if !maps.Equal(before, w.objects()) || w.requests("get") == looks {
			t.Errorf("the bucket has changed: %v", w.s3.Keys())
		}
		l.stop()
		l = w.start(elsewhere)
		w.until(2*time.Minute, "window 2", func() bool { return l.k("orders") == 2 })
		looks = w.requests("get")
		w.mem.push("orders", "p", 5)
		w.until(2*time.Minute, "window 3", func() bool { return l.k("orders") == 3 })
		if n := w.requests("get") - looks; n != 0 {
			t.Errorf("%d looks for a window where the last one lies", n)
		}
		l.stop()
	})
}

// A row in the future, written by hand, is not green: the queue stops and names the row, and goes on when it is mended.
func TestRowsInTheFuture(t *testing.T) {
	const far = "4102444800000000" // 2100
	for key, value := range map[string]string{
		committedKey:              `{"k":1,"tEnd":"2100-01-01T00:00:00.000000Z","manifest":"m","records":1,"bytes":1,"committedAtMs":1}`,
		"s3:default:orders:start": `{"start":"latest","t":` + far + `}`,
		intentKey: `{"k":1,"tStart":0,"tEnd":` + far + `,"at":"x","format":"jsonl","compression":"zstd","level":3,"layout":"merged","align":"none",` +
			`"prefix":"queen","bucket":"lake","endpoint":"e","writer":"w","encoder":"e"}`,
	} {
		t.Run(key, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.mem.push("orders", "p", 5)
				w.mem.kv.Put(key, value, 0)
				l := w.start(nil)
				w.until(time.Minute, "failed", hasState(l, "orders", "failed"))
				if said := fmt.Sprint(l.row("orders")["lastError"]); !strings.Contains(said, key) || !strings.Contains(said, "safe time") {
					t.Error(said)
				}
				w.until(3*time.Minute, "red", func() bool { return l.report()["ok"] == false })
				if w.requests("put") != 0 || string(w.mem.kv.Get(key).Value) != value {
					t.Error("something was written")
				}
				w.mem.kv.Delete(key)
				w.until(5*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
				w.exactly("orders")
				l.stop()
			})
		})
	}
}
