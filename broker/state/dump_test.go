package state

import (
	"fmt"
	"strings"
)

// Dump writes all rows in key order, after bringing H and R rows up to date in a copy: those follow the flushes, and everything
// else follows the entries alone.
func (s *State) Dump() (string, error) {
	if err := s.Flush(); err != nil {
		return "", err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var b strings.Builder
	err := scan(s.db, nil, nil, func(key, value []byte) bool {
		fmt.Fprintf(&b, "%c %x = %x\n", key[0], key[1:], value)
		return true
	})
	return b.String(), err
}

// DumpShared is Dump without what a node decides alone.
func (s *State) DumpShared() (string, error) {
	var b strings.Builder
	_, err := s.Shared(func(key, value []byte) { fmt.Fprintf(&b, "%c %x = %x\n", key[0], key[1:], value) })
	return b.String(), err
}

// MaxRecent has ids become rows when more than so many are in RAM alone, or frames of so many bytes have to be read for them.
func (s *State) MaxRecent(ids int, bytes int64) { s.maxRecent, s.maxRecentBytes = ids, bytes }

// FlushRows flushes pebble alone, as it does by itself when its memory is full.
func (s *State) FlushRows() error { return s.flushRows() }
