package commit_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"queen/commit"
	"queen/commit/committest"
	"queen/stages"
)

// TestTranscripts steps ledgers by hand and prints every KV batch, every object that would be put, and every listing, in order.
// Regenerate with -rewrite and review.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return w.step(t, d) })
		})
	})
}

const queueID = stages.QueueID(7)

// world is one store, one applied state and one bucket, and the processes that use them.
type world struct {
	kv     *committest.KV
	out    strings.Builder
	safe   stages.Micros
	since  time.Time // the log clock runs since then; zero: it stands
	behind int       // listings that this node has not applied the intent for yet
	bucket map[string]bool
	procs  map[string]*proc
	faults []fault

	sent      func(row string) // called for each batch, with the row it writes
	committed func(commit.Committed)
}

type fault struct {
	row  string // the written row that arms it: lease alone, start, intent, committed; or read
	kind committest.Fault
}

type proc struct {
	w      *world
	lease  *commit.Lease
	ledger *commit.Ledger
	pos    commit.Position
	pins   commit.Pins
}

func newWorld() *world {
	w := &world{kv: committest.New(time.Now), safe: 1_000_000, bucket: map[string]bool{}, procs: map[string]*proc{}}
	w.kv.Trace(func(line string) { w.printf("%s", line) })
	w.kv.Script(w.next)
	return w
}

func (w *world) printf(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

// next returns the first scripted fault that fits the batch.
func (w *world) next(ops []stages.Op) committest.Fault {
	row := "read"
	for _, op := range ops {
		if op.Kind == stages.OpPut || op.Kind == stages.OpPutIfAbsent || op.Kind == stages.OpDelete {
			row = op.Key[strings.LastIndexByte(op.Key, ':')+1:]
		}
	}
	if w.sent != nil {
		w.sent(row)
	}
	for i, f := range w.faults {
		if f.row == row {
			w.faults = slices.Delete(w.faults, i, i+1)
			return f.kind
		}
	}
	return committest.None
}

func (w *world) step(t *testing.T, d *datadriven.TestData) string {
	w.out.Reset()
	var name string
	if len(d.CmdArgs) > 0 && len(d.CmdArgs[0].Vals) == 0 {
		name = d.CmdArgs[0].Key
	}
	p := w.procs[name]
	switch d.Cmd {
	case "process":
		w.procs[name] = w.process(t, d)
	case "acquire":
		c, err := p.lease.Acquire(t.Context(), d.HasArg("at-start"))
		w.printf("%+v %s", c, shown(err))
	case "adopt":
		var err error
		p.pos, err = p.ledger.Adopt(t.Context(), d.HasArg("latest"))
		w.printf("k=%d at=%s redo=%v %s", p.pos.K, micros(p.pos.At), p.pos.Redo != nil, shown(err))
	case "window", "redo":
		w.printf("%s", shown(p.window(t, d)))
	case "refresh":
		var leases []*commit.Lease
		for _, a := range d.CmdArgs {
			leases = append(leases, w.procs[a.Key].lease)
		}
		lost, err := commit.Refresh(t.Context(), w.kv, leases)
		w.printf("lost=%d %s", len(lost), shown(err))
	case "release":
		left, err := commit.Release(t.Context(), w.kv, []*commit.Lease{p.lease})
		w.printf("left=%d %s", left, shown(err))
	case "check":
		w.printf("%s", shown(p.lease.Check()))
	default:
		w.stage(t, d, name)
	}
	return w.out.String()
}

// stage runs the commands that set the scene.
func (w *world) stage(t *testing.T, d *datadriven.TestData, name string) {
	switch d.Cmd {
	case "advance":
		dur, err := time.ParseDuration(name)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(dur)
	case "safe":
		w.safe = number(t, name)
	case "now":
		w.printf("%s", time.Now().UTC().Format(time.TimeOnly))
	case "clock":
		w.since = time.Now()
	case "behind":
		w.behind = int(number(t, name))
	case "fault":
		kinds := map[string]committest.Fault{"unclear-applied": committest.UnclearApplied, "unclear-unapplied": committest.UnclearUnapplied,
			"not-leader": committest.NotLeader, "late": committest.Late}
		w.faults = append(w.faults, fault{name, kinds[d.CmdArgs[1].Key]})
	case "land":
		w.kv.Land()
	case "delete":
		w.kv.Delete("s3:default:q:" + name)
	case "set":
		var ttl time.Duration
		if d.HasArg("ttl") {
			ttl = 30 * time.Second
		}
		w.printf("@%d", w.kv.Put("s3:default:q:"+name, d.Input, ttl))
	case "rows":
		for _, k := range w.kv.Keys() {
			w.printf("%s %s", k, w.kv.Get(k).Value)
		}
		for _, k := range slices.Sorted(maps.Keys(w.bucket)) {
			w.printf("object %s", k)
		}
	default:
		t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
}
