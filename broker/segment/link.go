package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/stages"
)

// Linked is a file of a queue's log that was linked into a folder.
type Linked struct {
	Name   string // in that folder: docs/formats.md section 6.1
	Length int64  // bytes that belong to the log; a segment that is still appended to may be longer
}

// Link makes hard links, in a folder that exists, of the segments of an attached queue up to a tail that it had, except those dropped by then, and of their index files. It
// copies nothing and may run beside Append: what lies below the tail is never changed, and what lies behind it is cut off when the
// links are used (Attach, Settle). The caller has synced what the tail names, and syncs the folder. Index files can be
// made again, so one that is not there is left out.
func (s *Store) Link(queue stages.QueueID, to Tail, dropped Dropped, folder string) ([]Linked, error) {
	var links []Linked
	dir := s.queueDir(queue)
	for seg := uint32(1); seg <= to.Seg; seg++ {
		if dropped.Has(seg) {
			continue
		}
		length := to.Len
		if seg < to.Seg {
			info, err := s.o.FS.Stat(s.o.FS.PathJoin(dir, segmentName(seg)))
			if err != nil {
				return nil, fmt.Errorf("link segment: %w", err)
			}
			length = info.Size()
		}
		name := linkName(queue, segmentName(seg))
		if err := s.link(dir, segmentName(seg), folder, name); err != nil {
			return nil, err
		}
		links = append(links, Linked{name, length})
		index, err := s.linkIndex(queue, dir, seg, folder)
		if err != nil {
			return nil, err
		}
		links = append(links, index...)
	}
	return links, nil
}

// linkIndex links the index of a segment. That of the last one may be made between the tail and now, of more than the tail names: Attach
// takes it for what it is.
func (s *Store) linkIndex(queue stages.QueueID, dir string, seg uint32, folder string) ([]Linked, error) {
	info, err := s.o.FS.Stat(s.o.FS.PathJoin(dir, indexName(seg)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("link index: %w", err)
	}
	name := linkName(queue, indexName(seg))
	return []Linked{{name, info.Size()}}, s.link(dir, indexName(seg), folder, name)
}

func (s *Store) link(dir, name, folder, as string) error {
	from := s.o.FS.PathJoin(dir, name)
	if err := s.o.FS.Link(from, s.o.FS.PathJoin(folder, as)); err != nil {
		return fmt.Errorf("link %s: %w", from, err)
	}
	return nil
}

// linkName is the name of a queue's file in a folder of links: one folder for all queues, since each costs a sync.
func linkName(queue stages.QueueID, file string) string {
	return fmt.Sprintf("%016x-%s", uint64(queue), file)
}

// Unlink lays files of a folder of links out as a store has them: hard links in folders of their queues below dir, which exists. All
// folders are synced.
func Unlink(disk vfs.FS, folder string, names []string, dir string) error {
	s := &Store{o: Options{FS: disk, Dir: dir}}
	var last string
	for _, name := range names {
		word, file, found := strings.Cut(name, "-")
		queue, err := strconv.ParseUint(word, 16, 64)
		if _, _, ok := parseName(file); !found || err != nil || !ok || name != linkName(stages.QueueID(queue), file) {
			return fmt.Errorf("%s is not the name of a queue's file", disk.PathJoin(folder, name))
		}
		to := s.queueDir(stages.QueueID(queue))
		if to != last {
			if err := disk.MkdirAll(to, 0o755); err != nil {
				return fmt.Errorf("make %s: %w", to, err)
			}
			s.markDir(to)
			last = to
		}
		if err := s.link(folder, name, to, file); err != nil {
			return err
		}
	}
	s.markDir(dir)
	return s.Sync()
}
