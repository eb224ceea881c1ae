package raftnode

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"github.com/hashicorp/raft"
)

// terms is the stable store as raft sees it: term and vote. raft panics when it can't store a term, and only logs when it can't store a
// vote. Here an error ends the node in order: whether the disk has what was written is unknown, so that raft must not go on either way.
type terms struct {
	raft.StableStore
	fatal func(error)
}

// SetUint64 stores the term, or the term of a vote. A term that is stored already is not written again: raft sets at boot the one that
// it has just read, and whoever boots has to come back from here.
func (t *terms) SetUint64(key []byte, value uint64) error {
	if have, err := t.GetUint64(key); err == nil && have == value && string(key) == currentTerm {
		return nil
	}
	return t.stored(key, t.StableStore.SetUint64(key, value))
}

// Set stores who was voted for.
func (t *terms) Set(key, value []byte) error { return t.stored(key, t.StableStore.Set(key, value)) }

// stored returns an error only where raft can live with it: a vote for which the disk has no room is not given. Any other ends the
// goroutine, which would panic or go on as if nothing had been; what it deferred runs, so that raft can be shut down.
func (t *terms) stored(key []byte, err error) error {
	if err == nil || errors.Is(err, syscall.ENOSPC) && string(key) != currentTerm {
		return err
	}
	t.fatal(fmt.Errorf("raft log: store %s: %w", key, err))
	runtime.Goexit()
	return err
}
