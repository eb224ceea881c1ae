package sink

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/config"
	"queen/stages"
	"queen/upload"
)

// beyond is a whole number that no float64 holds: whoever reads it as one shows its neighbour.
const beyond = 1<<53 + 1

// What people see of a sink is exact: a window's number, offsets and counts above 2^53 are in status, in the log, in the manifest and in the object as they are, and so is a
// number in a payload.
func TestP60NoIntegerIsRounded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.kv.Put(committedKey, fmt.Sprintf(`{"k":%d,"tEnd":"1999-12-31T23:00:00.000000Z","manifest":"m","records":1,"bytes":1,"committedAtMs":1}`, beyond-1), 0)
		w.mem.push("orders", "p", 1) // there is a partition
		w.mem.from("orders", "p", beyond)
		w.mem.push("orders", "p", 2)
		w.mem.trim("orders")
		w.mem.push("orders", "p", 1)
		l := w.start(func(c *config.Sink) { c.Compression = "none" })
		w.until(time.Minute, "the window", func() bool { return w.logged(`"window committed"`) == 1 })
		if text := statusText(t, l.s); !strings.Contains(text, fmt.Sprintf(`"k": %d,`, beyond)) {
			t.Errorf("status rounds k: %s", text)
		}
		for _, want := range []string{fmt.Sprintf(`"k":%d,"records":1`, beyond), fmt.Sprintf(`"from":%d,"to":%d`, beyond, beyond+1)} {
			if w.logged(want) != 1 {
				t.Errorf("the log does not say %s:\n%s", want, w.logs.String())
			}
		}
		manifest, _ := w.s3.Object(upload.ManifestKey("queen", stages.DefaultTenant, "orders", beyond))
		for _, want := range []string{fmt.Sprintf(`"k":%d,`, beyond), fmt.Sprintf(`{"partition":"p","from":%d,"to":%d}`, beyond, beyond+1)} {
			if !strings.Contains(string(manifest), want) {
				t.Errorf("the manifest rounds: want %s in %s", want, manifest)
			}
		}
		lines := ""
		for _, key := range w.s3.Keys() {
			if strings.Contains(key, fmt.Sprintf("/w-%d-", beyond)) {
				data, _ := w.s3.Object(key)
				lines += string(data)
			}
		}
		if !strings.Contains(lines, fmt.Sprintf(`"offset":%d,`, beyond+2)) || !strings.Contains(lines, fmt.Sprintf(`"n":%d.50`, beyond+2)) {
			t.Errorf("the object rounds an offset or a payload: %s", lines)
		}
		l.stop()
	})
}

// from has the next record of a partition get this offset.
func (m *memory) from(queue, partition string, offset int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queue(queue)
	q.next[q.parts[partition]] = offset
}
