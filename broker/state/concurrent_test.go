package state_test

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"queen/broker/segment"
	"queen/broker/state"
	"queen/internal/crashdisk"
	"queen/stages"
)

// TestReadersSeeWholeEntries: beside Apply and Flush, every view shows the effects of whole entries: a document, two queues and
// the clock that one entry moves together; what a view holds stays as it is; safeTime read before a view covers it.
func TestReadersSeeWholeEntries(t *testing.T) {
	defer goleak.VerifyNone(t)
	const entries = 400
	n, next := openNode(t, crashdisk.New(), 1), uint32(0)
	defer n.close()
	one, two := item{"q1", "p", 0, []string{"=a"}}, item{"q2", "p", 0, []string{"=b"}}
	n.apply(10, ops(put("k", "1", 0)), pushOf(&next, 0, one, two))
	var g errgroup.Group
	done := make(chan struct{})
	g.Go(func() error {
		defer close(done)
		for i := 2; i <= entries; i++ {
			e := entry(stages.Micros(10*i), ops(put("k", fmt.Sprint(i), 0)), pushOf(&next, 0, one, two))
			if _, err := n.Apply(uint64(i), e); err != nil {
				return err
			}
		}
		return nil
	})
	g.Go(func() error {
		for {
			if err := n.Flush(); err != nil {
				return err
			}
			select {
			case <-done:
				return nil
			default:
			}
		}
	})
	for range 2 {
		g.Go(func() error {
			for last := int64(0); last < entries; {
				changed, safe := n.Changed(), n.Now()
				seen, err := n.oneView(safe)
				if err != nil {
					return err
				}
				if seen < last {
					return fmt.Errorf("entry %d after %d", seen, last)
				}
				if last = seen; last < entries {
					<-changed
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// oneView returns the entry that a view shows, or what does not fit together in it.
func (n *node) oneView(safe stages.Micros) (seen int64, err error) {
	var now stages.Micros
	var views [2]segment.View
	err = n.Read(func(r *state.Reader) error {
		row, _, err := r.Document(tenantOne, "n", "k")
		if err != nil {
			return err
		}
		_, _ = fmt.Sscan(string(row.Value), &seen)
		now = r.Safe()
		for i := range views {
			id := stages.QueueID(i + 1)
			p, _ := r.Partition(id, "p")
			if p.Next != seen || p.Last != now || now != stages.Micros(10*seen+1) || now < safe {
				return fmt.Errorf("document %d, partition %+v, now %d, safe time before %d", seen, p, now, safe)
			}
			views[i] = r.Segments(id)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for i, v := range views {
		frames := int64(0)
		for h, err := range v.Headers(0, now+1) {
			if err != nil {
				return 0, err
			}
			if h.Base != frames {
				return 0, fmt.Errorf("queue %d: frame %d begins at %d", i+1, frames, h.Base)
			}
			frames++
		}
		if frames != seen {
			return 0, fmt.Errorf("queue %d: %d frames in a view of entry %d", i+1, frames, seen)
		}
	}
	return seen, nil
}
