package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"queen/broker/raftnode"
	"queen/internal/fakes3"
)

// fault is one kind of thing that goes wrong, for a while or at once.
type fault struct {
	name string
	do   func(w *world, ctx context.Context, m *machine)
}

// faults are all kinds; which of them come how often is chosen by seed.
var faults = []fault{
	{"crash", func(w *world, _ context.Context, m *machine) {
		m.alone(func() {
			m.crash([]int{0, 100, 50, 0}[w.pick(4)])
			time.Sleep(w.between(0, 8*time.Second))
			m.start()
		})
	}},
	{"stop", func(w *world, _ context.Context, m *machine) { m.restart(w.pick(2) == 0, 0, 20*time.Second) }},
	{"away", func(w *world, _ context.Context, m *machine) { // so long that the log is cut
		m.restart(true, 20*time.Second, 60*time.Second)
		w.count("long away")
	}},
	{"partition", func(w *world, _ context.Context, m *machine) {
		w.partition(m.id, w.pick(2) == 0, w.between(500*time.Millisecond, 12*time.Second))
	}},
	{"clock", func(w *world, _ context.Context, m *machine) {
		m.step([]time.Duration{time.Hour, -time.Hour, 9 * time.Second, -9 * time.Second, 0}[w.pick(5)])
	}},
	{"stall", func(w *world, _ context.Context, m *machine) { // longer than a lease lives, so that its queues go to others
		if l := m.runs(); l != nil {
			l.stall(w.between(2*time.Second, 9*time.Second))
		}
	}},
	{"bucket", func(w *world, _ context.Context, _ *machine) {
		w.bucket(w.between(500*time.Millisecond, 15*time.Second))
	}},
	{"deaf", func(w *world, _ context.Context, _ *machine) {
		w.s3.Deaf(true)
		time.Sleep(w.between(500*time.Millisecond, 10*time.Second))
		w.s3.Deaf(false)
		w.count("bucket deaf")
	}},
	{"blackout", func(w *world, _ context.Context, _ *machine) {
		w.blackout()
		w.count("power loss everywhere")
	}},
	{"outage", func(w *world, _ context.Context, _ *machine) { w.outage(fakes3.Rule{Status: 503, Code: "SlowDown"}) }},
	{"manifests", func(w *world, _ context.Context, _ *machine) { // the object of a window lands, attempt after attempt
		w.outage(fakes3.Rule{Op: "put", Key: "*.json", Status: 503, Code: "SlowDown"})
	}},
	{"voters", func(w *world, ctx context.Context, m *machine) {
		rest := slices.DeleteFunc([]int{1, 2, 3}, func(id int) bool { return id == m.id })
		w.voters(ctx, rest)
		time.Sleep(w.between(time.Second, 15*time.Second))
		w.voters(ctx, []int{1, 2, 3})
	}},
}

// often is how often each kind comes. An outage is long, so that few fit into a world.
const often = "crash,crash,crash,crash,crash,crash,stop,stop,stop,away,away,away,partition,partition,partition,clock,clock,clock,stall,stall,stall,bucket,bucket,bucket,deaf,deaf,deaf,blackout,blackout,blackout,outage,manifests,voters,voters,voters"

// mix reads a list of kinds; one that stands there twice comes twice as often.
func mix(list string) (chosen []fault, err error) {
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no fault of the kind %q", name)
		}
		chosen = append(chosen, faults[i])
	}
	return chosen, nil
}

// trouble breaks things one after the other until ctx ends, and then mends everything.
func (w *world) trouble(ctx context.Context, chosen []fault) {
	for ctx.Err() == nil {
		time.Sleep(w.between(100*time.Millisecond, 4*time.Second))
		m := w.node[w.pick(nodes)]
		chosen[w.pick(len(chosen))].do(w, ctx, m)
	}
	w.s3.Unscript()
	for _, m := range w.node {
		m.step(0)
	}
}

// restart stops a node, and starts it after a while.
func (m *machine) restart(drain bool, least, most time.Duration) {
	m.alone(func() {
		m.stop(drain)
		time.Sleep(m.w.between(least, most))
		m.start()
	})
}

// outage breaks the bucket for longer than retention waits for a sink: a minute and two windows, and the age of what goes.
func (w *world) outage(rule fakes3.Rule) {
	w.s3.Script(rule)
	time.Sleep(w.between(60*time.Second, 110*time.Second))
	w.s3.Unscript()
	w.count("bucket away for long")
}

// blackout takes the power from all nodes, one right after the other, and gives it back.
func (w *world) blackout() {
	for _, m := range w.node {
		<-m.turn
		m.crash(0)
	}
	for _, m := range w.node {
		m.start()
		m.turn <- struct{}{}
	}
}

// voters asks some node for a change of the voters: the others become learners. It may be refused, or its end be unclear.
func (w *world) voters(ctx context.Context, ids []int) {
	l := w.node[w.pick(nodes)].runs()
	if l == nil || !l.ready.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := l.broker.Node().Change(ctx, raftnode.Change{Op: raftnode.OpVoters, IDs: ids, Force: true}); err == nil {
		w.count(fmt.Sprintf("voters are %d of the nodes", len(ids)))
	} else {
		w.count("change of voters refused or unclear")
	}
}

// partition cuts a node off from the others.
func (w *world) partition(id int, oneWay bool, during time.Duration) {
	set := func(cut bool) {
		for other := 1; other <= nodes; other++ {
			if other == id {
				continue
			}
			w.net.Cut(memberOf(id).Raft, memberOf(other).Raft, cut)
			if !oneWay {
				w.net.Cut(memberOf(other).Raft, memberOf(id).Raft, cut)
			}
		}
	}
	set(true)
	time.Sleep(during)
	set(false)
	if oneWay {
		w.count("partition one way")
	} else {
		w.count("partition")
	}
}

// step puts a node's wall clock so far from the true time.
func (m *machine) step(offset time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.offset != offset {
		m.offset = offset
		m.w.count("clock step")
	}
}

// bucket makes some requests fail for a while.
func (w *world) bucket(during time.Duration) {
	rules := []fakes3.Rule{
		{Op: "put", Cut: fakes3.CutMid}, {Op: "put", Cut: fakes3.CutAfter}, {Op: "put", Status: 503, Code: "SlowDown", Pass: 4},
		{Op: "put", Status: 500, Code: "InternalError", Apply: true, Pass: 2}, {Op: "put", Delay: 4 * time.Second}, {Op: "put", Cut: fakes3.CutAfter, Pass: 2},
	}
	w.s3.Script(rules[w.pick(len(rules))])
	time.Sleep(during)
	w.s3.Unscript()
	w.count("bucket fault")
}
