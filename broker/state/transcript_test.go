package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"queen/broker/command"
	"queen/broker/kv"
	"queen/broker/state"
	"queen/stages"
)

// TestTranscripts runs testdata/transcripts. Every command is one entry at the next index:
//
//	push at=<µs> [config=<version>] [flags=<n>] [sealkey=<n>]   lines "queue partition tx=payload ...", no tx = none sent
//	tick at=<µs> | configure at=<µs> queue=<q> [mode=replace] with lines "name value" | put at=<µs> key= value= ttl=<µs>
//	moved since=<µs> | partitions queue=<id> after=<id> since=<µs> limit=<n> | get key= | dump
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		n, next := newNode(t), uint32(0)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			n.t = t
			return n.run(d, &next)
		})
	})
}

// args are the arguments of a transcript command.
type args struct {
	at, config, flags, sealKey, ttl, since, after, limit, queueID int
	queue, mode, key, value                                       string
}

func scanArgs(t *testing.T, d *datadriven.TestData) (a args) {
	a.limit = 1000
	for name, v := range map[string]any{
		"at": &a.at, "config": &a.config, "flags": &a.flags, "sealkey": &a.sealKey, "ttl": &a.ttl, "since": &a.since, "after": &a.after, "limit": &a.limit,
		"id": &a.queueID, "queue": &a.queue, "mode": &a.mode, "key": &a.key, "value": &a.value,
	} {
		d.MaybeScanArgs(t, name, v)
	}
	return a
}

func (n *node) run(d *datadriven.TestData, next *uint32) string {
	a := scanArgs(n.t.(*testing.T), d)
	at := stages.Micros(a.at)
	switch d.Cmd {
	case "push":
		var items []item
		for line := range strings.Lines(d.Input) {
			words := strings.Fields(line)
			items = append(items, item{words[0], words[1], uint32(a.flags | a.sealKey<<8), words[2:]})
		}
		return showPush(n.apply(at, pushOf(next, uint64(a.config), items...))[0].(*state.PushResult))
	case "tick":
		n.apply(at, tick())
		return n.clock()
	case "configure":
		c := command.Configure{Queue: a.queue, Options: parseOptions(d.Input)}
		if a.mode == "replace" {
			c.Mode = command.Replace
		}
		row := n.apply(at, configure(c))[0].(*state.QueueRow)
		return fmt.Sprintf("queue %d config=%d options=%v\n", row.ID, row.Config, row.Options)
	case "put":
		out := n.apply(at, ops(put(a.key, a.value, stages.Micros(a.ttl))))[0].(*kv.Outcome)
		return fmt.Sprintf("applied=%v version=%d\n%s", out.Results[0].Applied, out.Results[0].Version, n.clock())
	case "dump":
		return n.dump()
	}
	return n.look(d, a)
}

// look runs the transcript commands that read.
func (n *node) look(d *datadriven.TestData, a args) (out string) {
	n.read(func(r *state.Reader) {
		switch d.Cmd {
		case "moved":
			out = fmt.Sprintln(r.Moved(tenantOne, stages.Micros(a.since)))
		case "get":
			row, ok, err := r.Document(tenantOne, "n", a.key)
			out = fmt.Sprintf("%v %s version=%d expires=%d %v\n", ok, row.Value, row.Version, row.Expires, err)
		case "partitions":
			since := stages.Micros(a.since)
			if since == 0 {
				since = stages.Beginning
			}
			page, more := r.Partitions(stages.QueueID(a.queueID), stages.PartitionID(a.after), since, a.limit)
			out = fmt.Sprintf("%+v more=%v\n", page, more)
		default:
			n.t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
		}
	})
	return out
}

func (n *node) clock() (out string) {
	n.read(func(r *state.Reader) { out = fmt.Sprintf("now %d, led %d\n", r.Safe(), r.Led()) })
	return out
}

func showPush(r *state.PushResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "stamp %d", r.Stamp)
	if r.Stale {
		b.WriteString(" stale")
	}
	b.WriteString("\n")
	for i, a := range r.Appends {
		fmt.Fprintf(&b, "%d base=%d", i, a.Base)
		for _, d := range a.Dups {
			fmt.Fprintf(&b, " [%d is a duplicate of offset %d, message %d]", d.Index, d.Offset, d.ID[15])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// parseOptions reads lines "name value"; value "null" is the default.
func parseOptions(text string) (options []command.Option) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, spec := range state.OptionSpecs() {
			if spec.Name != name {
				continue
			}
			o := command.Option{Number: spec.Number, Type: spec.Type}
			switch {
			case value == "null":
				o.Type = command.TypeDefault
			case spec.Type == command.TypeInt:
				fmt.Sscan(value, &o.Int)
			case spec.Type == command.TypeBool:
				o.Bool = value == "true"
			default:
				o.Str = value
			}
			options = append(options, o)
		}
	}
	return options
}
