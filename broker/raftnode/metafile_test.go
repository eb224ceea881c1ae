package raftnode

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/raft-wal/types"
)

const metaDir = "/raft"

func metaDisk(t *testing.T) *vfs.MemFS {
	t.Helper()
	disk := vfs.NewCrashableMem()
	if err := disk.MkdirAll(metaDir, 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := disk.OpenDir("/")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		t.Fatal(err)
	}
	return disk
}

func metaState(n uint64) types.PersistentState {
	s := types.PersistentState{NextSegmentID: n}
	for i := range n % 4 {
		f := types.SegmentInfo{ID: i, BaseIndex: 1 + 10*i, MinIndex: 1 + 10*i, Codec: 1, CreateTime: time.Unix(0, int64(i+1)), SizeLimit: 1 << 20}
		if i+1 < n%4 {
			f.MaxIndex, f.IndexStart, f.SealTime = 10+10*i, 77, time.Unix(5, int64(i))
		}
		s.Segments = append(s.Segments, f)
	}
	return s
}

func TestMetaFileKeeps(t *testing.T) {
	disk := metaDisk(t)
	m := &metaFile{fs: disk}
	if s, err := m.Load(metaDir); err != nil || !reflect.DeepEqual(s, types.PersistentState{}) {
		t.Fatal(s, err)
	}
	if v, err := m.GetStable([]byte("CurrentTerm")); v != nil || err != nil {
		t.Error("an absent value is", v, err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(m.SetStable([]byte("CurrentTerm"), []byte{9}))
	must(m.SetStable([]byte("LastVoteCand"), []byte("node 1")))
	must(m.SetStable([]byte("gone"), []byte("x")))
	must(m.SetStable([]byte("gone"), nil))
	for n := range uint64(5) {
		must(m.CommitState(metaState(n)))
		again := &metaFile{fs: disk}
		s, err := again.Load(metaDir)
		if err != nil || !reflect.DeepEqual(s, metaState(n)) {
			t.Errorf("read %+v, %v", s, err)
		}
		if v, err := again.GetStable([]byte("LastVoteCand")); string(v) != "node 1" || err != nil {
			t.Error(v, err)
		}
		if v, err := again.GetStable([]byte("gone")); v != nil || err != nil {
			t.Error(v, err)
		}
	}
	must(m.Close())
	if _, err := m.GetStable([]byte("CurrentTerm")); err == nil {
		t.Error("read after the close")
	}
	if err := m.SetStable([]byte("CurrentTerm"), nil); err == nil {
		t.Error("written after the close")
	}
}

// Every bit of the file: refused, by name.
func TestEveryBitOfTheMetaFile(t *testing.T) {
	whole := encodeMeta(metaState(3), map[string][]byte{"CurrentTerm": {1, 2, 3}, "LastVoteCand": []byte("1")})
	if _, _, err := decodeMeta(whole); err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(whole) {
		bad := bytes.Clone(whole)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, _, err := decodeMeta(bad); err == nil {
			t.Fatalf("bit %d is not found", bit)
		}
	}
	for n := range whole {
		if _, _, err := decodeMeta(whole[:n]); err == nil {
			t.Fatalf("the first %d bytes are taken for the file", n)
		}
	}
	disk := metaDisk(t)
	f, err := disk.Create(metaDir+"/meta", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(whole[:20]); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := (&metaFile{fs: disk}).Load(metaDir); err == nil || !strings.Contains(err.Error(), "/raft/meta: checksum differs") {
		t.Error(err)
	}
}

// The power goes before any operation: the file holds what was committed, or what was about to be.
func TestMetaFileSurvivesPowerLoss(t *testing.T) {
	disk, rng := metaDisk(t), rand.New(rand.NewPCG(3, 4))
	committed := -1 // nothing, not even the empty file
	cuts := 0
	check := func(name string) {
		for _, percent := range []int{0, 50, 100} {
			cuts++
			after := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
			m := &metaFile{fs: after}
			s, err := m.Load(metaDir)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := int(s.NextSegmentID); got != max(committed, 0) && got != committed+1 || !reflect.DeepEqual(s, metaState(uint64(got))) {
				t.Fatalf("%s, %d%%: read %+v, committed was %d", name, percent, s, committed)
			}
		}
	}
	m := &metaFile{fs: errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			check(fmt.Sprintf("before operation %d on %s", op.Kind, op.Path))
		}
		return nil
	}))}
	if _, err := m.Load(metaDir); err != nil {
		t.Fatal(err)
	}
	for n := range 9 {
		if err := m.CommitState(metaState(uint64(n))); err != nil {
			t.Fatal(err)
		}
		committed = n
		check("after a commit")
	}
	if cuts < 100 {
		t.Errorf("only %d cuts", cuts)
	}
}

// A write that failed changes nothing in memory either: a later one must not carry it to the disk.
func TestMetaFileThatCannotBeWritten(t *testing.T) {
	broken := errors.New("input/output error")
	var fail bool
	m := &metaFile{fs: errorfs.Wrap(metaDisk(t), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if fail && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return broken
		}
		return nil
	}))}
	if _, err := m.Load(metaDir); err != nil {
		t.Fatal(err)
	}
	if err := m.SetStable([]byte("k"), []byte("old")); err != nil {
		t.Fatal(err)
	}
	fail = true
	if err := m.SetStable([]byte("k"), []byte("new")); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := m.CommitState(metaState(2)); !errors.Is(err, broken) {
		t.Error(err)
	}
	if v, err := m.GetStable([]byte("k")); string(v) != "old" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	fail = false
	if err := m.SetStable([]byte("x"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	again := &metaFile{fs: m.fs}
	if s, err := again.Load(metaDir); err != nil || s.NextSegmentID != 0 {
		t.Error(s, err)
	}
}
