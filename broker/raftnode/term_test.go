package raftnode

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// sickStore fails to store one of raft's values.
type sickStore struct {
	*memStore
	key   string
	err   error
	times atomic.Int64 // how often it fails
}

func (s *sickStore) Set(key, value []byte) error {
	if string(key) == s.key && s.times.Add(-1) >= 0 {
		return s.err
	}
	return s.memStore.Set(key, value)
}

func (s *sickStore) SetUint64(key []byte, value uint64) error {
	if string(key) == s.key && s.times.Add(-1) >= 0 {
		return s.err
	}
	return s.memStore.SetUint64(key, value)
}

// elect opens a node whose log begins already, so that what fails, fails in its election.
func elect(t *testing.T, s *sickStore) (*rig, error) {
	t.Helper()
	m := &tape{}
	before, err := tryOpen(m, on(s.memStore))
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	return tryOpen(m, func(o *Options) { o.OpenStore = func(string) (Store, error) { return s, nil } })
}

// TestTermNotStored: a term or a vote that the disk did not take ends the node with an error, not the process with a panic, and not never. No
// room for a vote is no vote: the node tries again.
func TestTermNotStored(t *testing.T) {
	for _, c := range []struct {
		key  string
		err  error
		ends bool
	}{
		{"CurrentTerm", syscall.EIO, true}, {"CurrentTerm", syscall.ENOSPC, true},
		{"LastVoteTerm", syscall.EIO, true}, {"LastVoteTerm", syscall.ENOSPC, false},
		{"LastVoteCand", syscall.EIO, true}, {"LastVoteCand", syscall.ENOSPC, false},
	} {
		t.Run(fmt.Sprintf("%s %v", c.key, c.err), func(t *testing.T) {
			s := &sickStore{memStore: newMemStore(), key: c.key, err: c.err}
			s.times.Store(1)
			r, err := elect(t, s)
			if !c.ends {
				if err != nil {
					t.Fatal(err)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), "store "+c.key) {
				t.Fatalf("open: %v, want %v of %s", err, c.err, c.key)
			}
			if told := <-r.fatal; !errors.Is(told, c.err) {
				t.Errorf("fatal: %v", told)
			}
		})
	}
}

// TestSameTermIsNotWritten: a boot writes no term, so it needs no room on a full disk, and cannot end where nobody waits for it.
func TestSameTermIsNotWritten(t *testing.T) {
	s := &sickStore{memStore: newMemStore(), key: currentTerm, err: syscall.EIO}
	if err := s.memStore.SetUint64([]byte(currentTerm), 7); err != nil {
		t.Fatal(err)
	}
	s.times.Store(1)
	stable := &terms{s, func(err error) { t.Error(err) }}
	if err := stable.SetUint64([]byte(currentTerm), 7); err != nil {
		t.Error(err)
	}
}
