package raftnode

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hashicorp/raft"
)

// defaultCacheBytes is how many bytes of the newest entries stay in memory for followers that read them back.
const defaultCacheBytes = 64 << 20

// entryOverhead is what a cached entry costs beside its data, bytes.
const entryOverhead = 160

var errLogBroken = errors.New("the raft log has failed before")

// logs is the raft.LogStore that raft sees: the store on disk, behind a cache of the newest entries that is bounded in bytes
// (raft.LogCache counts entries, and an entry may have 48 MiB), a guard that tells a full disk from a broken one, and a
// checksum with each entry, so that a damaged one is an error that names its index (contract R7).
//
// The cache holds a contiguous run of entries that ends with the newest one stored here, or nothing.
type logs struct {
	store raft.LogStore
	limit int64       // bytes; below 1 nothing is kept
	fatal func(error) // called when a write failed in a way after which the disk cannot be trusted

	shared  bool                 // other nodes may lead: entries at the end that were never committed may be taken back
	applied func() uint64        // by the machine: no such entry
	base    atomic.Pointer[Base] // an entry of which the term is known though the log may begin behind it; nil: none

	full   atomic.Bool // the newest write found the disk full
	cut    atomic.Bool // the end was taken back, and nothing was stored since: raft thinks that it is still there
	broken atomic.Bool // a write failed, and it is unknown what the disk holds: nothing is written any more

	mu    sync.Mutex
	run   []*raft.Log
	bytes int64
}

var (
	_ raft.LogStore          = (*logs)(nil)
	_ raft.MonotonicLogStore = (*logs)(nil)
)

// FirstIndex returns the lowest index kept, 0 when the log is empty.
func (l *logs) FirstIndex() (uint64, error) { return l.store.FirstIndex() }

// LastIndex returns the highest index stored, 0 when the log is empty.
func (l *logs) LastIndex() (uint64, error) { return l.store.LastIndex() }

// IsMonotonic says whether the store below refuses gaps.
func (l *logs) IsMonotonic() bool {
	m, ok := l.store.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// GetLog reads one entry, from memory when it is among the newest.
func (l *logs) GetLog(index uint64, into *raft.Log) error {
	if e := l.cached(index); e != nil {
		*into = *e
		return nil
	}
	e, err := unpanicked(func() (e raft.Log, err error) { err = l.store.GetLog(index, &e); return e, err })
	if errors.Is(err, raft.ErrLogNotFound) {
		if base := l.base.Load(); base != nil && index == base.Index && index > 0 { // its term is all that anybody needs
			*into = raft.Log{Index: index, Term: base.Term, Type: raft.LogNoop}
			return nil
		}
		return err // raft compares it
	}
	if err == nil {
		err = unsum(index, &e)
	}
	if err != nil {
		return fmt.Errorf("raft log entry %d: %w", index, err)
	}
	*into = e
	return nil
}

func (l *logs) cached(index uint64) *raft.Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.run) == 0 || index < l.run[0].Index || index-l.run[0].Index >= uint64(len(l.run)) {
		return nil
	}
	return l.run[index-l.run[0].Index]
}

// StoreLog makes one entry durable.
func (l *logs) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs makes entries durable with one fsync. A full disk is ErrDiskFull and can be tried again; after any other error
// it is unknown what the disk holds, so the node ends (design section 4).
func (l *logs) StoreLogs(entries []*raft.Log) error {
	if l.broken.Load() { // raft itself would go on, as the leader of another term
		return errLogBroken
	}
	stored := make([]*raft.Log, len(entries))
	for i, e := range entries {
		stored[i] = summed(e)
	}
	if err := l.store.StoreLogs(stored); err != nil {
		l.forget()
		if errors.Is(err, syscall.ENOSPC) && !l.cut.Load() {
			l.full.Store(true)
			return fmt.Errorf("%w: %w", ErrDiskFull, err)
		}
		err = fmt.Errorf("write the raft log: %w", err)
		l.broken.Store(true)
		l.fatal(err)
		return err
	}
	l.full.Store(false)
	l.cut.Store(false)
	l.keep(entries)
	return nil
}

// DeleteRange removes a prefix or a suffix of the log. A suffix is what another leader overrules, and nothing in it was applied.
func (l *logs) DeleteRange(from, to uint64) error {
	if l.broken.Load() {
		return errLogBroken
	}
	l.forget()
	last, err := l.store.LastIndex()
	if err != nil || !l.shared || to < last {
		return errors.Join(err, l.store.DeleteRange(from, to))
	}
	if applied := l.applied(); from <= applied {
		err := fmt.Errorf("raft log: entries %d to %d may not be taken back, entry %d is applied: the leader lacks what was acknowledged, a member has lost its disk", from, to, applied)
		return l.stopAt(err)
	}
	l.cut.Store(true)
	if c, ok := l.store.(tailCutter); ok {
		err = c.CutTail(from)
	} else {
		err = l.store.DeleteRange(from, to)
	}
	if err != nil {
		return l.stopAt(fmt.Errorf("raft log: take back entries %d to %d: %w", from, to, err))
	}
	return nil
}

// stopAt ends the node: raft would go on with a log that is not what it thinks.
func (l *logs) stopAt(err error) error {
	l.broken.Store(true)
	if l.fatal != nil {
		l.fatal(err)
	}
	return err
}

// tailCutter is a store that keeps a mark of its end, which has to be taken back first.
type tailCutter interface{ CutTail(from uint64) error }

func (l *logs) keep(entries []*raft.Log) {
	if l.limit < 1 || len(entries) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.run); n > 0 && entries[0].Index != l.run[n-1].Index+1 {
		l.run, l.bytes = nil, 0
	}
	for _, e := range entries {
		l.run = append(l.run, e)
		l.bytes += cost(e)
	}
	drop := 0
	for l.bytes > l.limit && drop < len(l.run) {
		l.bytes -= cost(l.run[drop])
		l.run[drop] = nil // the array may outlive the slice
		drop++
	}
	l.run = l.run[drop:]
}

func (l *logs) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run, l.bytes = nil, 0
}

func cost(e *raft.Log) int64 { return int64(len(e.Data)) + int64(len(e.Extensions)) + entryOverhead }
