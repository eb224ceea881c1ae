package placement_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestTranscripts steps three nodes by hand and prints every batch that goes to the store. Regenerate with -rewrite and review.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := newWorld(t, 30*time.Second, 0)
		w.kv.Trace(func(line string) { w.printf("  %s", strings.ReplaceAll(line, "\n", "\n  ")) })
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.out.Reset()
			w.command(t, d)
			return w.out.String()
		})
	})
}

func (w *world) command(t *testing.T, d *datadriven.TestData) {
	name := ""
	if len(d.CmdArgs) > 0 {
		name = d.CmdArgs[0].Key
	}
	m := w.nodes[name]
	switch d.Cmd {
	case "queues":
		for _, a := range d.CmdArgs {
			w.names = append(w.names, a.Key)
		}
	case "start":
		jitter := map[string]float64{"a": 0.1, "b": 0.5, "c": 0.9}[name]
		w.start(name, jitter)
	case "beat":
		m.beat()
	case "refresh":
		m.refresh()
	case "look":
		w.printf("looks at %s", strings.Join(m.look(), " "))
	case "step":
		m.step()
		next := m.book.Next(w.now, m.size(), time.Minute)
		w.printf("holds [%s] of %d nodes, share %d; next in %v", strings.Join(m.holds(), " "), m.book.NodeCount(), m.book.Share(len(w.names)), next)
	case "buffered":
		for _, a := range d.CmdArgs[1:] {
			var n int64
			a.Scan(t, 0, &n)
			m.buffered[a.Key] = n
		}
	case "kill":
		m.kill()
	case "stop":
		w.stop(name)
	case "advance":
		by, err := time.ParseDuration(name)
		if err != nil {
			t.Fatal(err)
		}
		w.now += by
		w.printf("%v", w.now)
	default:
		t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
}
