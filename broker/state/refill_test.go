package state_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"queen/broker/state"
	"queen/internal/crashdisk"
	"queen/stages"
)

// openUnfiltered opens a state whose boot reads no transaction ids.
func openUnfiltered(t *testing.T, fs *crashdisk.FS, gen uint32, fatal func(error)) *node {
	t.Helper()
	segments, err := openSegments(fs, gen)
	if err != nil {
		t.Fatal(err)
	}
	s, err := state.Load(state.Options{FS: fs, Dir: "state", Segments: segments, Fatal: fatal})
	if err != nil {
		t.Fatal(err)
	}
	s.LoadFilters(0)
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	s.MaxRecent(maxRecent, maxRecentBytes)
	return &node{t: t, fs: fs, segments: segments, State: s}
}

// pushIDs pushes new ids.
func (n *node) pushIDs(at stages.Micros, next *uint32, from, end int) {
	n.t.Helper()
	for ; from < end; from += 100 {
		var messages []string
		for k := from; k < from+100; k++ {
			messages = append(messages, fmt.Sprintf("id-%d=x", k))
		}
		n.apply(at, pushOf(next, 0, item{"q", "p", 0, messages}))
	}
}

// pushID pushes one id, of which is known whether it is a duplicate.
func (n *node) pushID(at stages.Micros, next *uint32, i int, wantDup bool) {
	n.t.Helper()
	got := n.apply(at, pushOf(next, 0, item{"q", "p", 0, []string{fmt.Sprintf("id-%d=x", i)}}))[0].(*state.PushResult)
	if dup := len(got.Appends[0].Dups) == 1; dup != wantDup {
		n.t.Fatalf("id %d: duplicate %v, want %v", i, dup, wantDup)
	}
}

// TestFiltersBehindABoot: while filters are made behind a boot, and after, a repeated id is a duplicate and a new one is not.
func TestFiltersBehindABoot(t *testing.T) {
	defer goleak.VerifyNone(t)
	fatal := func(err error) { t.Errorf("fatal: %v", err) }
	const ids, more = 6000, 400
	disk, next := crashdisk.New(), uint32(0)
	push := func(n *node, i int, wantDup bool) { t.Helper(); n.pushID(10, &next, i, wantDup) }
	n := openNode(t, disk, 1)
	n.pushIDs(10, &next, 0, ids)
	n.close()
	n = openUnfiltered(t, disk, 2, fatal)
	for i := range more { // beside the goroutine that reads
		push(n, ids+i, false)
		push(n, i*ids/more, true)
	}
	if n.Refilled() {
		t.Error("a filter is missing after all were made")
	}
	for i := range ids + more {
		push(n, i, true)
	}
	push(n, ids+more, false)
	n.close()

	n = openUnfiltered(t, disk, 3, fatal) // and a state that ends while they are made
	if err := errors.Join(n.State.Close(), n.segments.Close()); err != nil {
		t.Error(err)
	}
}

// TestDamageBehindABoot: a damaged row that is met behind a boot ends the node, as it would have refused to boot.
func TestDamageBehindABoot(t *testing.T) {
	disk, next := crashdisk.New(), uint32(0)
	n := openNode(t, disk, 1)
	n.apply(10, pushOf(&next, 0, item{"q", "p", 0, []string{"a=x"}}))
	if err := n.Spoil('I', []byte("spoiled")); err != nil {
		t.Fatal(err)
	}
	n.close()
	told := make(chan error, 1)
	n = openUnfiltered(t, disk, 2, func(err error) { told <- err })
	err := <-told
	if !errors.Is(err, stages.ErrDamaged) || !strings.Contains(err.Error(), "transaction ids of queue 1") {
		t.Errorf("the node ended with %v", err)
	}
	if _, again := n.Apply(n.Applied()+1, entry(20, tick())); !errors.Is(again, err) {
		t.Errorf("a state that met damage applies: %v", again)
	}
	if err := errors.Join(n.State.Close(), n.segments.Close()); err != nil {
		t.Error(err)
	}
}

// TestFiltersAfterAnHour: what began when there was no memory for its filters gets them when an hour of ids has gone, without a start.
func TestFiltersAfterAnHour(t *testing.T) {
	const hour, ids = stages.Micros(3_600_000_000), 2000
	disk, next := crashdisk.New(), uint32(0)
	segments, err := openSegments(disk, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := state.Open(state.Options{FS: disk, Dir: "state", Segments: segments, Filters: 500, Fatal: func(err error) { t.Errorf("fatal: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	s.MaxRecent(maxRecent, maxRecentBytes)
	n := &node{t: t, fs: disk, segments: segments, State: s}
	n.pushIDs(hour, &next, 0, ids)
	n.pushIDs(2*hour, &next, ids, ids+1000)
	if !n.Refilled() {
		t.Fatal("all ids have filters, this test needs some that have none")
	}
	n.pushID(3*hour-1, &next, ids+999, true)
	n.pushID(3*hour, &next, ids+1000, false) // the first hour goes
	if n.Refilled() {
		t.Error("a filter is missing, and there is memory for it")
	}
	for i := ids + 100; i <= ids+1000; i++ {
		n.pushID(3*hour-1+hour/2, &next, i, i >= ids+1000)
	}
	n.close()
}
