package crashwal

import (
	"slices"

	"github.com/hashicorp/raft-wal/types"
)

// meta is the content of the meta store: a state and a few keys, each replaced whole. It is guarded by FS.mu.
type meta struct {
	state   types.PersistentState
	stable  map[string][]byte
	pending func(*meta) // a commit that has begun: a crash may find it done
}

func newMeta() meta { return meta{stable: make(map[string][]byte)} }

func (m *meta) clone(keep func() bool) meta {
	c := meta{state: cloneState(m.state), stable: make(map[string][]byte, len(m.stable))}
	for k, v := range m.stable {
		c.stable[k] = slices.Clone(v)
	}
	if m.pending != nil && keep() {
		m.pending(&c)
	}
	return c
}

func cloneState(s types.PersistentState) types.PersistentState {
	s.Segments = slices.Clone(s.Segments)
	return s
}

// Meta returns the meta store of the disk. It stays with the disk: closing it keeps what was committed.
func (d *FS) Meta() types.MetaStore { return &store{d} }

type store struct{ d *FS }

var _ types.MetaStore = (*store)(nil)

// Load implements types.MetaStore.
func (s *store) Load(dir string) (types.PersistentState, error) {
	if err := checkDir("load", dir); err != nil {
		return types.PersistentState{}, err
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return cloneState(s.d.meta.state), nil
}

// commit runs a change as a transaction that a crash finds done or not done.
func (s *store) commit(op Op, name string, change func(*meta)) error {
	s.d.mu.Lock()
	s.d.meta.pending = change
	s.d.mu.Unlock()
	return s.d.step(op, name, func() error {
		change(&s.d.meta)
		s.d.meta.pending = nil
		return nil
	})
}

// CommitState implements types.MetaStore.
func (s *store) CommitState(state types.PersistentState) error {
	state = cloneState(state)
	return s.commit(CommitSet, "", func(m *meta) { m.state = cloneState(state) })
}

// GetStable implements types.MetaStore.
func (s *store) GetStable(key []byte) ([]byte, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return slices.Clone(s.d.meta.stable[string(key)]), nil
}

// SetStable implements types.MetaStore; a nil value deletes the key.
func (s *store) SetStable(key, value []byte) error {
	k, v := string(key), slices.Clone(value)
	return s.commit(SetStable, k, func(m *meta) {
		if v == nil {
			delete(m.stable, k)
			return
		}
		m.stable[k] = slices.Clone(v)
	})
}

// Close implements types.MetaStore.
func (s *store) Close() error { return nil }
