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

// TestFiltersBehindABoot: while filters are made behind a boot, and after, a repeated id is a duplicate and a new one is not.
func TestFiltersBehindABoot(t *testing.T) {
	defer goleak.VerifyNone(t)
	fatal := func(err error) { t.Errorf("fatal: %v", err) }
	const ids, more = 6000, 400
	disk, next := crashdisk.New(), uint32(0)
	push := func(n *node, i int, wantDup bool) {
		t.Helper()
		got := n.apply(10, pushOf(&next, 0, item{"q", "p", 0, []string{fmt.Sprintf("id-%d=x", i)}}))[0].(*state.PushResult)
		if dup := len(got.Appends[0].Dups) == 1; dup != wantDup {
			t.Fatalf("id %d: duplicate %v, want %v", i, dup, wantDup)
		}
	}
	n := openNode(t, disk, 1)
	for i := 0; i < ids; i += 100 {
		var messages []string
		for k := i; k < i+100; k++ {
			messages = append(messages, fmt.Sprintf("id-%d=x", k))
		}
		n.apply(10, pushOf(&next, 0, item{"q", "p", 0, messages}))
	}
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
