package lake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// broker answers the reads by offset from lines of a lake, two records a page.
type broker map[string][]string // partition -> lines, offset i at i

func (b broker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet { // of the queue itself: this one is older than its records
		fmt.Fprint(w, `{"id":"x","name":"orders","options":{"a":[1]},"createdAt":"2026-10-03T06:37:37.501942Z","partitions":[`)
		return // the answer does not have to be read to its end
	}
	var ask struct {
		Entries []struct {
			Queue, Partition, After string
			Offset                  int
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || len(ask.Entries) != 1 {
		http.Error(w, "bad body", http.StatusBadRequest)
		return
	}
	e := ask.Entries[0]
	if r.URL.Path == "/api/v1/partitions/changed" {
		var names []string
		for name := range b {
			names = append(names, fmt.Sprintf(`{"name":%q}`, name))
		}
		fmt.Fprintf(w, `{"entries":[{"queue":%q,"partitions":[%s],"next":null}]}`, e.Queue, strings.Join(names, ","))
		return
	}
	all := b[e.Partition]
	low := 0
	for low < len(all) && all[low] == "" {
		low++
	}
	var page []string
	for i := e.Offset; i < len(all) && i < e.Offset+2 && e.Offset >= low; i++ {
		page = append(page, strings.Replace(all[i], `"partition":`, `"p":`, 1))
	}
	fmt.Fprintf(w, `{"entries":[{"queue":%q,"partition":%q,"records":[%s],"highWatermark":%d,"logStartOffset":%d}]}`,
		e.Queue, e.Partition, strings.Join(page, ","), len(all), low)
}

// logOf is the log that the whole lake without its window 2 mirrors.
func logOf() (mem, broker) {
	l := strings.Split(lines1, "\n")
	return mem{}, broker{"cust-1": {l[0], l[1]}, "cust-2": {l[2]}}
}

func TestLog(t *testing.T) {
	young := `{"partition":"cust-1","offset":2,"transactionId":"t","ts":"2026-10-03T06:37:38.377855Z","payload":1}`
	late := strings.Replace(young, "38.377855", "38.377854", 1)
	cases := map[string]struct {
		change   func(b broker)
		compared int64
		want     string
	}{
		"same":                   {func(broker) {}, 3, ""},
		"younger records":        {func(b broker) { b["cust-1"] = append(b["cust-1"], young); b["cust-9"] = []string{young} }, 3, ""},
		"retention went on":      {func(b broker) { b["cust-1"][0] = "" }, 2, ""},
		"pretty payload":         {func(b broker) { b["cust-2"][0] = strings.Replace(b["cust-2"][0], `,"status"`, ",\n\"status\"", 1) }, 3, `has payload "{\"order\":2,\"status\"`},
		"other number":           {func(b broker) { b["cust-1"][1] = strings.Replace(b["cust-1"][1], "42.00", "42.0", 1) }, 3, "line 2 has payload"},
		"other transaction":      {func(b broker) { b["cust-1"][1] = strings.Replace(b["cust-1"][1], "7003", "7004", 1) }, 3, "line 2 has transactionId"},
		"other stamp":            {func(b broker) { b["cust-2"][0] = strings.Replace(b["cust-2"][0], "501942", "501943", 1) }, 3, "line 3 has ts"},
		"not in the log":         {func(b broker) { b["cust-1"] = b["cust-1"][:1] }, 2, "which the log does not have"},
		"not in the lake, end":   {func(b broker) { b["cust-1"] = append(b["cust-1"], late, young) }, 3, `lacks 1 record of partition "cust-1" that the log has, from offset 2`},
		"not in the lake, whole": {func(b broker) { b["cust-9"] = []string{late, late} }, 3, `lacks 2 records of partition "cust-9"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m, b := logOf()
			m.put(t, 1, lines1)
			c.change(b)
			server := httptest.NewServer(b)
			defer server.Close()
			s, faults := verify(t, m, Options{Log: HTTPLog{URL: server.URL + "/", Client: server.Client()}})
			if s.Compared != c.compared || strings.Contains(strings.Join(faults, "\n"), c.want) != true || (c.want == "") != (len(faults) == 0) {
				t.Errorf("compared %d, faults %q", s.Compared, faults)
			}
		})
	}
}

// A broker that cannot list partitions is compared as far as the lake knows them.
func TestLogWithoutPartitions(t *testing.T) {
	m, b := logOf()
	m.put(t, 1, lines1)
	b["cust-1"] = append(b["cust-1"], strings.Replace(b["cust-1"][1], `"offset":1`, `"offset":2`, 1))
	b["cust-9"] = []string{b["cust-1"][0]}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == changedPath {
			http.NotFound(w, r)
			return
		}
		b.ServeHTTP(w, r)
	}))
	defer server.Close()
	s, faults := verify(t, m, Options{Log: HTTPLog{URL: server.URL, Client: server.Client()}})
	if s.Compared != 3 || len(faults) != 1 || !strings.Contains(faults[0], `lacks 1 record of partition "cust-1"`) {
		t.Errorf("%d compared, %q", s.Compared, faults)
	}
}

func TestLogUnreachable(t *testing.T) {
	m := whole(t)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, err := Verify(t.Context(), m, Options{Prefix: "queen", Log: HTTPLog{URL: server.URL, Client: server.Client()}}, func(Fault) {})
	if err == nil || !strings.Contains(err.Error(), "answered 404") {
		t.Errorf("%v", err)
	}
}
