package broker

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"queen/broker/command"
	"queen/stages"
)

// names returns what the list of all queues shows a sink.
func (a *audit) names(sink string) []string {
	var names []string
	for _, q := range (&queues{state: a.n.State, tenant: a.tenant(), sink: sink}).List() {
		names = append(names, q.Name)
	}
	return names
}

// TestDeletedQueueIsOfWhoHasItsWindow: a queue that is deleted while a window is open is there for the sink of that window, also in the list of all
// queues, which is what a sink of `*` finds it by after a restart; and for nobody else, who would have its records in an object and in `lost`.
func TestDeletedQueueIsOfWhoHasItsWindow(t *testing.T) {
	a := newAudit(t, 1)
	defer func() { a.n.close() }()
	open, behind := a.lakes[0], a.lakes[1] // of one queue
	a.push(open.queue)
	for _, l := range []*lake{open, behind} {
		a.put(l, "start", `{"start":"earliest","wait":0}`)
	}
	a.at += 1_000_000
	a.apply(command.KindTick, nil)
	info, _ := a.find(open.sink, open.queue)
	a.begin(open, a.n.Now())
	a.list(open)
	a.apply(command.KindDelete, command.Delete{Tenant: a.tenant(), Queue: open.queue}.Append(nil))
	a.crash()
	a.put(behind, "intent", fmt.Sprintf(`{"k":1,"tStart":0,"tEnd":%d}`, open.end))
	if _, err := a.log().Listing(t.Context(), info.ID, behind.sink, 1); !errors.Is(err, errNoQueue) {
		t.Errorf("a window of another sink, listed in the deleted queue: %v", err)
	}
	if got := a.names(open.sink); !slices.Equal(got, []string{open.queue}) {
		t.Errorf("the list of all queues, for who has a window open: %q", got)
	}
	if got := a.names(behind.sink); len(got) > 0 {
		t.Errorf("the list of all queues, for another sink: %q", got)
	}
	a.push(open.queue) // there is one of the name again
	for _, sink := range []string{open.sink, behind.sink} {
		if got := a.names(sink); !slices.Equal(got, []string{open.queue}) {
			t.Errorf("the list of all queues with a new one of the name, for %s: %q", sink, got)
		}
	}
	a.list(open)
	a.commit(open)
	if is, _ := a.find(open.sink, open.queue); is.ID == info.ID {
		t.Error("the deleted queue is still shown when its window is real")
	}
	if open.lost > 0 || len(open.got) == 0 {
		t.Errorf("%d records lost, %d in objects", open.lost, len(open.got))
	}
	list, err := a.log().Listing(t.Context(), mustFind(a, behind), behind.sink, 1)
	if err != nil || list.Records != 0 || len(list.Lost) == 0 {
		t.Errorf("what the other sink did not read: %d records, lost %v, %v", list.Records, list.Lost, err)
	}
}

func mustFind(a *audit, l *lake) stages.QueueID {
	info, ok := a.find(l.sink, l.queue)
	if !ok {
		a.t.Fatal("no queue of the name")
	}
	return info.ID
}
