package state_test

import (
	"errors"
	"sync"
	"testing"

	"queen/broker/segment"
	"queen/broker/state"
)

// TestCheckpoint: a checkpoint taken while entries are applied holds the state of one of them, at or above the one that was applied when
// it began, and the segments have what it names: with the rest of the log it becomes the state of a node that never stopped.
func TestCheckpoint(t *testing.T) {
	entries := workload(3, 200)
	wantDump, wantRows := reference(t, entries, (*state.State).Dump)
	n := newNode(t)
	var begin sync.WaitGroup
	begin.Add(1)
	taken := make(chan error, 1)
	least := uint64(60)
	go func() {
		begin.Wait()
		taken <- n.Checkpoint("copy")
	}()
	for i, e := range entries {
		if _, err := n.Apply(uint64(i+1), e); err != nil {
			t.Fatal(err)
		}
		if uint64(i+1) == least {
			begin.Done()
		}
	}
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	if err := n.Flush(); err != nil {
		t.Fatal(err)
	}
	at, err := state.ReadPoint(n.fs, "copy")
	if err != nil || at.Applied < least || at.Applied > uint64(len(entries)) || at.Seed != [16]byte{1, 2, 3} || len(at.Tails) == 0 {
		t.Fatalf("%+v, %v", at, err)
	}
	segments, err := segment.Open(segment.Options{FS: n.fs, Dir: "segments", SealBytes: sealBytes, Generation: 2})
	if err != nil {
		t.Fatal(err)
	}
	s, err := state.Open(state.Options{FS: n.fs, Dir: "copy", Segments: segments, Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	s.MaxRecent(maxRecent, maxRecentBytes)
	again := &node{t: t, fs: n.fs, segments: segments, State: s}
	if s.Applied() != at.Applied {
		t.Errorf("opened at entry %d, ReadPoint said %d", s.Applied(), at.Applied)
	}
	for _, q := range at.Tails {
		if got := segments.View(q.Queue).Tail(); got != q.Tail {
			t.Errorf("queue %d ends at %+v, ReadPoint said %+v", q.Queue, got, q.Tail)
		}
	}
	for i := at.Applied; i < uint64(len(entries)); i++ {
		if _, err := s.Apply(i+1, entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	if got := again.dump(); got != wantDump {
		t.Errorf("readers see\n%s\nwant\n%s", got, wantDump)
	}
	if got, err := s.Dump(); got != wantRows || err != nil {
		t.Errorf("%v, rows\n%s\nwant\n%s", err, got, wantRows)
	}
	if err := errors.Join(s.Close(), segments.Close()); err != nil {
		t.Error(err)
	}
	if empty, err := state.ReadPoint(n.fs, "nothing"); err != nil || empty.Applied != 0 {
		t.Errorf("a folder without a state: %+v, %v", empty, err)
	}
}
