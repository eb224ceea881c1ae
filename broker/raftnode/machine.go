package raftnode

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"queen/broker/command"
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
//
// It also tells the members of the cluster as entries name them, and gives results to those who forwarded a command and wait for it to be
// applied here.
type machine struct {
	to      Machine
	applied func() // called after each entry that was applied
	members func(index uint64, list raft.Configuration)
	fatal   func(error)
	broken  atomic.Bool
	// replaced: a snapshot came in that takes the state's place at the next start. What follows in the log is applied then.
	replaced atomic.Bool

	mu      sync.Mutex
	waiting map[[16]byte]chan any // by request id; each holds one result
}

var (
	_ raft.FSM                = (*machine)(nil)
	_ raft.ConfigurationStore = (*machine)(nil)
)

// expect returns what the result of a command will be sent to when it is applied here.
func (m *machine) expect(request [16]byte) <-chan any {
	c := make(chan any, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting == nil {
		m.waiting = map[[16]byte]chan any{}
	}
	m.waiting[request] = c
	return c
}

// forget ends expect.
func (m *machine) forget(request [16]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waiting, request)
}

// tell gives the results of an entry to those who wait for them.
func (m *machine) tell(entry []byte, results []any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		return
	}
	for i, request := range command.Requests(entry) {
		if c := m.waiting[request]; c != nil && i < len(results) {
			delete(m.waiting, request)
			c <- results[i]
		}
	}
}

// Apply applies one entry; its result is an outcome.
func (m *machine) Apply(entry *raft.Log) any {
	if m.broken.Load() {
		return outcome{err: errBroken}
	}
	if m.replaced.Load() {
		return outcome{err: errReplaced}
	}
	results, err := m.to.Apply(entry.Index, entry.Data)
	if err != nil {
		m.broken.Store(true)
		err = fmt.Errorf("apply raft entry %d: %w", entry.Index, err)
		m.fatal(err)
		return outcome{err: err}
	}
	m.applied()
	m.tell(entry.Data, results)
	return outcome{results: results}
}

// StoreConfiguration notes the members that a committed entry names.
func (m *machine) StoreConfiguration(index uint64, list raft.Configuration) {
	if !m.broken.Load() && !m.replaced.Load() {
		m.members(index, list)
	}
}

// Snapshot refuses: raft is never asked for one (truncate.go).
func (m *machine) Snapshot() (raft.FSMSnapshot, error) { return nil, errNoStream }

// Restore is called when a snapshot came in, which the owner puts in place when it starts again.
func (m *machine) Restore(r io.ReadCloser) error {
	if !m.replaced.Load() {
		return errNoStream
	}
	return r.Close()
}
