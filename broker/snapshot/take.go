package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/broker/raftnode"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/internal/durable"
)

// Source is what a snapshot is taken of: a node that runs.
type Source struct {
	FS       vfs.FS
	Format   string // path of the folder's FORMAT
	Root     string // folder of the snapshots; made when missing, and its parent synced then
	Newest   uint64 // index of the newest whole snapshot in it, 0 when there is none: it is not taken again
	State    *state.State
	Segments *segment.Store
	Point    func(index uint64) (raftnode.Point, error) // of the raft log
}

// ErrNoLinks says that the file system makes no hard links: a snapshot would have to copy everything.
var ErrNoLinks = errors.New("the file system of the data folder makes no hard links, so no snapshot is taken and the raft log is kept whole: put the folder on one that does")

// Take takes a snapshot of all that is applied when it is called, or a little later, and returns it when it is durable. It may run
// beside everything else, and copies no records. When it fails, no snapshot was added. It returns nil when there is nothing new to take.
func Take(s Source) (*Manifest, error) {
	m, err := s.take()
	if m == nil || err != nil {
		return nil, errors.Join(err, Clean(s.FS, s.Root, ""))
	}
	return m, nil
}

func (s Source) take() (*Manifest, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	dir := s.FS.PathJoin(s.Root, newName)
	if err := s.State.Checkpoint(s.FS.PathJoin(dir, stateName)); err != nil {
		return nil, err
	}
	at, err := state.ReadPoint(s.FS, s.FS.PathJoin(dir, stateName))
	if err != nil || at.Applied == s.Newest {
		return nil, err
	}
	log, err := s.Point(at.Applied)
	if err != nil {
		return nil, err
	}
	m := &Manifest{Seed: at.Seed, Applied: at.Applied, Term: log.Term, MembersAt: log.MembersAt, Members: log.Members}
	if err := s.linkSegments(dir, at.Tails, m); err != nil {
		return nil, err
	}
	if err := s.listState(dir, m); err != nil {
		return nil, err
	}
	slices.SortFunc(m.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return m, s.finish(dir, m)
}

// begin makes the folder, in which what an earlier attempt left is removed.
func (s Source) begin() error {
	if _, err := s.FS.Stat(s.Root); errors.Is(err, fs.ErrNotExist) {
		if err := s.FS.MkdirAll(s.Root, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", s.Root, err)
		}
		if err := durable.SyncDir(s.FS, s.FS.PathDir(s.Root)); err != nil {
			return err
		}
	} else if err != nil {
		return fmt.Errorf("snapshots: %w", err)
	}
	if err := Clean(s.FS, s.Root, ""); err != nil {
		return err
	}
	dir := s.FS.PathJoin(s.Root, newName)
	if err := s.FS.MkdirAll(s.FS.PathJoin(dir, segmentsName), 0o755); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	if err := s.FS.Link(s.Format, s.FS.PathJoin(dir, formatName)); err != nil { // first: pebble copies what it cannot link
		return fmt.Errorf("%w (%w)", ErrNoLinks, err)
	}
	return nil
}

func (s Source) linkSegments(dir string, tails []state.QueueTail, m *Manifest) error {
	folder := s.FS.PathJoin(dir, segmentsName)
	for _, t := range tails {
		links, err := s.Segments.Link(t.Queue, t.Tail, t.Dropped, folder)
		if err != nil {
			return err
		}
		for _, l := range links {
			m.Files = append(m.Files, File{Path: segmentsName + "/" + l.Name, Length: l.Length})
		}
	}
	return durable.SyncDir(s.FS, folder)
}

// listState adds pebble's files and FORMAT. Those that are the snapshot's own are synced here, whatever pebble did.
func (s Source) listState(dir string, m *Manifest) error {
	names, err := s.FS.List(s.FS.PathJoin(dir, stateName))
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	for _, name := range names {
		if name == "LOCK" { // of who read it
			continue
		}
		f, err := s.describe(s.FS.PathJoin(dir, stateName, name))
		if err != nil {
			return err
		}
		f.Path = stateName + "/" + name
		m.Files = append(m.Files, f)
	}
	f, err := s.describe(s.FS.PathJoin(dir, formatName))
	if err != nil {
		return err
	}
	f.Path = formatName
	m.Files = append(m.Files, f)
	return durable.SyncDir(s.FS, s.FS.PathJoin(dir, stateName))
}

// linked says whether a file of the state is one that pebble never changes and the snapshot shares with it.
func linked(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

func (s Source) describe(path string) (File, error) {
	if linked(path) {
		info, err := s.FS.Stat(path)
		if err != nil {
			return File{}, fmt.Errorf("snapshot: %w", err)
		}
		return File{Length: info.Size()}, nil
	}
	f, err := s.FS.Open(path)
	if err != nil {
		return File{}, fmt.Errorf("snapshot: %w", err)
	}
	text, err := io.ReadAll(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return File{}, fmt.Errorf("snapshot: read %s: %w", path, err)
	}
	return File{Length: int64(len(text)), Summed: true, Sum: sum(text)}, nil
}

// finish makes the snapshot one that counts.
func (s Source) finish(dir string, m *Manifest) error {
	if err := durable.WriteFile(s.FS, dir, manifestName, m.encode()); err != nil {
		return err
	}
	to := s.FS.PathJoin(s.Root, folderName(m.Applied))
	if err := s.FS.RemoveAll(to); err != nil { // a broken one of the same entry: a whole one would not be taken again
		return fmt.Errorf("snapshot: %w", err)
	}
	if err := s.FS.Rename(dir, to); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return durable.SyncDir(s.FS, s.Root)
}
