package crashwal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/types"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log is what was acknowledged: entries first..last, and values of the stable store.
type log struct {
	first, last uint64
	vote        string
	pendingVote string
	cutting     uint64 // a front truncation to here has begun
	dropping    uint64 // a back truncation to below here has begun
}

type crash struct {
	disk *FS
	want log
	at   Event
}

func entry(i uint64, life int) *raft.Log {
	size := int(i*7919) % 9000
	if i%50 == 0 {
		size = SegmentSize + 1000 // larger than a segment
	}
	return &raft.Log{Index: i, Term: uint64(life), Type: raft.LogCommand, Data: bytes.Repeat([]byte{byte(i), byte(life)}, size/2)}
}

// checkLog opens a disk and looks for every acknowledged entry.
func checkLog(disk *FS, want log, life int) error {
	w, err := Open(disk)
	if err != nil {
		return err
	}
	err = checkOpen(w, want, life)
	return errors.Join(err, w.Close())
}

func checkOpen(w *wal.WAL, want log, life int) error {
	first, err := w.FirstIndex()
	if err != nil {
		return err
	}
	last, err := w.LastIndex()
	if err != nil {
		return err
	}
	if want.last > 0 && first != want.first && (first > want.cutting || first < want.first) {
		return fmt.Errorf("first index %d, want %d", first, want.first)
	}
	if last < want.last && (want.dropping == 0 || last < want.dropping-1) {
		return fmt.Errorf("last index %d, %d was acknowledged", last, want.last)
	}
	for i := max(first, 1); i <= min(last, want.last); i++ {
		var got raft.Log
		if err := w.GetLog(i, &got); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		if e := entry(i, life); got.Term != e.Term || !bytes.Equal(got.Data, e.Data) {
			return fmt.Errorf("entry %d differs", i)
		}
	}
	vote, err := w.Get([]byte("vote"))
	if err != nil {
		return err
	}
	if string(vote) != want.vote && string(vote) != want.pendingVote {
		return fmt.Errorf("vote %q, want %q", vote, want.vote)
	}
	return nil
}

// runLog stores, votes and truncates, and calls stop at every moment at which a machine may stop. It is told what was acknowledged.
func runLog(t *testing.T, stop func(disk *FS, want log, at Event)) {
	t.Helper()
	var mu sync.Mutex // the log rotates its segments in a goroutine of its own
	var ack log
	var disk *FS
	disk = New(func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		stop(disk, ack, e)
	})
	w, err := Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	update := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	next := uint64(1)
	for round := range 40 {
		vote := fmt.Sprint(round)
		update(func() { ack.pendingVote = vote })
		must(w.Set([]byte("vote"), []byte(vote)))
		update(func() { ack.vote = vote })
		var batch []*raft.Log
		for range 1 + round%4 {
			batch = append(batch, entry(next, 1))
			next++
		}
		must(w.StoreLogs(batch))
		update(func() { ack.last, ack.first = next-1, max(ack.first, 1) })
		switch {
		case round%10 == 7: // from the front, as after a snapshot
			to := ack.first + (next-ack.first)/2
			update(func() { ack.cutting = to + 1 })
			must(w.DeleteRange(ack.first, to))
			update(func() { ack.first, ack.cutting = to+1, 0 })
		case round%10 == 4: // from the back, as after a conflict
			update(func() { ack.dropping = next - 2 })
			must(w.DeleteRange(next-2, next-1))
			next -= 2
			update(func() { ack.last, ack.dropping = next-1, 0 })
		}
	}
	must(w.Close())
	if err := checkLog(disk, ack, 1); err != nil {
		t.Errorf("closed and opened again: %v", err)
	}
}

// Entries acknowledged by StoreLogs are there after a crash at any moment, whatever part of the rest the disk kept; and the log
// takes entries again. But for one thing that is raft-wal's own (v0.4.2) and not the disk's: a stop between the sync that fills a
// file and the commit of the next one leaves a log that refuses every append; broker/raftnode repairs that when it opens one.
func TestAcknowledgedEntriesSurvive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ops := make(map[Op]int)
	n, sealed := 0, 0
	runLog(t, func(disk *FS, want log, at Event) {
		ops[at.Op]++
		if at.Done && at.Op == Write {
			return // the same disk as before the sync that follows
		}
		for _, percent := range []int{0, 50, 95} {
			n++
			clone := disk.CrashClone(percent, rng, nil)
			second := clone.CrashClone(0, nil, nil)
			if err := checkLog(clone, want, 1); err != nil {
				t.Fatalf("crash %+v, %d%% of the rest kept: %v", at, percent, err)
			}
			if percent == 0 {
				err := goOn(second)
				if errors.Is(err, types.ErrSealed) {
					sealed++
				} else if err != nil {
					t.Fatalf("crash %+v, then stored again: %v", at, err)
				}
			}
		}
	})
	for _, op := range []Op{Create, Write, Sync, Delete, CommitSet, SetStable} {
		if ops[op] == 0 {
			t.Errorf("no %s happened", op)
		}
	}
	t.Logf("%d crashes (%d left a sealed tail), events %v", n, sealed, ops)
}

// goOn stores behind whatever the log holds, crashes again, and looks for it.
func goOn(disk *FS) error {
	w, err := Open(disk)
	if err != nil {
		return err
	}
	last, err := w.LastIndex()
	if err != nil {
		return err
	}
	if err := w.StoreLogs([]*raft.Log{entry(last+1, 1), entry(last+2, 1)}); err != nil {
		return errors.Join(err, w.Close())
	}
	clone := disk.CrashClone(0, nil, nil)
	if err := w.Close(); err != nil {
		return err
	}
	if w, err = Open(clone); err != nil {
		return err
	}
	for i := last + 1; i <= last+2; i++ {
		var got raft.Log
		if err := w.GetLog(i, &got); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		if !bytes.Equal(got.Data, entry(i, 1).Data) {
			return fmt.Errorf("entry %d differs", i)
		}
	}
	return w.Close()
}

// The rules of what is durable, one by one: the test above would pass on a disk that never loses anything.
func TestWhatIsDurable(t *testing.T) {
	disk := New(nil)
	lost := func(name string) bool {
		_, err := disk.CrashClone(0, nil, nil).OpenReader(Dir, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		return err != nil
	}
	content := func(name string) string {
		r, err := disk.CrashClone(0, nil, nil).OpenReader(Dir, name)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 16)
		n, _ := r.ReadAt(b, 0)
		return string(b[:n])
	}
	a, err := disk.Create(Dir, "a", 4)
	if err != nil {
		t.Fatal(err)
	}
	write := func(s string) {
		if _, err := a.WriteAt([]byte(s), 0); err != nil {
			t.Fatal(err)
		}
	}
	write("1234")
	if !lost("a") {
		t.Error("a name is durable before any sync")
	}
	opened, err := disk.OpenWriter(Dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := opened.Sync(); err != nil || !lost("a") {
		t.Error("Sync of a handle from OpenWriter made the name durable", err)
	}
	if _, err := disk.Create(Dir, "b", 4); err != nil {
		t.Fatal(err)
	}
	if err := a.Sync(); err != nil || lost("a") || lost("b") {
		t.Error("the first Sync of a created file makes the folder durable", err)
	}
	if got := content("b"); got != "" {
		t.Errorf("a file that was never synced holds %q", got)
	}
	write("56789")
	if got := content("a"); got != "1234" {
		t.Errorf("unsynced bytes are durable: %q", got)
	}
	if got, err := disk.Create(Dir, "a", 4); got != nil || !errors.Is(err, fs.ErrExist) {
		t.Error("created over a file", err)
	}
	if err := a.Sync(); err != nil || content("a") != "56789" {
		t.Errorf("synced bytes are lost: %q", content("a"))
	}
}

func TestDeleteIsDurable(t *testing.T) {
	disk := New(nil)
	for _, name := range []string{"a", "b"} {
		if _, err := disk.Create(Dir, name, 4); err != nil {
			t.Fatal(err)
		}
	}
	lost := func(name string) bool {
		_, err := disk.CrashClone(0, nil, nil).OpenReader(Dir, name)
		return errors.Is(err, fs.ErrNotExist)
	}
	if err := disk.Delete(Dir, "a"); err != nil || !lost("a") || lost("b") {
		t.Error("a deleted name comes back, or the folder was not synced", err)
	}
	if all := disk.CrashClone(100, rand.New(rand.NewPCG(1, 1)), nil); len(all.live) != 1 {
		t.Errorf("%d files", len(all.live))
	}
}

// Without the sync the acknowledged entries must be missed: the test above can fail.
func TestALyingDiskIsFound(t *testing.T) {
	disk := New(nil)
	w, err := Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.StoreLogs([]*raft.Log{entry(1, 1), entry(2, 1)}); err != nil {
		t.Fatal(err)
	}
	before := disk.CrashClone(0, nil, nil)
	if err := w.StoreLogs([]*raft.Log{entry(3, 1)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := checkLog(before, log{first: 1, last: 3}, 1); err == nil {
		t.Error("a lost entry is not noticed")
	}
}

// A seed gives the same clone each time.
func TestCloneIsDeterministic(t *testing.T) {
	disk := New(nil)
	for i := range 20 {
		f, err := disk.Create(Dir, fmt.Sprint(i), 100)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(bytes.Repeat([]byte{byte(i)}, 3000), int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	a, b := disk.CrashClone(50, rand.New(rand.NewPCG(3, 3)), nil), disk.CrashClone(50, rand.New(rand.NewPCG(3, 3)), nil)
	if len(a.live) != len(b.live) || len(a.live) == 0 || len(a.live) == 20 {
		t.Fatalf("%d and %d files", len(a.live), len(b.live))
	}
	for name, f := range a.live {
		if !bytes.Equal(f.data, b.live[name].data) {
			t.Errorf("%s differs", name)
		}
	}
}
