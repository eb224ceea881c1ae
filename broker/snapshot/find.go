package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/internal/durable"
	"queen/stages"
)

// newName is the folder of a snapshot that is being taken.
const newName = "new"

// TrialName is the folder, beside the snapshots, in which one may be laid out to see whether it is whole. It goes with Clean.
const TrialName = "trial"

// Found is a snapshot in a folder.
type Found struct {
	Dir      string
	Name     string    // of the folder: the index
	Index    uint64    // that its state has applied
	Manifest *Manifest // nil when it cannot be read
	Fault    error     // why it must not be used; it names the file
}

func folderName(index uint64) string { return fmt.Sprintf("%016x", index) }

func parseFolder(name string) (index uint64, ok bool) {
	index, err := strconv.ParseUint(name, 16, 64)
	return index, err == nil && name == folderName(index)
}

// Find returns the snapshots in a folder, newest first, each one checked (docs/formats.md section 6.2): what is read for it are small
// files and the lengths of all others. A missing folder has none. A seed of zeros is that of a node which has not heard it yet.
func Find(disk vfs.FS, root string, seed [16]byte) ([]Found, error) {
	names, err := list(disk, root)
	if err != nil {
		return nil, err
	}
	var found []Found
	for _, name := range names {
		index, ok := parseFolder(name)
		if !ok {
			continue
		}
		f := Found{Dir: disk.PathJoin(root, name), Name: name, Index: index}
		f.check(disk, seed)
		found = append(found, f)
	}
	slices.SortFunc(found, func(a, b Found) int { return strings.Compare(b.Name, a.Name) })
	return found, nil
}

// At is a whole snapshot that was just taken or found.
func At(disk vfs.FS, root string, m *Manifest) Found {
	name := folderName(m.Applied)
	return Found{Dir: disk.PathJoin(root, name), Name: name, Index: m.Applied, Manifest: m}
}

func list(disk vfs.FS, dir string) ([]string, error) {
	names, err := disk.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	return names, nil
}

// check fills Manifest and Fault.
func (f *Found) check(disk vfs.FS, seed [16]byte) {
	path := disk.PathJoin(f.Dir, manifestName)
	m, err := readManifest(disk, path)
	if err == nil && seed != [16]byte{} && m.Seed != seed {
		err = fmt.Errorf("it is of the cluster with the seed %x, this folder is of %x", m.Seed, seed)
	}
	if err == nil && m.Applied != f.Index {
		err = fmt.Errorf("it is of entry %d, its folder is named for entry %d", m.Applied, f.Index)
	}
	if err != nil {
		f.Fault = fmt.Errorf("%s: %w", path, err)
		return
	}
	f.Manifest = m
	for _, file := range m.Files {
		path := disk.PathJoin(f.Dir, disk.PathJoin(strings.Split(file.Path, "/")...))
		if err := file.check(disk, path); err != nil {
			f.Fault = fmt.Errorf("%s: %w", path, err)
			return
		}
	}
}

func readManifest(disk vfs.FS, path string) (*Manifest, error) {
	text, err := readAll(disk, path)
	if err != nil {
		return nil, err
	}
	return decode(text)
}

func readAll(disk vfs.FS, path string) ([]byte, error) {
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	return text, errors.Join(err, f.Close())
}

// check says what is wrong with a file.
func (f File) check(disk vfs.FS, path string) error {
	info, err := disk.Stat(path)
	if err != nil {
		return err
	}
	if n := info.Size(); n < f.Length || n > f.Length && !strings.HasSuffix(f.Path, ".seg") {
		return fmt.Errorf("it has %d bytes, the snapshot was taken with %d", n, f.Length)
	}
	if !f.Summed {
		return nil
	}
	text, err := readAll(disk, path)
	if err == nil && sum(text) != f.Sum {
		err = errors.New("its checksum differs, the file is damaged")
	}
	return err
}

// Pinned returns how many bytes of files live only in the snapshot: the state has written them anew since, or their records were removed, which
// gone says of a segment. It is asked every few seconds, and there may be ten thousand queues: only the state's folder is read.
func (m *Manifest) Pinned(disk vfs.FS, stateDir string, gone func(queue stages.QueueID, seg uint32) bool) (n int64, err error) {
	names, err := list(disk, stateDir)
	if err != nil {
		return 0, err
	}
	live := make(map[string]bool, len(names))
	for _, name := range names {
		live[name] = true
	}
	for _, f := range m.Files {
		if name, ok := strings.CutPrefix(f.Path, stateName+"/"); ok {
			if !f.Summed && !live[name] {
				n += f.Length
			}
		} else if queue, seg, ok := parseSegment(f.Path); ok && gone(queue, seg) {
			n += f.Length
		}
	}
	return n, nil
}

// parseSegment reads the path of a segment or its index file in a manifest.
func parseSegment(path string) (queue stages.QueueID, seg uint32, ok bool) {
	name, ok := strings.CutPrefix(path, segmentsName+"/")
	q, rest, dash := strings.Cut(name, "-")
	number, _, dot := strings.Cut(rest, ".")
	if !ok || !dash || !dot {
		return 0, 0, false
	}
	id, err := strconv.ParseUint(q, 16, 64)
	n, err2 := strconv.ParseUint(number, 16, 32)
	return stages.QueueID(id), uint32(n), err == nil && err2 == nil
}

// Keep removes unfinished work and all snapshots but the one at this index: the others are older, or broken.
func Keep(disk vfs.FS, root string, index uint64) error { return Clean(disk, root, folderName(index)) }

// Clean removes unfinished work, and, when keep names a snapshot, all others.
func Clean(disk vfs.FS, root, keep string) error {
	names, err := list(disk, root)
	if err != nil || len(names) == 0 {
		return err
	}
	removed := false
	for _, name := range names {
		_, named := parseFolder(name)
		if name != newName && name != TrialName && !(named && keep != "" && name != keep) {
			continue
		}
		if err := disk.RemoveAll(disk.PathJoin(root, name)); err != nil {
			return fmt.Errorf("remove an old snapshot: %w", err)
		}
		removed = true
	}
	if !removed {
		return nil
	}
	return durable.SyncDir(disk, root)
}
