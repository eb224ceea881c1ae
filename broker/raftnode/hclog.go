package raftnode

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

// expected are warnings and errors that a node makes when nothing is wrong: a lone node at every start, one of several at every stop of
// another, and what this package tells itself (lead, watchLeader).
func expected(message string, args []any) bool {
	switch message {
	case "heartbeat timeout reached, starting election", "no known peers, aborting election", "failed to decode incoming command", "peer has newer term, stopping replication",
		"appendEntries rejected, sending older logs", "rejecting pre-vote request since we have a leader", "rejecting vote request since we have a leader":
		return true
	case "failed to get previous log", "failed to get log": // of a node that is behind; anything else is damage
		return slices.ContainsFunc(args, func(a any) bool { err, ok := a.(error); return ok && errors.Is(err, raft.ErrLogNotFound) })
	}
	return false
}

// absentPeer are messages about a node that does not answer. raft repeats them several times a second and a node.
func absentPeer(message string) bool {
	switch message {
	case "failed to appendEntries to", "failed to heartbeat to", "failed to contact", "failed to make requestVote RPC", "failed to make prevote RPC", "failed to pipeline appendEntries",
		"failed to start pipeline replication to", "unable to get address for server, using fallback address", "failed to make requestPreVote RPC":
		return true
	}
	return false
}

// absentEvery is how often a node that does not answer is named.
const absentEvery = 30 * time.Second

// logger returns raft's logger: what raft says goes to log at debug, its warnings and errors at their own level.
func logger(log zerolog.Logger, now func() time.Time) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Output: io.Discard, Level: hclog.Off})
	l.RegisterSink(&logSink{log: log, now: now}) // a pointer: sinks are keys of a map
	return l
}

type logSink struct {
	log zerolog.Logger
	now func() time.Time

	mu   sync.Mutex
	said map[string]time.Time // by peer
}

var _ hclog.SinkAdapter = (*logSink)(nil)

// Accept writes one line.
func (s *logSink) Accept(_ string, level hclog.Level, message string, args ...any) {
	at := zerolog.DebugLevel
	switch {
	case expected(message, args):
	case absentPeer(message):
		s.sayAbsent(args)
	case level >= hclog.Error:
		at = zerolog.ErrorLevel
	case level == hclog.Warn:
		at = zerolog.WarnLevel
	}
	e := s.log.WithLevel(at)
	if e == nil || s.log.GetLevel() > at {
		return
	}
	for i := 0; i+1 < len(args); i += 2 {
		key, ok := args[i].(string)
		if !ok {
			continue
		}
		switch v := args[i+1].(type) {
		case error:
			e = e.AnErr(key, v)
		case hclog.Format:
			e = e.Interface(key, v[1:])
		default:
			e = e.Interface(key, v)
		}
	}
	e.Msg(message)
}

// sayAbsent names a node that does not answer, now and then.
func (s *logSink) sayAbsent(args []any) {
	id, why := "", error(nil)
	for i := 0; i+1 < len(args); i += 2 {
		switch v := args[i+1].(type) {
		case raft.Server:
			id = string(v.ID)
		case raft.ServerID:
			id = string(v)
		case error:
			why = v
		}
	}
	if id == "" { // a line about the same that names only an address
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if last, ok := s.said[id]; ok && now.Sub(last) < absentEvery {
		return
	}
	if s.said == nil {
		s.said = map[string]time.Time{}
	}
	s.said[id] = now
	s.log.Warn().Str("node", id).AnErr("why", why).Msg("another node of the cluster does not answer: it is asked again; see whether it runs, and whether its raft port can be reached from here")
}
