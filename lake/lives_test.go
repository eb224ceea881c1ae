package lake

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The second life of the queue: window 2 of the lake has a record of its partition cust-1, which begins at 0 again.
const (
	secondBorn = "2026-10-03T06:50:00.000000Z"
	second0    = `{"partition":"cust-1","offset":0,"transactionId":"n0","ts":"2026-10-03T06:50:00.000000Z","payload":10}`
	second1    = `{"partition":"cust-1","offset":1,"transactionId":"n1","ts":"2026-10-03T06:51:00.000000Z","payload":11}`
	secondTwo  = `{"partition":"cust-2","offset":0,"transactionId":"n2","ts":"2026-10-03T06:52:00.000000Z","payload":12}`
)

// twice is a lake of two lives of one queue, as two windows.
func twice(t *testing.T, lines ...string) mem {
	t.Helper()
	m := mem{}
	m.put(t, 1, lines1)
	text := strings.Join(lines, "\n") + "\n"
	m[key2] = packGzip(t, text, "")
	m[sides+"0000000002.json"] = []byte(manifest(2, "1791009458377855", "1791010800000000", "gzip", key2, m[key2], len(lines), 1, "1791010200000000", "1791010260000000", ""))
	return m
}

// A queue that was deleted and made again: the log has its last life alone. What the lake has of earlier ones is no fault and is counted, and the last one is compared as
// ever: what it lacks or has otherwise is said, also where an earlier life had more records.
func TestLogOfAQueueMadeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		lake     []string
		log      broker
		born     string
		compared int64
		earlier  int64
		want     string
	}{
		"same":                         {[]string{second0, second1}, broker{"cust-1": {second0, second1}}, secondBorn, 2, 3, ""},
		"other payload":                {[]string{second0, second1}, broker{"cust-1": {second0, strings.Replace(second1, ":11", ":12", 1)}}, secondBorn, 2, 3, "line 2 has payload"},
		"lacks a partition":            {[]string{second0, second1}, broker{"cust-1": {second0, second1}, "cust-2": {secondTwo}}, secondBorn, 2, 3, `lacks 1 record of partition "cust-2" that the log has, from offset 0`},
		"lacks the end":                {[]string{second0, second1}, broker{"cust-1": {second0, second1, strings.Replace(second1, `"offset":1`, `"offset":2`, 1)}}, secondBorn, 2, 3, `lacks 1 record of partition "cust-1" that the log has, from offset 2`},
		"not made again":               {[]string{second0, second1}, broker{"cust-1": {second0, second1}}, "2026-10-03T06:00:00.000000Z", 4, 0, "line 1 has transactionId"},
		"a broker that does not tell":  {[]string{second0, second1}, broker{"cust-1": {second0, second1}}, "", 4, 0, "line 1 has transactionId"},
		"only earlier lives in a lake": {nil, broker{"cust-1": {second0}}, secondBorn, 0, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := mem{}
			m.put(t, 1, lines1)
			if c.lake != nil {
				m = twice(t, c.lake...)
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method != http.MethodGet:
					c.log.ServeHTTP(w, r)
				case c.born == "" || r.URL.EscapedPath() != "/api/v1/resources/queues/orders":
					http.NotFound(w, r)
				default:
					fmt.Fprintf(w, `{"name":"orders","createdAt":%q}`, c.born)
				}
			}))
			defer server.Close()
			s, faults := verify(t, m, Options{Log: HTTPLog{URL: server.URL, Client: server.Client()}})
			if s.Compared != c.compared || s.Earlier != c.earlier || !strings.Contains(strings.Join(faults, "\n"), c.want) || (c.want == "") != (len(faults) == 0) {
				t.Errorf("compared %d, %d of earlier lives, faults %q", s.Compared, s.Earlier, faults)
			}
			if c.earlier > 0 && !strings.Contains(s.String(), "3 of a queue that was deleted since") {
				t.Errorf("the summary does not say it: %s", s)
			}
		})
	}
}
