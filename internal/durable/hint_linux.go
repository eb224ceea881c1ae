package durable

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// unsupported is how systems and files say that they do not know the call.
var unsupported = []error{unix.ENOSYS, unix.EINVAL, unix.ESPIPE, unix.EOPNOTSUPP}

// BeginWriting tells the system to begin writing bytes of a file to the disk. It makes nothing durable: it is for who writes much and syncs
// seldom, because one fsync of much makes every other fsync on the disk wait. Where that is not known it does nothing.
func BeginWriting(f vfs.File, offset, length int64) error {
	fd := f.Fd()
	if fd == vfs.InvalidFd {
		return nil // not a file of the system
	}
	err := unix.SyncFileRange(int(fd), offset, length, unix.SYNC_FILE_RANGE_WRITE) // what is not on its way yet; it waits for nothing
	if err == nil || slices.ContainsFunc(unsupported, func(u error) bool { return errors.Is(err, u) }) {
		return nil
	}
	return fmt.Errorf("begin writing %d bytes from byte %d on: %w", length, offset, err)
}
