package state

import (
	"errors"
	"fmt"
	"math"

	"queen/broker/command"
	"queen/stages"
)

// maxLed is the most that one command adds to the led clock (contract R4, docs/formats.md section 2).
const maxLed = stages.Micros(1_000_000)

// step is one decoded command: the time that was proposed for it and what it does.
type step struct {
	time stages.Micros
	do   effect
}

// effect is what a command does when the clock stands at tx.now. It is decoded, checked and as far as possible computed before
// the lock is taken. The result goes to who proposed the command.
type effect interface {
	apply(tx *transaction) (result any, err error)
}

// Apply applies the raft entry at an index and returns one result per command: *PushResult, *kv.Outcome, *QueueRow, *Retained, *Deleted, or nil for
// the kinds without one. An index that is not above Applied does nothing and returns no results. Only one goroutine calls it,
// with rising indexes. An error names the index and is final: the node has to stop.
func (s *State) Apply(index uint64, entry []byte) ([]any, error) {
	if index <= s.Applied() {
		return nil, nil
	}
	steps, err := decode(entry)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil && s.broken() {
		s.fail(s.cause)
	}
	if s.failed != nil {
		return nil, s.failed
	}
	var results []any
	if err == nil {
		results, err = s.applySteps(index, steps)
	}
	if err != nil {
		return nil, s.fail(fmt.Errorf("apply raft index %d: %w", index, err))
	}
	s.publish(len(entry))
	return results, nil
}

// applySteps does what an entry says, up to the commit of its rows.
func (s *State) applySteps(index uint64, steps []step) ([]any, error) {
	tx := s.begin()
	defer tx.close()
	results := make([]any, len(steps))
	for i, st := range steps {
		if err := s.meta.step(st.time); err != nil {
			return nil, fmt.Errorf("command %d: %w", i, err)
		}
		var err error
		if results[i], err = st.do.apply(tx); err != nil {
			return nil, fmt.Errorf("command %d: %w", i, err)
		}
	}
	s.meta.applied = index
	if err := tx.sweep(); err != nil {
		return nil, err
	}
	if err := tx.appendFrames(); err != nil {
		return nil, err
	}
	if err := tx.storeIDs(); err != nil {
		return nil, err
	}
	return results, tx.commit()
}

// step moves the clocks by one command.
func (m *meta) step(proposed stages.Micros) error {
	if m.now == math.MaxInt64 {
		return errors.New("the log clock is at its end")
	}
	before := m.now
	m.now = max(proposed, before+1)
	if before != 0 { // the first command of a store adds nothing
		m.led += min(m.now-before, maxLed)
	}
	return nil
}

// decode turns an entry into steps. It looks at nothing but the bytes.
func decode(entry []byte) ([]step, error) {
	commands, err := command.Decode(entry)
	if err != nil {
		return nil, err
	}
	steps := make([]step, len(commands))
	for i, c := range commands {
		do, err := decodeEffect(c)
		if err != nil {
			return nil, fmt.Errorf("command %d (%v): %w", i, c.Kind, err)
		}
		steps[i] = step{time: c.Time, do: do}
	}
	return steps, nil
}

// Check says whether a command could be applied: one that could not would stop every node at its entry.
func Check(kind command.Kind, body []byte) error {
	_, err := decodeEffect(command.Command{Kind: kind, Body: body})
	return err
}

func decodeEffect(c command.Command) (effect, error) {
	switch c.Kind {
	case command.KindFound:
		seed, err := command.DecodeFound(c.Body)
		return found{seed}, err
	case command.KindTick:
		if len(c.Body) > 0 {
			return nil, fmt.Errorf("tick with a body of %d bytes", len(c.Body))
		}
		return tick{}, nil
	case command.KindPush:
		return decodePush(c.Body)
	case command.KindKV:
		body, err := command.DecodeKV(c.Body)
		return documents{body}, err
	case command.KindConfigure:
		body, err := command.DecodeConfigure(c.Body)
		return configure{body}, err
	case command.KindRetain:
		body, err := command.DecodeRetain(c.Body)
		return retain{body}, err
	case command.KindDelete:
		body, err := command.DecodeDelete(c.Body)
		return deletion{body}, err
	}
	return nil, fmt.Errorf("%v: %w", c.Kind, command.ErrVersion)
}

// tick moves the clock and nothing else, so that safeTime rises while nothing is pushed.
type tick struct{}

func (tick) apply(*transaction) (any, error) { return nil, nil }

// found gives the cluster its seed, once: of two leaders that both found it, the first in the log does, and both have its seed then.
type found struct{ seed [16]byte }

func (f found) apply(tx *transaction) (any, error) {
	if m := &tx.s.meta; m.seed == [16]byte{} {
		m.seed, tx.s.ids.Seed = f.seed, f.seed
	}
	return nil, nil
}

// Static assertions: what commands do.
var (
	_ effect = tick{}
	_ effect = found{}
	_ effect = (*push)(nil)
	_ effect = documents{}
	_ effect = configure{}
	_ effect = retain{}
	_ effect = deletion{}
)
