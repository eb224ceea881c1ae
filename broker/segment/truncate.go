package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// truncate cuts a file to size bytes, durably. vfs knows no truncation: where the file below is one of the operating system,
// it is asked directly (after a crash the file has its old or its new length); else what stays is copied beside it and renamed
// over it, so that after a crash one of the two is there, whole.
func (s *Store) truncate(dir, path string, size int64) error {
	f, err := s.o.FS.OpenReadWrite(path, writeCategory)
	if err != nil {
		return fmt.Errorf("cut %s: %w", path, err)
	}
	if t, ok := f.(interface{ Truncate(size int64) error }); ok {
		err = t.Truncate(size)
		if err == nil {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("cut %s: %w", path, err)
		}
		return nil
	}
	if err := errors.Join(s.copyPrefix(path+tempExt, f, size), f.Close()); err != nil {
		return fmt.Errorf("cut %s: %w", path, err)
	}
	if err := s.o.FS.Rename(path+tempExt, path); err != nil {
		return fmt.Errorf("cut %s: %w", path, err)
	}
	return s.syncDir(dir)
}

func (s *Store) copyPrefix(temp string, from vfs.File, size int64) error {
	to, err := s.o.FS.Create(temp, writeCategory)
	if err != nil {
		return err
	}
	n, err := io.Copy(to, io.NewSectionReader(from, 0, size))
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}
