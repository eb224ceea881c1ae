package api

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"syscall"
)

// figures is GET /metrics: a few numbers of this process. Rates are means since its start, a second.
func (s *server) figures(w http.ResponseWriter, _ *http.Request, _ []string) error {
	uptime := s.o.Now().Sub(s.started).Seconds()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	b := appendFloat([]byte(`{"uptime":`), uptime)
	b = appendCount(append(b, `,"requests":`...), s.requests.Load(), uptime)
	b = appendCount(append(b, `,"messages":`...), s.messages.Load(), uptime)
	b = appendInt(append(b, `,"memory":{"rss":`...), resident())
	b = appendInt(append(b, `},"cpu":{"user":`...), use.Utime.Nano()/1000) // microseconds
	b = appendInt(append(b, `,"system":`...), use.Stime.Nano()/1000)
	b = appendRaft(append(b, `},"engine":"raft","raft":`...), s.o.Broker.Status())
	writeJSON(w, http.StatusOK, append(b, '}'))
	return nil
}

func appendCount(b []byte, total int64, seconds float64) []byte {
	rate := 0.0
	if seconds > 0 {
		rate = float64(total) / seconds
	}
	b = appendInt(append(b, `{"total":`...), total)
	return append(appendFloat(append(b, `,"rate":`...), rate), '}')
}

func appendFloat(b []byte, f float64) []byte { return strconv.AppendFloat(b, f, 'f', 3, 64) }

// resident is the memory that this process occupies, bytes; 0 where the system does not tell.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
