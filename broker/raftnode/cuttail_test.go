package raftnode

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"queen/broker/peer"
	"queen/internal/crashwal"
)

// told is what a log has answered: entries 1..last, each of a term. While the end is being taken back, entries from cutting on may be there or not.
type told struct {
	terms   []uint64 // of entry i+1
	cutting uint64   // 0: no
}

// tailCut is a disk at the moment at which the power went.
type tailCut struct {
	at   crashwal.Event
	disk *crashwal.FS
	told told
}

func termEntry(index, term uint64) *raft.Log {
	return &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: bytes.Repeat([]byte{byte(index), byte(term)}, 150+int(index*37%200))}
}

// TestPowerLossWhileTheEndIsTakenBack: a follower stores entries, a later leader overrules the end of them, over files of the log and to the very beginning, and others
// take their place, while the power may go at every event of the disk. The log opens again, with what was stored last at each index, and goes on.
func TestPowerLossWhileTheEndIsTakenBack(t *testing.T) {
	var mu sync.Mutex // the log begins its files in a goroutine of its own
	var now told
	var made []tailCut
	var disk *crashwal.FS
	rng := rand.New(rand.NewPCG(14, 1))
	disk = crashwal.New(func(e crashwal.Event) {
		mu.Lock()
		defer mu.Unlock()
		for _, percent := range []int{0, 50, 100} {
			made = append(made, tailCut{e, disk.CrashClone(percent, rng, nil), told{append([]uint64(nil), now.terms...), now.cutting}})
		}
	})
	update := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }
	s, err := OpenWAL(crashwal.Dir, disk, disk.Meta(), smallFile, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(1)
	for term, step := range []struct{ entries, back uint64 }{{5, 3}, {9, 1}, {30, 25}, {12, 12}, {3, 20}, {6, 100}, {20, 4}, {2, 0}} {
		term := uint64(term + 1)
		for range step.entries {
			if err := s.StoreLog(termEntry(next, term)); err != nil {
				t.Fatal(err)
			}
			update(func() { now.terms = append(now.terms, term) })
			next++
		}
		if step.back == 0 {
			continue
		}
		from := next - min(step.back, next-1)
		if err := s.(syncer).Sync(); err != nil { // as a flush does: the disk knows the mark now
			t.Fatal(err)
		}
		update(func() { now.cutting = from })
		if err := s.(tailCutter).CutTail(from); err != nil {
			t.Fatal(err)
		}
		update(func() { now = told{terms: now.terms[:from-1]} })
		next = from
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(made) < 300 {
		t.Errorf("%d moments: the test does not test", len(made))
	}
	for i, m := range made {
		if err := checkTail(m); err != nil {
			t.Fatalf("moment %d, %s %s, done %v, told %+v: %v", i, m.at.Op, m.at.Name, m.at.Done, m.told, err)
		}
	}
}

// checkTail opens the log of a moment, looks for what was told, and stores more.
func checkTail(m tailCut) error {
	s, err := OpenWAL(crashwal.Dir, m.disk, m.disk.Meta(), smallFile, zerolog.Nop())
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	least := uint64(len(m.told.terms))
	if m.told.cutting > 0 {
		least = m.told.cutting - 1
	}
	if last < least || last > uint64(len(m.told.terms))+1 {
		return fmt.Errorf("the log ends at entry %d", last)
	}
	for i := uint64(1); i <= min(last, uint64(len(m.told.terms))); i++ {
		var e raft.Log
		if err := s.GetLog(i, &e); err != nil {
			return err
		}
		if want := termEntry(i, m.told.terms[i-1]); e.Term != want.Term || !bytes.Equal(e.Data, want.Data) {
			return fmt.Errorf("entry %d is of term %d", i, e.Term)
		}
	}
	for i := last + 1; i < last+10; i++ {
		if err := s.StoreLog(termEntry(i, 99)); err != nil {
			return fmt.Errorf("entry %d afterwards: %w", i, err)
		}
	}
	return s.Close()
}

// TestContinueRefusesADamagedEntry: a log is not emptied for a snapshot because the entry at which the snapshot stands cannot be read.
func TestContinueRefusesADamagedEntry(t *testing.T) {
	s, m := filled(t, 10)
	p := Point{Term: 1, MembersAt: 1, Members: raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: "1", Address: "1"}}})}
	var e raft.Log
	if err := s.InmemStore.GetLog(m.applied-2, &e); err != nil {
		t.Fatal(err)
	}
	whole := e
	e.Data = bytes.Clone(e.Data)
	e.Data[len(e.Data)-1] ^= 1
	if err := s.InmemStore.StoreLog(&e); err != nil {
		t.Fatal(err)
	}
	if err := Continue("raft", s, e.Index, p); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("raft log entry %d", e.Index)) {
		t.Errorf("with a damaged entry: %v", err)
	}
	last, err := s.LastIndex()
	if err != nil || last < m.applied {
		t.Fatalf("the refusal left a log that ends at entry %d of %d, %v", last, m.applied, err)
	}
	if err := s.InmemStore.StoreLog(&whole); err != nil {
		t.Fatal(err)
	}
	for _, term := range []uint64{whole.Term, whole.Term + 1} { // the same entry: the log goes on; another one: nothing of it counts
		if err := Continue("raft", s, whole.Index, Point{Term: term, MembersAt: p.MembersAt, Members: p.Members}); err != nil {
			t.Fatal(err)
		}
		want := last
		if term != whole.Term {
			want = 0
		}
		if got, err := s.LastIndex(); err != nil || got != want {
			t.Errorf("a snapshot of term %d leaves a log that ends at entry %d, want %d, %v", term, got, want, err)
		}
	}
}

// TestTheEndBehindASnapshotIsTakenBack: all that a node has stored behind a snapshot that it took in is overruled, and the power goes when it is taken back. The node starts
// with an empty log, where the snapshot stands.
func TestTheEndBehindASnapshotIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stands = 100
		disk := crashwal.New(nil)
		open := func() Store {
			t.Helper()
			s, err := OpenWAL(crashwal.Dir, disk, disk.Meta(), smallFile, zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s := open()
		list := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: "1", Address: "1"}, {ID: "2", Address: "2"}, {ID: "3", Address: "3"}}})
		if err := Continue(crashwal.Dir, s, stands, Point{Term: 3, MembersAt: 1, Members: list}); err != nil {
			t.Fatal(err)
		}
		for i := range uint64(20) {
			if err := s.StoreLog(termEntry(stands+1+i, 4)); err != nil {
				t.Fatal(err)
			}
		}
		l := &logs{store: s, shared: true, fatal: func(err error) { t.Error(err) }, applied: func() uint64 { return stands }}
		if err := l.DeleteRange(stands+1, stands+20); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		disk = disk.CrashClone(0, nil, nil)
		c := &cluster{t: t, stores: map[string]*memStore{}, tapes: map[string]*tape{}, nodes: map[string]*Node{}, first: []peer.Member{member("1"), member("2"), member("3")}}
		c.change = func(_ string, _ *peer.Options, o *Options) {
			s := open()
			if last, err := Check(o.Dir, s, stands, Base{stands, 3}); err != nil || last != 0 {
				t.Errorf("a log that ends at entry %d: %v", last, err)
			}
			o.Base = Base{stands, 3}
			o.OpenStore = func(string) (Store, error) { return s, nil }
		}
		c.stores["1"], c.tapes["1"] = newMemStore(), &tape{applied: stands}
		for range 2 {
			c.start("1", false)
			if at := c.nodes["1"].Status(); at.Applied != stands || at.LastLog != stands {
				t.Errorf("it stands at entry %d, and knows %d", at.Applied, at.LastLog)
			}
			c.stop("1")
		}
	})
}
