package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestFigures(t *testing.T) {
	now := time.Unix(1_000_000_000, 0)
	f := newFixture(t, func(o *Options) { o.Now = func() time.Time { return now } })
	two := `{"items":[{"queue":"q","payload":1,"transactionId":"a"},{"queue":"q","payload":2,"transactionId":"b"}]}`
	f.ok(t, http.StatusCreated, "POST", "/api/v1/push", two)
	f.ok(t, http.StatusCreated, "POST", "/api/v1/push", two) // duplicates are not messages
	now = now.Add(4 * time.Second)
	var got struct {
		Uptime             float64
		Requests, Messages struct {
			Total int64
			Rate  float64
		}
		Memory struct{ RSS int64 }
		CPU    struct{ User, System int64 }
		Engine string
		Raft   struct {
			Role         string
			Applied      int64
			StorageReady bool
		}
	}
	text := f.ok(t, http.StatusOK, "GET", "/metrics", "")
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(text, err)
	}
	if got.Uptime != 4 || got.Requests.Total != 3 || got.Requests.Rate != 0.75 || got.Messages.Total != 2 || got.Messages.Rate != 0.5 ||
		got.Memory.RSS < 1<<20 || got.CPU.User+got.CPU.System <= 0 || got.Engine != "raft" || got.Raft.Role != "leader" ||
		got.Raft.Applied != 7 || !got.Raft.StorageReady {
		t.Errorf("%s", text)
	}
}

// A disk that is nearly full refuses pushes and nothing else: the node is healthy, and says that it cannot store.
func TestFullDiskShows(t *testing.T) {
	f := newFixture(t, nil)
	f.report.Full = true
	if text := f.ok(t, http.StatusOK, "GET", "/health", ""); !strings.Contains(text, `"status":"healthy"`) || !strings.Contains(text, `"storageReady":false`) {
		t.Error(text)
	}
	if text := f.ok(t, http.StatusOK, "GET", "/metrics/prometheus", ""); !strings.Contains(text, "queen_raft_storage_full 1\n") {
		t.Error(text)
	}
	f.report.Full = false
	if text := f.ok(t, http.StatusOK, "GET", "/health", ""); !strings.Contains(text, `"storageReady":true`) {
		t.Error(text)
	}
}
