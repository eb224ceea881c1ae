package sink

import (
	"testing"
	"time"

	"queen/config"
	"queen/internal/fakes3"
)

// TestTakenFor: names that some reader re-types in a path, and names that look like them.
func TestTakenFor(t *testing.T) {
	for as, list := range map[string][]string{
		"NULL":      {"null", "NULL", "__HIVE_DEFAULT_PARTITION__"},
		"a boolean": {"true", "False"},
		"a number":  {"007", "0", "-5", "1e5", "1E-5", "3.14", ".5", "NaN", "-inf", "Infinity", "20240101"},
		"a date":    {"2024-01-01", "2024-1-1", "2024-01-01T10:00:00Z", "2024-01-01 10:00:00.5+02:00"},
		"":          {"orders", "t10", "1e", "e5", "v1.2.3", "1_000", "0x10", "nullable", "truely", "infinite", "2024-01", "2024-01-01-orders", "orders-2024-01-01", "10.0.0.1", "٣", "-", "."},
	} {
		for _, name := range list {
			if got := takenFor(name); got != as {
				t.Errorf("%q is taken for %q, want %q", name, got, as)
			}
		}
	}
}

// TestOddNames: a name that readers take for something else, or for another queue's, is one warning, when its queue is adopted first. A queue that is gone is like no other.
func TestOddNames(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, name := range []string{"2024-01-01", "Orders", "orders", "plain", "ÄRGER"} {
			w.mem.push(name, "p", 1)
		}
		l := w.start(func(c *config.Sink) { c.Queues, c.All = nil, true })
		warned := func(want map[string]int) {
			t.Helper()
			for text, n := range want {
				if got := w.logged(text); got != n {
					t.Errorf("%d times %s, want %d:\n%s", got, text, n, w.logs.String())
				}
			}
		}
		w.until(time.Minute, "all", func() bool {
			return l.k("orders") == 1 && l.k("Orders") == 1 && l.k("2024-01-01") == 1 && l.k("plain") == 1 && l.k("ÄRGER") == 1
		})
		warned(map[string]int{`"level":"warn"`: 3, `"queue":"2024-01-01","taken_for":"a date"`: 1, `"queue":"orders","other":"Orders"`: 1, `"queue":"Orders","other":"orders"`: 1})
		w.mem.drop("ÄRGER")
		w.until(time.Minute, "forgotten", func() bool { return len(l.report()["queues"].([]any)) == 4 })
		w.mem.push("ärger", "p", 1)
		w.mem.push("PLAIN", "p", 1)
		w.until(time.Minute, "new ones", func() bool { return l.k("ärger") == 1 && l.k("PLAIN") == 1 })
		warned(map[string]int{`"level":"warn"`: 4, `"queue":"PLAIN","other":"plain"`: 1})
		w.s3.Script(fakes3.Rule{Op: "put", Status: 403, Code: "AccessDenied", Times: 1}) // what fails is adopted again
		w.mem.push("2024-01-01", "p", 1)
		w.until(5*time.Minute, "window 2", func() bool { return l.k("2024-01-01") == 2 })
		if n := w.logged(`"queue":"2024-01-01","committed_k"`); n < 2 {
			t.Errorf("the queue was adopted %d times; the test does not test", n)
		}
		warned(map[string]int{"taken_for": 1, `"other"`: 3})
		l.stop()
	})
}
