package raftnode

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
)

// fullDisk fails its writes with err while it is set.
type fullDisk struct {
	raft.LogStore
	err error
}

func (f *fullDisk) StoreLogs(l []*raft.Log) error {
	if f.err != nil {
		return f.err
	}
	return f.LogStore.StoreLogs(l)
}

func entries(from, n, size int) []*raft.Log {
	out := make([]*raft.Log, n)
	for i := range out {
		out[i] = &raft.Log{Index: uint64(from + i), Data: make([]byte, size)}
	}
	return out
}

func TestCacheIsBoundedInBytes(t *testing.T) {
	const size, limit = 1000, 10_000
	l := &logs{store: raft.NewInmemStore(), limit: limit, fatal: func(err error) { t.Fatal(err) }}
	for i := 1; i <= 100; i += 2 {
		if err := l.StoreLogs(entries(i, 2, size)); err != nil {
			t.Fatal(err)
		}
		if l.bytes > limit {
			t.Fatalf("after entry %d the cache holds %d bytes, limit %d", i+1, l.bytes, limit)
		}
	}
	if len(l.run) != limit/(size+entryOverhead) {
		t.Fatalf("the cache holds %d entries", len(l.run))
	}
	for i := uint64(1); i <= 100; i++ {
		if hit := l.cached(i) != nil; hit != (i > 92) {
			t.Errorf("entry %d: cached %v", i, hit)
		}
		var e raft.Log
		if err := l.GetLog(i, &e); err != nil || e.Index != i {
			t.Errorf("entry %d: got %d, %v", i, e.Index, err)
		}
	}
}

func TestCacheHoldsARunOrNothing(t *testing.T) {
	l := &logs{store: raft.NewInmemStore(), limit: 1 << 20, fatal: func(err error) { t.Fatal(err) }}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(l.StoreLogs(entries(1, 10, 8)))
	must(l.DeleteRange(8, 10)) // a follower's conflict: 8..10 come again with other content
	if l.cached(5) != nil || l.cached(9) != nil {
		t.Error("entries survived a deletion")
	}
	again := entries(8, 2, 8)
	again[0].Term = 7
	must(l.StoreLogs(again))
	var e raft.Log
	must(l.GetLog(8, &e))
	if e.Term != 7 {
		t.Errorf("entry 8 is the deleted one: term %d", e.Term)
	}
	must(l.StoreLogs(entries(20, 1, 8))) // a gap: what lies before is no run any more
	if l.cached(9) != nil || l.cached(19) != nil || l.cached(20) == nil {
		t.Error("the run has a gap")
	}
	one := &logs{store: raft.NewInmemStore(), limit: -1}
	must(one.StoreLogs(entries(1, 3, 8)))
	if one.cached(3) != nil {
		t.Error("a cache without room kept an entry")
	}
}

func TestFullDiskIsNotFatal(t *testing.T) {
	var fatal error
	disk := &fullDisk{LogStore: raft.NewInmemStore()}
	l := &logs{store: disk, limit: 1 << 20, fatal: func(err error) { fatal = err }}
	disk.err = fmt.Errorf("write: %w", syscall.ENOSPC)
	if err := l.StoreLogs(entries(1, 1, 8)); !errors.Is(err, ErrDiskFull) || !l.full.Load() || fatal != nil {
		t.Errorf("full disk: %v, full %v, fatal %v", err, l.full.Load(), fatal)
	}
	disk.err = nil
	if err := l.StoreLogs(entries(1, 1, 8)); err != nil || l.full.Load() {
		t.Errorf("with room again: %v, full %v", err, l.full.Load())
	}
	disk.err = errors.New("input/output error")
	if err := l.StoreLogs(entries(2, 1, 8)); err == nil || !errors.Is(fatal, disk.err) {
		t.Errorf("broken disk: %v, fatal %v", err, fatal)
	}
}
