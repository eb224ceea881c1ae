package broker

import (
	"errors"
	"fmt"
	"testing"

	"queen/stages"
)

// TestWindowsTile: windows whose ends lie on a stamp, or a microsecond behind one, are listed and committed, one after another, through the rows that the sink
// writes. Every append is in one listing; and once a window is committed nobody can list it again, for a late owner would put what it
// lists over the object.
func TestWindowsTile(t *testing.T) {
	b := start(t, options(t, t.TempDir()))
	f := fed{Broker: b, log: b.Log(stages.DefaultTenant)}
	for n := range 12 {
		f.stamps = append(f.stamps, mustPush(t, b, "a/b", "p", uint64(n), 1).Stamp)
	}
	f.queue, _ = b.Queues(stages.DefaultTenant, "lake").Find("a/b")
	f.put(t, "start", `{"start":"earliest"}`)
	listed := map[stages.Micros]int{}
	ends := []stages.Micros{f.stamps[3], f.stamps[5] + 1, f.stamps[9], f.stamps[11] + 1}
	for i, end := range ends {
		k := uint64(i + 1)
		f.put(t, "intent", fmt.Sprintf(`{"k":%d,"tStart":0,"tEnd":%d}`, k, end))
		list, err := f.log.Listing(t.Context(), f.queue.ID, "lake", k)
		if err != nil {
			t.Fatal(err)
		}
		err = f.log.Bodies(t.Context(), &list, list.Appends, func(_ int, body stages.Body) error {
			listed[body.Header().TS]++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		f.put(t, "committed", fmt.Sprintf(`{"k":%d,"tEnd":"%s"}`, k, end.ISO()))
		if again, err := f.log.Listing(t.Context(), f.queue.ID, "lake", k); !errors.Is(err, stages.ErrNoIntent) {
			t.Errorf("window %d is committed, and its listing still says %d appends: a late owner would put them over its %d",
				k, len(again.Appends), len(list.Appends))
		}
	}
	for i, ts := range f.stamps {
		switch n := listed[ts]; {
		case n == 0:
			t.Errorf("lost: append %d, stamped %d, is in no window", i, ts)
		case n > 1:
			t.Errorf("doubled: append %d, stamped %d, is in %d windows", i, ts, n)
		}
	}
}
