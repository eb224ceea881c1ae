package state

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"
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

// LoadFilters has a boot read so many ids; the filters of the others are made behind it. It comes before Begin.
func (s *State) LoadFilters(ids int) { s.loadFilters = ids }

// Refilled waits until no filter is made any more, and reports whether a queue lacks one.
func (s *State) Refilled() (lacks bool) {
	s.refills.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.queues {
		lacks = lacks || q.ids.Missing(s.oldestIDs(q))
	}
	return lacks
}

// Spoil replaces the last row of a table, and flushes.
func (s *State) Spoil(table byte, row []byte) error {
	var last []byte
	err := s.rows([]byte{table}, []byte{table + 1}, func(key, _ []byte) bool { last = bytes.Clone(key); return true })
	return errors.Join(err, s.db.Set(last, row, pebble.NoSync), s.Flush())
}
