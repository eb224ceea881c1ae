package raftnode

import (
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"queen/internal/crashwal"
)

// A file of the log is made, the process stops before it was synced, the next process opens it, stores in it, and the power goes.
// raft-wal by itself syncs the bytes and not the name: what was acknowledged is gone with the file.
func TestAnOpenedFileKeepsItsName(t *testing.T) {
	ours := func(disk *crashwal.FS) (Store, error) {
		return OpenWAL(crashwal.Dir, disk, disk.Meta(), smallFile, zerolog.Nop())
	}
	bare := func(disk *crashwal.FS) (Store, error) { return crashwal.Open(disk) }
	for _, tt := range []struct {
		name string
		open func(*crashwal.FS) (Store, error)
		want uint64
	}{{"raft-wal alone", bare, filling}, {"as we open it", ours, filling + 1}} {
		t.Run(tt.name, func(t *testing.T) {
			made := make(chan struct{})
			files := 0
			disk := crashwal.New(func(e crashwal.Event) {
				if e.Op == crashwal.Create && e.Done && strings.HasSuffix(e.Name, ".wal") {
					if files++; files == 2 {
						close(made)
					}
				}
			})
			s, err := ours(disk)
			if err != nil {
				t.Fatal(err)
			}
			for i := uint64(1); i <= filling; i++ {
				if err := s.StoreLog(walEntry(i)); err != nil {
					t.Fatal(err)
				}
			}
			<-made // the second file, which nothing is written to
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = tt.open(disk); err != nil {
				t.Fatal(err)
			}
			if err := s.StoreLog(walEntry(filling + 1)); err != nil {
				t.Fatal(err)
			}
			after := disk.CrashClone(0, nil, nil)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = bare(after); err != nil {
				t.Fatal(err)
			}
			if last, err := s.LastIndex(); err != nil || last != tt.want {
				t.Errorf("the log ends with entry %d, %v, want %d", last, err, tt.want)
			}
			var e raft.Log
			if err := s.GetLog(tt.want, &e); err != nil || string(e.Data) != string(walEntry(tt.want).Data) {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A process that stopped inside a folder sync leaves a file that is in nobody's way.
func TestFolderSyncAfterAStop(t *testing.T) {
	disk := crashwal.New(nil)
	n := &named{VFS: disk}
	if _, err := disk.Create(crashwal.Dir, folderTemp, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := n.syncFolder(crashwal.Dir); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := disk.ListDir(crashwal.Dir); err != nil || len(names) != 0 {
		t.Error(names, err)
	}
}
