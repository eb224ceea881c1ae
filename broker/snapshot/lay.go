package snapshot

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/broker/segment"
	"queen/internal/durable"
)

// Lay lays a snapshot out as a state and segments in two empty folders, durably: hard links of what is never changed, copies of the rest.
// It changes nothing in the snapshot; what it made must be removed when it fails.
func Lay(disk vfs.FS, f Found, stateDir, segmentsDir string) error {
	if f.Fault != nil {
		return f.Fault
	}
	var links []string
	for _, file := range f.Manifest.Files {
		folder, name, _ := strings.Cut(file.Path, "/")
		from, to := disk.PathJoin(f.Dir, folder, name), disk.PathJoin(stateDir, name)
		var err error
		switch {
		case folder == segmentsName:
			links = append(links, name)
		case folder != stateName: // FORMAT
		case linked(name):
			err = disk.Link(from, to)
		default:
			err = copySmall(disk, from, to)
		}
		if err != nil {
			return fmt.Errorf("lay out %s: %w", from, err)
		}
	}
	if err := durable.SyncDir(disk, stateDir); err != nil {
		return err
	}
	return segment.Unlink(disk, disk.PathJoin(f.Dir, segmentsName), links, segmentsDir)
}

func copySmall(disk vfs.FS, from, to string) error {
	in, err := disk.Open(from)
	if err != nil {
		return err
	}
	out, err := disk.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close(), in.Close())
}
