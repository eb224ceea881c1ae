package raftnode

import (
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"github.com/rs/zerolog"
)

// segmentBytes is the size of the files of the raft log. They are preallocated, so a small log takes this much of the disk.
const segmentBytes = 64 << 20

// Store keeps the raft log and the few values (term, vote) that raft must not lose. StoreLogs returns when all is durable.
type Store interface {
	raft.LogStore
	raft.StableStore
	io.Closer
}

var _ Store = (*wal.WAL)(nil)

// openWAL opens the log on disk, and makes its folder (the caller's folder exists) when it is missing.
func openWAL(dir string, log zerolog.Logger) (Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return OpenWAL(dir, fs.New(), &metadb.BoltMetaDB{}, segmentBytes, log)
}

// OpenWAL opens raft-wal in a folder that exists, on any file system and meta store, with files of the given size. It repairs
// what a power loss may have left (repairing).
func OpenWAL(dir string, files types.VFS, meta types.MetaStore, fileBytes int, log zerolog.Logger) (Store, error) {
	w, err := wal.Open(dir, wal.WithLogger(logger(log).Named("wal")), wal.WithSegmentSize(fileBytes),
		wal.WithSegmentFiler(segment.NewFiler(dir, files)), wal.WithMetaStore(repairing{MetaStore: meta, files: files}))
	if err != nil {
		return nil, fmt.Errorf("open raft log %s: %w", dir, err)
	}
	return w, nil
}
