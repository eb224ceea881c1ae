package raftnode

import (
	"io"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"
)

// expected are warnings that every start of a lone node makes: nothing is wrong then.
func expected(message string) bool {
	return message == "heartbeat timeout reached, starting election"
}

// logger returns raft's logger: what raft says goes to log at debug, its warnings and errors at their own level.
func logger(log zerolog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Output: io.Discard, Level: hclog.Off})
	l.RegisterSink(&logSink{log: log}) // a pointer: sinks are keys of a map
	return l
}

type logSink struct{ log zerolog.Logger }

var _ hclog.SinkAdapter = (*logSink)(nil)

// Accept writes one line.
func (s *logSink) Accept(_ string, level hclog.Level, message string, args ...any) {
	at := zerolog.DebugLevel
	switch {
	case level >= hclog.Error:
		at = zerolog.ErrorLevel
	case level == hclog.Warn && !expected(message):
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
