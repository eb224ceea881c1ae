package raftnode

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"queen/stages"
)

// Machine is the state that entries are applied to. Only one goroutine calls Apply.
type Machine interface {
	// Apply applies the entry with this raft index and returns one result per command in it. An index at or below Applied
	// changes nothing. An error means that the state cannot go on; it names the index.
	Apply(index uint64, entry []byte) ([]any, error)
	// Applied returns the index of the newest entry that the state holds. It may lie below what is stored on disk.
	Applied() uint64
	// Now returns the log clock after that entry.
	Now() stages.Micros
}

// errBroken answers what comes after an error of the machine: the entry is in the log, and is applied after a restart.
var errBroken = errors.New("the state stopped at an error")

// outcome is what the machine made of one entry.
type outcome struct {
	results []any
	err     error
}

// machine is the raft.FSM around a Machine. It stops at the first error: what follows in the log must not be applied to a
// state that misses an entry.
type machine struct {
	to      Machine
	applied func() // called after each entry that was applied
	fatal   func(error)
	broken  atomic.Bool
}

var _ raft.FSM = (*machine)(nil)

// Apply applies one entry; its result is an outcome.
func (m *machine) Apply(entry *raft.Log) any {
	if m.broken.Load() {
		return outcome{err: errBroken}
	}
	results, err := m.to.Apply(entry.Index, entry.Data)
	if err != nil {
		m.broken.Store(true)
		err = fmt.Errorf("apply raft entry %d: %w", entry.Index, err)
		m.fatal(err)
		return outcome{err: err}
	}
	m.applied()
	return outcome{results: results}
}

// Snapshot refuses: raft is never asked for one (truncate.go).
func (m *machine) Snapshot() (raft.FSMSnapshot, error) { return nil, errNoStream }

// Restore refuses: nobody can send one (standing).
func (m *machine) Restore(io.ReadCloser) error { return errNoStream }
