package sink

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/config"
)

// created are the events that a bucket would send for data objects: one for each upload that ended well, as "<key> <sha256 of what was sent>". The hash of an upload
// in parts is not in its last request.
func (w *world) created() (events []string) {
	for _, r := range w.s3.Requests() {
		if (r.Op == "put" || r.Op == "multipart_complete") && r.Status == 200 && strings.Contains(r.Key, "/dt=") {
			events = append(events, r.Key+" "+r.SHA256)
		}
	}
	return events
}

// Whoever loads objects when the bucket tells of them hears of a redone window twice at most. What it hears is the same key and the same bytes, so that telling
// events apart by key is enough; and a window that was uploaded whole before the crash is not sent again.
func TestP50EventsOfARedo(t *testing.T) {
	for _, c := range []struct {
		point string
		most  int // events of a redone object
		large bool
	}{
		{"after_intent", 1, false}, {"mid_upload", 2, false}, {"after_upload", 1, false}, {"before_commit", 1, false}, {"after_commit", 1, false},
		{"mid_upload", 1, true}, {"before_commit", 1, true},
	} {
		t.Run(fmt.Sprintf("%s large %v", c.point, c.large), func(t *testing.T) {
			inWorld(t, func(w *world) {
				change := func(c *config.Sink) { c.Layout = "per-partition" }
				if c.large {
					change = large(w)
				} else {
					w.mem.push("orders", "p", 20)
					w.mem.push("orders", "q", 20)
				}
				l := w.start(func(s *config.Sink) { change(s); s.CrashAt = c.point })
				<-l.ended
				elapse(time.Second)
				l = w.start(change)
				w.until(2*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
				records := w.audit("orders")
				l.stop()
				heard := map[string][]string{}
				for _, event := range w.created() {
					key, sum, _ := strings.Cut(event, " ")
					heard[key] = append(heard[key], sum)
				}
				for key, sums := range heard {
					if len(sums) > c.most || len(slices.Compact(sums)) > 1 {
						t.Errorf("%d events of %s, want %d at most, all of the same bytes: %v", len(sums), key, c.most, sums)
					}
				}
				if want := map[bool]int{true: 1, false: 2}[c.large]; len(heard) != want || records == 0 {
					t.Errorf("events name the objects %v of a window of %d records; want %d", slices.Sorted(maps.Keys(heard)), records, want)
				}
			})
		})
	}
}
