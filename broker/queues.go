package broker

import (
	"queen/broker/state"
	"queen/stages"
)

// queues finds queues of one tenant in the applied state, for one sink.
type queues struct {
	state  *state.State
	tenant [16]byte
	sink   string
	bad    error // the tenant's name is no UUID: it has no queues
}

var _ stages.Queues = (*queues)(nil)

// Find returns the queue with this name. One that was deleted while a window of this sink was open comes first, until that window is real: it
// has to be finished before the sink goes on with whatever has the name now.
func (q *queues) Find(name string) (found stages.QueueInfo, ok bool) {
	if q.bad != nil {
		return found, false
	}
	err := q.state.Read(func(r *state.Reader) error {
		row, is, err := r.Hidden(q.tenant, q.sink, name)
		if err != nil {
			return err
		}
		if !is {
			row, is = r.Queue(q.tenant, name)
		}
		if is {
			found, ok = infoOf(r, row), true
		}
		return nil
	})
	return found, ok && err == nil
}

func infoOf(r *state.Reader, row *state.QueueRow) stages.QueueInfo {
	return stages.QueueInfo{ID: row.ID, Name: row.Name, Partitions: r.PartitionCount(row.ID), Key: row.Key.String()}
}

// List returns all queues in creation order, nil when the state has failed. Those that Find still shows although they were deleted come
// last: a sink of all queues has to finish their windows, too.
func (q *queues) List() []stages.QueueInfo {
	if q.bad != nil {
		return nil
	}
	var list []stages.QueueInfo
	err := q.state.Read(func(r *state.Reader) error {
		rows := r.Queues(q.tenant)
		list = make([]stages.QueueInfo, 0, len(rows))
		for _, row := range rows {
			list = append(list, infoOf(r, row))
		}
		kept, err := r.HiddenQueues(q.tenant, q.sink)
		for _, row := range kept {
			if _, again := r.Queue(q.tenant, row.Name); !again {
				list = append(list, infoOf(r, row))
			}
		}
		return err
	})
	if err != nil {
		return nil
	}
	return list
}
