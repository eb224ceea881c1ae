// Package logline makes the logger of a process and writes its lines: `time LEVEL component: message key=value`, or one JSON
// object a line. Programs read these lines (contract S12), so their shape is fixed here and nowhere else.
//
// It decides nothing about what is logged. Every package gets a zerolog.Logger handed to it, with its component set by Named.
package logline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Component is the field that names who speaks: queen-s3 for the sink, boot, broker.
const Component = "component"

// timeLayout is the stamp of a line: UTC, milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z"

// New returns the logger of a process, at level info. Lines go to w, one Write each; asJSON picks the other shape.
func New(w io.Writer, asJSON bool, now func() time.Time) zerolog.Logger {
	if !asJSON {
		w = &writer{to: w}
	}
	return zerolog.New(zerolog.SyncWriter(w)).Level(zerolog.InfoLevel).Hook(stamp{now})
}

// Named returns log speaking for a component.
func Named(log zerolog.Logger, component string) zerolog.Logger {
	return log.With().Str(Component, component).Logger()
}

// stamp puts the time of the injected clock into every event.
type stamp struct{ now func() time.Time }

var _ zerolog.Hook = stamp{}

// Run implements zerolog.Hook.
func (s stamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, s.now().UTC().Format(timeLayout))
}

// writer turns zerolog's JSON into text lines. Keys keep the order in which they were added.
type writer struct {
	to   io.Writer
	line bytes.Buffer
	mu   sync.Mutex
}

var _ io.Writer = (*writer)(nil)

// Write implements io.Writer: event is one JSON object. An event that is none is written as it is, rather than lost.
func (w *writer) Write(event []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, err := read(event)
	if err != nil {
		return w.to.Write(event)
	}
	w.line.Reset()
	fmt.Fprintf(&w.line, "%s %s ", l.time, strings.ToUpper(l.level))
	if l.component != "" {
		fmt.Fprintf(&w.line, "%s: ", l.component)
	}
	w.line.WriteString(l.message)
	for _, pair := range l.pairs {
		fmt.Fprintf(&w.line, " %s=%s", pair[0], pair[1])
	}
	w.line.WriteByte('\n')
	if _, err := w.to.Write(w.line.Bytes()); err != nil {
		return 0, err
	}
	return len(event), nil
}

type line struct {
	time, level, component, message string
	pairs                           [][2]string
}

// read takes an event apart.
func read(event []byte) (line, error) {
	l := line{level: "info"}
	dec := json.NewDecoder(bytes.NewReader(event))
	if _, err := dec.Token(); err != nil {
		return l, fmt.Errorf("log event: %w", err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return l, fmt.Errorf("log event: %w", err)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return l, fmt.Errorf("log event: %w", err)
		}
		l.add(fmt.Sprint(key), raw)
	}
	return l, nil
}

func (l *line) add(key string, raw json.RawMessage) {
	text := string(raw)
	if raw[0] == '"' {
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
	}
	switch key {
	case zerolog.TimestampFieldName:
		l.time = text
	case zerolog.LevelFieldName:
		l.level = text
	case Component:
		l.component = text
	case zerolog.MessageFieldName:
		l.message = oneLine(text)
	default:
		if raw[0] == '"' {
			text = value(text)
		}
		l.pairs = append(l.pairs, [2]string{key, text})
	}
}

// value quotes a string that would not be read back as one word.
func value(text string) string {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '"' || r == '=' || r == 0x7f || r == '\uFFFD' }) {
		return strconv.Quote(text)
	}
	return text
}

// oneLine keeps control bytes of a message from making a second line.
func oneLine(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return text
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}
