package state_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"queen/broker/command"
	"queen/broker/state"
	"queen/stages"
)

// mirror reads a node as the sink does: it asks which queues moved since its last look, and hands on what lies below the safe time of the
// look. It never goes back. What it has missed at the end, nobody would ever have shipped.
type mirror struct {
	n     *node
	since stages.Micros
	due   map[stages.QueueID]stages.Micros // safe time of the look that reported the queue
	read  map[stages.QueueID]stages.Micros // all below it has been handed on
	seen  map[string]int                   // appends by queue and offset
}

func newMirror(n *node) *mirror {
	return &mirror{n: n, due: map[stages.QueueID]stages.Micros{}, read: map[stages.QueueID]stages.Micros{}, seen: map[string]int{}}
}

func (m *mirror) look() error {
	var safe stages.Micros
	err := m.n.Read(func(r *state.Reader) error {
		safe = r.Safe()
		for _, q := range r.Moved(tenantOne, m.since) {
			m.due[q] = safe
		}
		return nil
	})
	m.since = safe + 1
	for q, reported := range m.due {
		if err == nil {
			err = m.readUpTo(q, safe)
		}
		if reported < safe {
			delete(m.due, q)
		}
	}
	return err
}

// readUpTo hands on what is stamped at or above what was handed on, and below the ceiling.
func (m *mirror) readUpTo(q stages.QueueID, ceiling stages.Micros) error {
	var rows []stages.Header
	err := m.n.Read(func(r *state.Reader) error {
		for h, err := range r.Segments(q).Headers(m.read[q], ceiling) {
			if err != nil {
				return err
			}
			rows = append(rows, h)
		}
		return nil
	})
	for _, h := range rows {
		m.seen[fmt.Sprintf("queue %d offset %d", q, h.Base)]++
	}
	m.read[q] = max(m.read[q], ceiling)
	return err
}

// audit compares what was handed on with what is in the log.
func (m *mirror) audit(t *testing.T, queues int) {
	t.Helper()
	lost, doubled, first := 0, 0, ""
	for q := range stages.QueueID(queues) {
		for line := range strings.Lines(m.n.log(q + 1)) {
			var ts, base, count int64
			var partition string
			if n, _ := fmt.Sscanf(line, "  %d %s base=%d count=%d", &ts, &partition, &base, &count); n != 4 {
				continue
			}
			id := fmt.Sprintf("queue %d offset %d", q+1, base)
			if n := m.seen[id]; n != 1 {
				if first == "" {
					first = fmt.Sprintf("%s, stamped %d, was handed on %d times", id, ts, n)
				}
				lost, doubled = lost+max(0, 1-n), doubled+max(0, n-1)
			}
		}
	}
	if lost+doubled > 0 {
		t.Errorf("%d appends lost, %d doubled; first: %s", lost, doubled, first)
	}
}

// TestNothingIsStampedBelowASafeTime: clocks of proposers stand, jump and go back, and a mirror looks in between. What it was told is
// closed stays closed.
func TestNothingIsStampedBelowASafeTime(t *testing.T) {
	n, next := newNode(t), uint32(0)
	rng := rand.New(rand.NewPCG(5, 5))
	m := newMirror(n)
	clock := stages.Micros(1_000_000)
	for range 300 {
		switch rng.IntN(4) {
		case 0: // stands
		case 1: // another leader, whose clock is behind
			clock -= stages.Micros(rng.Int64N(1000))
		default:
			clock += stages.Micros(rng.Int64N(1000))
		}
		// Each push has a queue that is new or was quiet for a while, so that only the state stands between it and a stamp of the past.
		n.apply(clock, pushOf(&next, 0, item{fmt.Sprintf("q%d", 1+next%100), "p", 0, []string{"=x"}}))
		if rng.IntN(2) == 0 {
			if err := m.look(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 3 {
		n.apply(clock+10_000_000, tick())
		if err := m.look(); err != nil {
			t.Fatal(err)
		}
	}
	m.audit(t, 100)
}

// TestSafeTimeComesLast: a mirror runs beside Apply. The safe time that it takes before it looks never covers an entry whose effects it
// cannot see yet.
func TestSafeTimeComesLast(t *testing.T) {
	n, next := newNode(t), uint32(0)
	many := make([]string, 250) // an entry whose effects take a while
	for i := range many {
		many[i] = "=x"
	}
	push := func() { // an entry of two pushes: the stamp of the first one lies below the clock that the entry leaves
		e := command.AppendEntry(nil)
		for range 2 {
			c := pushOf(&next, 0, item{"q", "p", 0, many})
			c.Time = stages.Micros(next)
			e = command.AppendCommand(e, c)
		}
		if _, err := n.Apply(n.Applied()+1, e); err != nil {
			t.Fatal(err)
		}
	}
	push()
	m := newMirror(n)
	done := make(chan struct{})
	var g sync.WaitGroup
	g.Go(func() {
		for {
			if err := m.readUpTo(1, n.Now()); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for range 200 {
		push()
	}
	close(done)
	g.Wait()
	n.apply(1<<50, tick())
	if err := m.readUpTo(1, n.Now()); err != nil {
		t.Fatal(err)
	}
	m.audit(t, 1)
}
