package state

import (
	"fmt"

	"queen/broker/dedup"
	"queen/stages"
)

// A boot reads so many transaction ids as it has time for (loadFilters). The filters of the others are made behind it by one goroutine, which
// reads rows without the lock: what is pushed meanwhile is looked for on disk, and must not wait for this too. So are those for which there was no
// memory, once an hour of ids has gone.

// wantedEvery is after how many bytes of rows it is asked whether they are needed still.
const wantedEvery = 4 << 20

// startRefill makes the filters that are missing, of ids that may still be asked for, in the order of the queues.
func (s *State) startRefill(ids []stages.QueueID) {
	var missing []stages.QueueID
	for _, id := range ids {
		if q := s.queues[id]; q.ids.Missing(s.oldestIDs(q)) {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return
	}
	s.refills.Go(func() {
		for _, id := range missing {
			for more := true; more; {
				var err error
				if more, err = s.refill(id); err != nil {
					_ = s.stop(fmt.Errorf("transaction ids of queue %d: %w", id, err)) // it tells the owner
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
func (s *State) refill(id stages.QueueID) (more bool, err error) {
	s.mu.Lock()
	var r *dedup.Refill
	if q := s.queues[id]; q != nil && s.failed == nil {
		r = q.ids.Refill(s.oldestIDs(q))
	}
	s.mu.Unlock()
	if r == nil {
		return false, nil
	}
	var fault error
	wanted, left := true, 0
	err = s.rows(r.From, r.To, func(key, row []byte) bool {
		if left -= len(row); left <= 0 { // seldom: an entry that is being applied takes long while a filter is missing
			wanted, left = s.wanted(r), wantedEvery
		}
		if r.Full() {
			s.growFilter(r)
		}
		fault = r.Add(key, row)
		return fault == nil && wanted
	})
	if err == nil && fault != nil {
		err = fmt.Errorf("%w: %w", stages.ErrDamaged, fault)
	}
	if err != nil || !wanted {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Done()
	return true, nil
}

// growFilter makes room in a filter.
func (s *State) growFilter(r *dedup.Refill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Wanted() { // else its memory was given back
		r.Grow()
	}
}

// wanted reports whether a filter is still needed, and the state goes on.
func (s *State) wanted(r *dedup.Refill) bool {
	select {
	case <-s.closing:
		return false
	default:
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.failed == nil && r.Wanted()
}
