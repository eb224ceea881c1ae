package state_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"queen/broker/command"
	"queen/broker/kv"
	"queen/broker/retention"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/internal/crashdisk"
	"queen/stages"
)

var tenantOne = [16]byte{0: 1}

// node is a state with its segments on a simulated disk.
type node struct {
	t        testing.TB
	fs       *crashdisk.FS
	segments *segment.Store
	*state.State
}

// sealBytes is small, so that tests have several segments.
const sealBytes = 4096

// These are small, so that transaction ids become rows now and then.
const (
	maxRecent      = 20
	maxRecentBytes = 3000
)

// openNode opens a state on a disk. Gen is that of the segment store.
func openNode(t testing.TB, fs *crashdisk.FS, gen uint32) *node {
	t.Helper()
	n, err := tryOpen(t, fs, gen)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func openSegments(fs *crashdisk.FS, gen uint32) (*segment.Store, error) {
	return segment.Open(segment.Options{FS: fs, Dir: "segments", SealBytes: sealBytes, Generation: gen})
}

func tryOpen(t testing.TB, fs *crashdisk.FS, gen uint32) (*node, error) {
	t.Helper()
	segments, err := openSegments(fs, gen)
	if err != nil {
		return nil, err
	}
	s, err := state.Open(state.Options{FS: fs, Dir: "state", Segments: segments,
		Fatal: func(err error) { t.Errorf("fatal: %v", err) }})
	if err != nil {
		return nil, err
	}
	s.MaxRecent(maxRecent, maxRecentBytes)
	return &node{t: t, fs: fs, segments: segments, State: s}, nil
}

func newNode(t testing.TB) *node {
	t.Helper()
	n := openNode(t, crashdisk.New(), 1)
	t.Cleanup(n.close)
	return n
}

func (n *node) close() {
	n.t.Helper()
	if err := n.State.Close(); err != nil {
		n.t.Error(err)
	}
	if err := n.segments.Close(); err != nil {
		n.t.Error(err)
	}
}

// entry puts commands into one entry; all are proposed for the same time.
func entry(at stages.Micros, commands ...command.Command) []byte {
	e := command.AppendEntry(nil)
	for _, c := range commands {
		c.Time = at
		e = command.AppendCommand(e, c)
	}
	return e
}

// apply applies an entry at the next index.
func (n *node) apply(at stages.Micros, commands ...command.Command) []any {
	n.t.Helper()
	results, err := n.Apply(n.Applied()+1, entry(at, commands...))
	if err != nil {
		n.t.Fatal(err)
	}
	if len(results) != len(commands) {
		n.t.Fatalf("%d results for %d commands", len(results), len(commands))
	}
	return results
}

func tick() command.Command { return command.Command{Kind: command.KindTick} }

func found(seed [16]byte) command.Command {
	return command.Command{Kind: command.KindFound, Body: seed[:]}
}

func ops(ops ...kv.Op) command.Command {
	return command.Command{Kind: command.KindKV, Body: command.KV{Tenant: tenantOne, Ops: ops}.Append(nil)}
}

func put(key, value string, ttl stages.Micros) kv.Op {
	return kv.Op{Kind: kv.Put, NS: "n", Key: key, Value: []byte(value), TTL: ttl, Forever: ttl == 0}
}

func configure(c command.Configure) command.Command {
	c.Tenant = tenantOne
	return command.Command{Kind: command.KindConfigure, Body: c.Append(nil)}
}

// item is one append of a push as tests write it: queue/partition and messages "tx=payload"; no tx = none sent.
type item struct {
	queue, partition string
	flags            uint32
	messages         []string
}

// pushOf builds a push. Message ids count up from *next.
func pushOf(next *uint32, config uint64, items ...item) command.Command {
	p := command.Push{Tenant: tenantOne}
	queues := make(map[string]int)
	for _, it := range items {
		if _, ok := queues[it.queue]; !ok {
			queues[it.queue] = len(p.Queues)
			p.Queues = append(p.Queues, command.PushQueue{Name: it.queue, Config: config})
		}
		if it.flags&stages.FlagSealed != 0 {
			p.Key = uint64(it.flags >> 8) // the rest of the flags is the key
		}
		a := command.PushAppend{Queue: queues[it.queue], Partition: it.partition, Flags: it.flags & 0xff, Count: len(it.messages)}
		for _, m := range it.messages {
			tx, payload, _ := strings.Cut(m, "=")
			*next++
			a.Block = segment.AppendMessage(a.Block, segment.Message{ID: messageID(*next), TxID: []byte(tx), Payload: []byte(payload)})
		}
		p.Appends = append(p.Appends, a)
	}
	return command.Command{Kind: command.KindPush, Body: p.Append(nil)}
}

func messageID(n uint32) (id [16]byte) {
	id[12], id[13], id[14], id[15] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	return id
}

func (n *node) read(fn func(r *state.Reader)) {
	n.t.Helper()
	if err := n.Read(func(r *state.Reader) error { fn(r); return nil }); err != nil {
		n.t.Fatal(err)
	}
}

// log writes all frames of a queue that were not removed with their records, read back through the segments.
func (n *node) log(id stages.QueueID) string {
	n.t.Helper()
	var b strings.Builder
	var view segment.View
	var live []retention.Span
	names := make(map[stages.PartitionID]string)
	n.read(func(r *state.Reader) {
		view, live = r.Segments(id), r.Removed(id).Live(stages.Beginning, 1<<62)
		page, _ := r.Partitions(id, 0, stages.Beginning, 1<<30)
		for _, p := range page {
			names[p.ID] = p.Name
		}
	})
	var headers []stages.Header
	for _, span := range live {
		for h, err := range view.Headers(span.From, span.To) {
			if err != nil {
				n.t.Fatal(err)
			}
			headers = append(headers, h)
		}
	}
	list := segment.Pick(id, headers)
	err := n.segments.Bodies(context.Background(), &list, list.Appends, func(i int, body stages.Body) error {
		h := body.Header()
		fmt.Fprintf(&b, "  %d %s base=%d count=%d weight=%d flags=%d\n", h.TS, names[h.Partition], h.Base, h.Count, h.Weight, h.Flags)
		for r, err := range body.Records() {
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "    %d %s %s\n", r.Offset, r.TxID, r.Payload)
		}
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return b.String()
}

// dump writes everything a reader can see: clock, queues, heads, records. What pebble holds is state.Dump.
func (n *node) dump() string {
	n.t.Helper()
	var b strings.Builder
	var queues []*state.QueueRow
	n.read(func(r *state.Reader) {
		fmt.Fprintf(&b, "applied %d, now %d, led %d\n", n.Applied(), r.Safe(), r.Led())
		for _, id := range r.QueueIDs() {
			q, _ := r.QueueByID(id)
			queues = append(queues, q)
		}
	})
	for _, q := range queues {
		fmt.Fprintf(&b, "queue %d %s ns=%q task=%q created=%d config=%d options=%v\n",
			q.ID, q.Name, q.Namespace, q.Task, q.Created, q.Config, q.Options)
		if q.Key != 0 {
			fmt.Fprintf(&b, "  sealed with %d\n", uint64(q.Key))
		}
		n.read(func(r *state.Reader) {
			last, ok := r.LastStamp(q.ID)
			fmt.Fprintf(&b, "  last stamp %d %v\n", last, ok)
			if removed := r.Removed(q.ID); removed.Below > 0 {
				fmt.Fprintf(&b, "  removed %v\n", removed)
			}
			page, _ := r.Partitions(q.ID, 0, stages.Beginning, 1<<30)
			for _, p := range page {
				fmt.Fprintf(&b, "  partition %d %s next=%d start=%d last=%d created=%d\n", p.ID, p.Name, p.Next, p.Start, p.Last, p.Created)
			}
		})
		b.WriteString(n.log(q.ID))
	}
	return b.String()
}
