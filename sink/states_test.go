package sink

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"queen/commit/committest"
	"queen/config"
	"queen/internal/fakes3"
	"queen/stages"
)

// picture is a sink in one state, as somebody finds it who is called at night.
type picture struct {
	name    string
	state   string              // of the queue
	ok      bool                // of the sink
	says    string              // part of the sentence that says what is wrong and what to do; "" = nothing is wrong
	change  func(*config.Sink)  // settings
	prepare func(w *world)      // before the sink starts; nil = five records are there
	then    func(*world, *life) // after it has started; nil = nothing
	until   func(*world, *life) bool
}

// refusing makes the store answer a kind of request, of window 1 and later, with an error.
func refusing(op string, status int, code string, more ...fakes3.Rule) func(w *world) {
	return func(w *world) {
		w.mem.push("orders", "p", 5)
		w.s3.Script(append(more, fakes3.Rule{Op: op, Status: status, Code: code})...)
	}
}

// leaderless makes batches fail that the function picks.
func leaderless(pick func(ops []stages.Op) bool) func(w *world) {
	return func(w *world) {
		w.mem.push("orders", "p", 5)
		w.mem.kv.Script(func(ops []stages.Op) committest.Fault {
			if pick(ops) {
				return committest.NotLeader
			}
			return committest.None
		})
	}
}

func writes(key string) func(ops []stages.Op) bool {
	return func(ops []stages.Op) bool {
		last := ops[len(ops)-1]
		return last.Kind == stages.OpPut && last.Key == key
	}
}

func failing(_ *world, l *life) bool { return l.row("orders")["lastError"] != nil }

func red(_ *world, l *life) bool { return l.report()["health"].(map[string]any)["ok"] == false }

const otherLease = `{"instance":"node-2@h","incarnation":"b","sinceMs":1}`

// healthy are the pictures of a sink that needs nobody.
func healthyPictures() []picture {
	large := func(c *config.Sink) { c.TargetBytes, c.MaxWindow = 1<<30, time.Hour }
	hold := func(op string) func(*world) {
		return func(w *world) {
			w.mem.push("orders", "p", 5)
			w.s3.Script(fakes3.Rule{Op: op, Times: 1, Hold: make(chan struct{})})
		}
	}
	return []picture{
		{name: "a window fills", state: "filling", ok: true, change: large,
			until: func(_ *world, l *life) bool { return l.row("orders")["bufferedBytes"] != int64(0) }},
		{name: "nothing is left to do", state: "filling", ok: true, until: func(w *world, l *life) bool { return l.k("orders") == 1 && w.passes(l) == 0 }},
		{name: "a window waits until its intent is applied here", state: "intent", ok: true,
			prepare: func(w *world) { w.mem.push("orders", "p", 5); w.mem.behind = true }},
		{name: "a window is uploaded", state: "upload", ok: true, prepare: hold("put")},
		{name: "held by another node", state: "held", ok: true, prepare: func(w *world) {
			w.mem.push("orders", "p", 5)
			w.mem.kv.Put(leaseKey, otherLease, time.Hour)
		}},
		{name: "the queue does not exist", state: "missing", ok: true, prepare: func(*world) {}},
		{name: "drained", state: "drained", ok: true, then: func(w *world, l *life) {
			w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
			l.stop()
		}},
		{name: "memory closed the window", state: "filling", ok: true, change: func(c *config.Sink) { large(c); c.MemoryBytes = 1 << 20 }, prepare: func(w *world) {
			for range 15_000 {
				w.mem.push("orders", "p", 1)
			}
		}, until: func(w *world, l *life) bool { return l.k("orders") == 1 && w.passes(l) == 0 }},
		{name: "records went away", state: "filling", ok: true, change: func(c *config.Sink) { c.MaxWindow = time.Minute }, prepare: func(*world) {},
			then: func(w *world, l *life) {
				w.until(time.Minute, "missing", hasState(l, "orders", "missing"))
				w.mem.push("orders", "p", 5)
				w.until(time.Minute, "adopted", hasState(l, "orders", "filling"))
				w.mem.trim("orders")
				w.mem.push("orders", "p", 2)
			}, until: func(w *world, l *life) bool { return l.k("orders") == 1 && w.passes(l) == 0 }},
		{name: "a window is redone", state: "filling", ok: true, prepare: func(w *world) {
			w.mem.push("orders", "p", 5)
			l := w.start(func(c *config.Sink) { c.CrashAt = "after_upload" })
			<-l.ended
		}, until: func(_ *world, l *life) bool { return l.k("orders") == 1 }},
	}
}

// kvPictures are those of rows and leases.
func kvPictures() []picture {
	return []picture{
		{name: "no leader when it is claimed", state: "claiming", ok: true, says: "no leader", prepare: leaderless(func(ops []stages.Op) bool { return ops[0].Key == leaseKey }), until: failing},
		{name: "no leader when its rows are read", state: "restoring", ok: true, says: "no leader",
			prepare: leaderless(writes("s3:default:orders:start")), until: failing},
		{name: "no leader when the pointer moves", state: "commit", ok: true, says: "no leader", prepare: leaderless(writes(committedKey)), until: failing},
		{name: "fenced", state: "fenced", ok: true, says: "held by node-2@h", prepare: func(w *world) {
			w.mem.push("orders", "p", 5)
			w.s3.Script(fakes3.Rule{Op: "put", Times: 1, Hold: make(chan struct{})})
		}, then: func(w *world, l *life) {
			w.until(time.Minute, "the upload", hasState(l, "orders", "upload"))
			w.mem.kv.Put(leaseKey, otherLease, time.Hour)
		}},
		{name: "taken by another node while nothing was to do", state: "held", ok: true, says: "held by node-2@h", then: func(w *world, l *life) {
			w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 && w.passes(l) == 0 })
			w.mem.kv.Put(leaseKey, otherLease, time.Hour)
		}},
		{name: "a twin", state: "fenced", ok: true, says: "give each its own QUEEN_S3_INSTANCE", then: func(w *world, l *life) {
			w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
			w.mem.kv.Put(leaseKey, strings.Replace(otherLease, "node-2@h", "node-1@h", 1), time.Hour)
		}},
		{name: "an intent of a newer build", state: "failed", ok: true, says: "orc", prepare: func(w *world) {
			w.mem.push("orders", "p", 5)
			w.mem.kv.Put("s3:default:orders:start", `{"start":"earliest"}`, 0)
			w.mem.kv.Put("s3:default:orders:intent", `{"k":1,"tStart":0,"tEnd":946684900000000,"at":"x","format":"orc","compression":"zstd","layout":"merged","align":"hour"}`, 0)
		}},
		{name: "an earlier life is in the bucket", state: "failed", ok: true, says: "use another QUEEN_S3_PREFIX", prepare: func(w *world) {
			w.mem.push("orders", "p", 5)
			l := w.start(nil)
			w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
			l.stop()
			w.mem.kv = committest.New(time.Now)
		}},
		{name: "a name that is too long", state: "failed", ok: true, says: "too long", change: func(c *config.Sink) { c.Queues = []string{longName} },
			prepare: func(w *world) { w.mem.push(longName, "p", 1) }},
		{name: "data that cannot be read", state: "failed", ok: true, says: "segment 3", prepare: func(w *world) {
			w.mem.push("orders", "p", 5)
			w.mem.broken = fmt.Errorf("segment 3: %w", stages.ErrDamaged)
		}},
		{name: "a fault of the program", state: "crashed", ok: true, says: "in the log", prepare: func(w *world) { w.mem.push("orders", "p", 5); w.mem.panics = true }},
		{name: "a fault of the program, for long", state: "crashed", says: "in the log", prepare: func(w *world) { w.mem.push("orders", "p", 5); w.mem.panics = true },
			until: func(w *world, l *life) bool { return red(w, l) && hasState(l, "orders", "crashed")() }},
		{name: "the log cannot be asked what moved", state: "filling", says: "the log is closed", then: func(w *world, l *life) {
			w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
			w.mem.mu.Lock()
			w.mem.deaf = errors.New("the log is closed")
			w.mem.mu.Unlock()
		}, until: red},
	}
}

var longName = strings.Repeat("é", 60)

// bucketPictures are those of the store.
func bucketPictures() []picture {
	return []picture{
		{name: "the store is busy", state: "filling", ok: true, says: "it is asked again", change: func(c *config.Sink) { c.MaxWindow = time.Minute },
			prepare: refusing("put", 503, "SlowDown"), until: failing},
		{name: "the store is busy, for long", state: "upload", says: "it is asked again", prepare: refusing("put", 503, "SlowDown"),
			until: func(w *world, l *life) bool { return red(w, l) && failing(w, l) }},
		{name: "no right to write", state: "failed", ok: true, says: "the access key needs s3:PutObject", prepare: refusing("put", 403, "AccessDenied")},
		{name: "no bucket at boot", state: "claiming", says: "create it or correct its name", prepare: refusing("", 404, "NoSuchBucket"), until: failingBucket},
		{name: "another region", state: "claiming", says: "the bucket is in region eu-west-1, requests are signed for us-east-1", until: failingBucket,
			prepare: refusing("head", 200, "", fakes3.Rule{Op: "head", Status: 301, Header: map[string][]string{"X-Amz-Bucket-Region": {"eu-west-1"}}})},
		{name: "no answer at boot", state: "claiming", says: "check that http://fakes3.test can be reached", prepare: func(w *world) { w.mem.push("orders", "p", 5); w.s3.Deaf(true) }, until: failingBucket},
		{name: "the right is taken away", state: "filling", says: "the access key needs s3:GetObject", then: func(w *world, l *life) {
			w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
			w.s3.Script(fakes3.Rule{Op: "head", Status: 403})
		}, until: failingBucket},
		{name: "the store takes requests and answers none", state: "intent", says: "http://fakes3.test", then: func(w *world, l *life) {
			w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
			w.s3.Script(fakes3.Rule{Hold: make(chan struct{})})
			w.mem.push("orders", "p", 5)
		}, until: func(w *world, l *life) bool {
			return red(w, l) && failingBucket(w, l) && hasState(l, "orders", "intent")()
		}},
	}
}

func failingBucket(_ *world, l *life) bool {
	return l.report()["bucket"].(map[string]any)["reachable"] == false
}

// Each state as status shows it, with the lines that the log has about it, in one file to be read from top to bottom. What is no state of the
// sink (stamps, seconds) is left out; that every field has its type, and is null when it has to be, is checked for each of them.
func TestPictures(t *testing.T) {
	var all strings.Builder
	for _, p := range append(append(healthyPictures(), kvPictures()...), bucketPictures()...) {
		t.Run(p.name, func(t *testing.T) {
			inWorld(t, func(w *world) { all.WriteString(w.picture(p)) })
		})
	}
	golden(t, "states.txt", all.String())
}

func (w *world) picture(p picture) string {
	w.t.Helper()
	if p.prepare == nil {
		p.prepare = func(w *world) { w.mem.push("orders", "p", 5) }
	}
	w.rand = rand.NewChaCha8([32]byte{}) // waits are the same in each run
	p.prepare(w)
	before := w.logs.Len()
	l := w.start(p.change)
	defer l.gone()
	if p.then != nil {
		p.then(w, l)
	}
	name := l.s.all()[0].name
	w.until(10*time.Minute, p.name, func() bool {
		return hasState(l, name, p.state)() && (p.until == nil || p.until(w, l))
	})
	synctest.Wait()
	report := l.report()
	row := l.row(name)
	checkReport(w.t, l.s.Status())
	text := fmt.Sprintf("== %s\n", p.name)
	for _, part := range []struct {
		name string
		of   any
	}{{"ok", report["ok"]}, {"health", report["health"]}, {"bucket", map[string]any{"reachable": report["bucket"].(map[string]any)["reachable"],
		"error": report["bucket"].(map[string]any)["error"]}}, {"queue", row}} {
		text += fmt.Sprintf("%-7s%s\n", part.name, asJSON(w.t, part.of))
	}
	text += w.telling(before)
	if report["ok"] != p.ok || !strings.Contains(text, p.says) {
		w.t.Errorf("ok %v, says %q:\n%s", report["ok"], p.says, text)
	}
	return text + "\n"
}

// telling is each line of the log that warns, once, and those that say what was done about memory or an upload.
func (w *world) telling(from int) (text string) {
	for line := range strings.Lines(w.logs.String()[from:]) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			w.t.Fatal(err)
		}
		said := fmt.Sprint(fields["message"])
		if fields["level"] == "info" && !strings.Contains(said, "memory budget") && !strings.Contains(said, "redone") {
			continue
		}
		delete(fields, "stack")
		if line = "log    " + asJSON(w.t, fields) + "\n"; !strings.Contains(text, line) {
			text += line
		}
	}
	return text
}

var unsteady = regexp.MustCompile(`"(at|tEnd|completeThrough|safeTime|checkedAt)":"2[^"]*"|"(lagSeconds|staleMs|left_out)":[0-9][0-9.e-]*|number [0-9]+`)

// asJSON is a value as text, without what differs from run to run.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return unsteady.ReplaceAllStringFunc(string(text), func(s string) string {
		name, rest, _ := strings.Cut(s, ":")
		if strings.HasPrefix(rest, `"`) {
			return name + `:"(a time)"`
		}
		return name + ":(a number)"
	})
}
