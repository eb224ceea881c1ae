// Package durable puts small files and names on a disk so that a crash leaves what was there before or what was meant, and nothing between.
//
// It is the one place where that order is written: the data to a temporary name, synced; then renamed; then the folder synced. It knows no format
// and decides nothing about what a file that is there means: package broker and its parts do. Tested by the crash tests of those.
package durable

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TempExt ends the name of a file that is not whole yet. Such a file is nobody's: whoever finds one after a crash may remove it.
const TempExt = ".tmp"

// WriteFile puts a file in place for good: when it returns nil, no crash brings back what was there before.
func WriteFile(disk vfs.FS, dir, name string, data []byte) error {
	if err := Replace(disk, dir, name, data, vfs.WriteCategoryUnspecified); err != nil {
		return err
	}
	return SyncDir(disk, dir)
}

// Replace puts a file in place, whole or not at all. Until its folder is synced, a crash may bring back what was there before.
func Replace(disk vfs.FS, dir, name string, data []byte, category vfs.DiskWriteCategory) error {
	path := disk.PathJoin(dir, name)
	temp := path + TempExt
	f, err := disk.Create(temp, category)
	if err != nil {
		return fmt.Errorf("create %s: %w", temp, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", temp, err)
	}
	if err := disk.Rename(temp, path); err != nil {
		return fmt.Errorf("rename %s: %w", temp, err)
	}
	return nil
}

// SyncDir makes the names in a folder durable: what was made, renamed and removed there before the call.
func SyncDir(disk vfs.FS, dir string) error {
	d, err := disk.OpenDir(dir)
	if dir == "." && errors.Is(err, fs.ErrNotExist) {
		d, err = disk.OpenDir("/") // a vfs in memory has no working folder but its root
	}
	if err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	return nil
}
