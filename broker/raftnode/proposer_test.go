package raftnode

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"queen/broker/command"
	"queen/stages"
)

// oneEntry is a log that keeps the entry it is given and never answers.
type oneEntry struct{ got chan []byte }

func (l oneEntry) Apply(entry []byte, _ time.Duration) raft.ApplyFuture {
	l.got <- entry
	return endless{}
}

// endless is answered when the test is over: with an error, which nobody waits for.
type endless struct{ raft.ApplyFuture }

func (endless) Error() error { return errors.New("over") }

// TestBodyIsTheCallersAgain: a caller gives up while its command is being packed, and writes over the body as soon as Propose
// returned. The entry holds what was proposed. (Run with -race this is told even when the bytes happen to be right.)
func TestBodyIsTheCallersAgain(t *testing.T) {
	packing := make(chan struct{})
	log := oneEntry{got: make(chan []byte, 1)}
	returned := make(chan struct{})
	now := func() stages.Micros { // the moment between taking a command and encoding it
		close(packing)
		select {
		case <-returned: // must not be: the body has not been read yet
		case <-time.After(50 * time.Millisecond):
		}
		return 1
	}
	p := newProposer(log, now, func() bool { return true })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { p.pack(ctx); close(done) }()
	caller, giveUp := context.WithCancel(t.Context())
	go func() { <-packing; giveUp() }()
	body := []byte("what was proposed")
	_, err := p.propose(caller, command.KindPush, [16]byte{}, body)
	copy(body, "something else...")
	close(returned)
	if !errors.Is(err, ErrUnclear) {
		t.Errorf("a command that was packed: %v", err)
	}
	commands, err := command.Decode(<-log.got)
	if err != nil || len(commands) != 1 || string(commands[0].Body) != "what was proposed" {
		t.Errorf("the entry holds %v, %v", commands, err)
	}
	stop()
	<-done
	p.answer()
}
