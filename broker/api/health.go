package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"queen/broker/raftnode"
	"queen/internal/exposition"
	"queen/internal/jsontext"
)

// root is GET /.
func (s *server) root(w http.ResponseWriter, _ *http.Request, _ []string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte("Queen " + s.o.Version + "\n"))
	return nil
}

// stopping reports whether the node is on its way out.
func (s *server) stopping() bool {
	select {
	case <-s.o.Stop:
		return true
	default:
		return false
	}
}

// health is GET /health: 200 when a client may send its requests here.
func (s *server) health(w http.ResponseWriter, _ *http.Request, _ []string) error {
	st := s.o.Broker.Status()
	word, status := "healthy", http.StatusOK
	ready := st.Ready || st.Role != "leader" && st.Leader != "" // a leader also has to take proposals
	if !ready || !s.settled() || st.Failure != "" || s.stopping() {
		word, status = "settling", http.StatusServiceUnavailable
	}
	b := member([]byte("{"), "status", word)
	b = append(b, `,"engine":"raft"`...)
	b = member(append(b, ','), "version", s.o.Version)
	b = appendRaft(append(b, `,"raft":`...), st)
	writeJSON(w, status, append(b, '}'))
	return nil
}

// appendRaft appends the block of /health and /metrics. Storage is ready when what is pushed can be stored: no error has ended that,
// and the disk has its reserve left.
func appendRaft(b []byte, st raftnode.Status) []byte {
	b = member(append(b, '{'), "role", st.Role)
	b = appendBool(append(b, `,"leader":`...), st.Role == "leader")
	b = appendInt(append(b, `,"term":`...), int64(st.Term))
	b = appendInt(append(b, `,"applied":`...), int64(st.Applied))
	b = appendInt(append(b, `,"commit":`...), int64(st.Commit))
	b = appendInt(append(b, `,"lag":`...), int64(st.Commit-min(st.Applied, st.Commit)))
	b = appendBool(append(b, `,"storageReady":`...), st.Failure == "" && !st.Full)
	b = append(b, `,"apply":{"failure":`...)
	if st.Failure == "" {
		b = append(b, "null"...)
	} else {
		b = jsontext.AppendQuoted(b, st.Failure)
	}
	return append(b, `,"skipped":[]}}`...)
}

// status is GET /status. The sink's block is its own; it holds no payload.
func (s *server) status(w http.ResponseWriter, _ *http.Request, _ []string) error {
	b := []byte(`{"status":"ok","engine":"raft"`)
	if s.o.Status != nil {
		if block := s.o.Status(); block != nil {
			text, err := json.Marshal(block)
			if err != nil {
				return fmt.Errorf("status of the sink: %w", err)
			}
			b = append(append(b, `,"s3":`...), text...)
		}
	}
	writeJSON(w, http.StatusOK, append(b, '}'))
	return nil
}

// gatherers are the broker's few gauges and the registries it was given.
func (s *server) gatherers() ([]prometheus.Gatherer, error) {
	own := prometheus.NewRegistry()
	for _, g := range []struct {
		kind  string
		value func() float64
	}{
		{"log", func() float64 { return float64(s.o.Broker.Status().LastLog) }},
		{"committed", func() float64 { return float64(s.o.Broker.Status().Commit) }},
		{"applied", func() float64 { return float64(s.o.Broker.Status().Applied) }},
	} {
		err := own.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "queen_raft_index",
			Help:        "Index of the newest raft entry in the log, committed, and applied.",
			ConstLabels: prometheus.Labels{"kind": g.kind},
		}, g.value))
		if err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	err := errors.Join(own.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "queen_raft_inflight",
		Help: "Commands that wait for raft or are in flight.",
	}, func() float64 { return float64(s.o.Broker.Status().Waiting) })),
		own.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "queen_raft_storage_full",
			Help: "1 while pushes are refused because the disk is nearly full.",
		}, func() float64 {
			if s.o.Broker.Status().Full {
				return 1
			}
			return 0
		})))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return append([]prometheus.Gatherer{own}, s.o.Gatherers...), nil
}

// prometheus is GET /metrics/prometheus, always in the text format 0.0.4 whatever the scraper would prefer.
func (s *server) prometheus(w http.ResponseWriter, _ *http.Request, _ []string) error {
	var text bytes.Buffer
	if err := exposition.Write(&text, s.metrics); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	w.Header().Set("Content-Type", exposition.ContentType)
	w.Write(text.Bytes())
	return nil
}
