package sim

import (
	"context"
	"fmt"
	"time"

	"queen/broker/raftnode"
	"queen/internal/fakes3"
)

// trouble breaks things one after the other until ctx ends, and then mends everything.
func (w *world) trouble(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(w.between(100*time.Millisecond, 4*time.Second))
		m := w.node[w.pick(nodes)]
		switch w.pick(11) {
		case 0, 1:
			m.alone(func() {
				m.crash([]int{0, 100, 50, 0}[w.pick(4)])
				time.Sleep(w.between(0, 8*time.Second))
				m.start()
			})
		case 2:
			m.alone(func() {
				m.stop(w.pick(2) == 0)
				time.Sleep(w.between(0, 20*time.Second))
				m.start()
			})
		case 3:
			w.partition(m.id, w.pick(2) == 0, w.between(500*time.Millisecond, 12*time.Second))
		case 4:
			m.step([]time.Duration{time.Hour, -time.Hour, 9 * time.Second, -9 * time.Second, 0}[w.pick(5)])
		case 5:
			w.bucket(w.between(500*time.Millisecond, 15*time.Second))
		case 6:
			w.s3.Deaf(true)
			time.Sleep(w.between(500*time.Millisecond, 10*time.Second))
			w.s3.Deaf(false)
			w.count("bucket deaf")
		case 7: // everything at once
			w.blackout()
			w.count("power loss everywhere")
		case 8: // long away, so that the log is cut
			m.alone(func() {
				m.stop(true)
				time.Sleep(w.between(20*time.Second, 60*time.Second))
				m.start()
			})
			w.count("long away")
		case 9: // retention waits for a sink for a minute and two windows, and then no more
			if w.pick(3) > 0 {
				continue
			}
			w.s3.Script(fakes3.Rule{Status: 503, Code: "SlowDown"})
			time.Sleep(w.between(60*time.Second, 110*time.Second))
			w.s3.Unscript()
			w.count("bucket away for long")
		case 10:
			var rest []int
			for id := 1; id <= nodes; id++ {
				if id != m.id {
					rest = append(rest, id)
				}
			}
			w.voters(ctx, rest)
			time.Sleep(w.between(time.Second, 15*time.Second))
			w.voters(ctx, []int{1, 2, 3})
		}
	}
	w.s3.Unscript()
	for _, m := range w.node {
		m.step(0)
	}
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
