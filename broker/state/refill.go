package state

import (
	"fmt"

	"queen/broker/dedup"
	"queen/stages"
)

// A boot reads so many transaction ids as it has time for (loadFilters). The filters of the others are made behind it by one goroutine, which
// reads rows without the lock and takes it for each few thousand ids.

// refillStep is how many ids are noted under one lock: a push waits for them, some hundred microseconds.
const refillStep = 4096

// startRefill makes the filters that are missing, of ids that may still be asked for.
func (s *State) startRefill() {
	var queues []*queue
	for _, id := range (&Reader{s: s}).QueueIDs() {
		if q := s.queues[id]; q.ids.Missing(s.oldestIDs(q)) {
			queues = append(queues, q)
		}
	}
	if len(queues) == 0 {
		return
	}
	s.refills.Go(func() {
		for _, q := range queues {
			for more := true; more; {
				var err error
				if more, err = s.refill(q); err != nil {
					_ = s.stop(fmt.Errorf("transaction ids of queue %d: %w", q.row.ID, err)) // it says so itself
					return
				}
			}
		}
	})
}

// oldestIDs returns the oldest bucket that pushes to a queue look into.
func (s *State) oldestIDs(q *queue) uint32 {
	return dedup.BucketOf(max(s.meta.now-q.idTimes().window, 0))
}

// refill makes one filter of a queue. It reports whether there may be more to do.
func (s *State) refill(q *queue) (more bool, err error) {
	s.mu.Lock()
	var r *dedup.Refill
	if s.failed == nil {
		r = q.ids.Refill(s.oldestIDs(q))
	}
	s.mu.Unlock()
	if r == nil {
		return false, nil
	}
	var places []dedup.Place
	var fault error
	more = true
	err = s.rows(r.From, r.To, func(key, row []byte) bool {
		if places, fault = r.Places(places, key, row); fault != nil {
			return false
		}
		if len(places) >= refillStep {
			more = s.noteRefill(r, places)
			places = places[:0]
		}
		return more
	})
	if err == nil && fault != nil {
		err = fmt.Errorf("%w: %w", stages.ErrDamaged, fault)
	}
	if err != nil || !more || !s.noteRefill(r, places) {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Done()
	return true, nil
}

// noteRefill notes ids. It reports false when the filter is needed no more, or the state ends.
func (s *State) noteRefill(r *dedup.Refill, places []dedup.Place) bool {
	select {
	case <-s.closing:
		return false
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed == nil && r.Add(places)
}
