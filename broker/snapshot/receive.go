package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/internal/durable"
)

// incomingName is the folder of a snapshot that another node sends.
const incomingName = "incoming"

// Incoming takes the stream of Send and makes a snapshot of it. Whatever goes wrong, no snapshot was added, and those that were there are as they were.
//
// What has not come in yet of the part that is being read is in head; a file's content goes to the disk as it comes.
type Incoming struct {
	disk vfs.FS
	root string
	want Manifest // its Seed (zeros: any), Applied and Term

	head     []byte
	manifest *Manifest // nil until the list of files is in
	next     int       // index of the file that is being read, or whose checksum is
	file     vfs.File
	rest     int64
	piece    []byte // a vfs.File may change what it is given, and what a Write is given is its caller's
	sum      hash.Hash32
	err      error // the first one: nothing is taken after it
}

// Receive begins to take a snapshot that stands at an entry. What an earlier attempt left is removed.
func Receive(disk vfs.FS, root string, seed [16]byte, applied, term uint64) (*Incoming, error) {
	if err := disk.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("receive a snapshot: %w", err)
	}
	in := &Incoming{disk: disk, root: root, want: Manifest{Seed: seed, Applied: applied, Term: term}}
	if err := CleanIncoming(disk, root); err != nil {
		return nil, err
	}
	for _, part := range []string{stateName, segmentsName} {
		if err := disk.MkdirAll(in.path(part), 0o755); err != nil {
			return nil, fmt.Errorf("receive a snapshot: %w", err)
		}
	}
	return in, durable.SyncDir(disk, disk.PathDir(root))
}

// CleanIncoming removes what a transfer that broke off left.
func CleanIncoming(disk vfs.FS, root string) error {
	if err := disk.RemoveAll(disk.PathJoin(root, incomingName)); err != nil {
		return fmt.Errorf("remove a snapshot that did not come in whole: %w", err)
	}
	return nil
}

func (in *Incoming) path(name string) string {
	return in.disk.PathJoin(in.root, incomingName, in.disk.PathJoin(strings.Split(name, "/")...))
}

// Write takes the next bytes.
func (in *Incoming) Write(b []byte) (int, error) {
	for n := 0; n < len(b); {
		if in.err != nil {
			return n, in.err
		}
		took, err := in.take(b[n:])
		n += took
		if err != nil {
			in.err = fmt.Errorf("receive a snapshot: %w", err)
		}
	}
	return len(b), in.err
}

// take reads of b what belongs to the part that is next.
func (in *Incoming) take(b []byte) (int, error) {
	switch {
	case in.manifest == nil:
		return in.takeList(b)
	case in.next == len(in.manifest.Files):
		return 0, errors.New("bytes behind its end")
	case in.file == nil:
		if err := in.open(); err != nil {
			return 0, err
		}
	}
	if in.rest > 0 {
		n := int(min(int64(len(b)), in.rest))
		in.sum.Write(b[:n])
		in.piece = append(in.piece[:0], b[:n]...)
		if _, err := in.file.Write(in.piece); err != nil {
			return 0, err
		}
		in.rest -= int64(n)
		return n, nil
	}
	n := in.fill(b, sumBytes)
	if len(in.head) < sumBytes {
		return n, nil
	}
	return n, in.end()
}

// fill adds to head what it lacks of size bytes.
func (in *Incoming) fill(b []byte, size int) int {
	n := min(len(b), size-len(in.head))
	in.head = append(in.head, b[:n]...)
	return n
}

func (in *Incoming) takeList(b []byte) (int, error) {
	const before = len(streamHead) + 4
	if len(in.head) < before {
		n := in.fill(b, before)
		if len(in.head) == before && string(in.head[:len(streamHead)]) != streamHead {
			return n, fmt.Errorf("it begins with %q, this binary reads %q", in.head[:len(streamHead)], streamHead)
		}
		return n, nil
	}
	size := int(binary.BigEndian.Uint32(in.head[len(streamHead):]))
	if size > maxText {
		return 0, fmt.Errorf("a list of files of %d bytes", size)
	}
	n := in.fill(b, before+size)
	if len(in.head) < before+size {
		return n, nil
	}
	m, err := decode(in.head[before:])
	if err != nil {
		return n, fmt.Errorf("the list of its files: %w", err)
	}
	switch none := [16]byte{}; {
	case in.want.Seed != none && m.Seed != in.want.Seed:
		return n, fmt.Errorf("it is of the cluster with the seed %x, this node is of %x", m.Seed, in.want.Seed)
	case m.Applied != in.want.Applied || m.Term != in.want.Term:
		return n, fmt.Errorf("it stands at entry %d of term %d, entry %d of term %d was announced", m.Applied, m.Term, in.want.Applied, in.want.Term)
	}
	in.manifest, in.head = m, nil
	return n, nil
}

// open begins the next file. An empty one is complete at once, but for its checksum.
func (in *Incoming) open() (err error) {
	f := in.manifest.Files[in.next]
	if folder, name, found := strings.Cut(f.Path, "/"); found && (strings.Contains(name, "/") || folder != stateName && folder != segmentsName) {
		return fmt.Errorf("a file %s, which is no part of a snapshot", f.Path)
	}
	in.file, err = in.disk.Create(in.path(f.Path), vfs.WriteCategoryUnspecified)
	in.rest, in.sum = f.Length, crc32.New(crc32.MakeTable(crc32.Castagnoli))
	return err
}

// end compares the checksum in head, and makes the file durable.
func (in *Incoming) end() error {
	f := in.manifest.Files[in.next]
	got := binary.BigEndian.Uint32(in.head)
	in.head = in.head[:0]
	err := in.file.Sync()
	err = errors.Join(err, in.file.Close())
	in.file = nil
	in.next++
	if err == nil && got != in.sum.Sum32() {
		return fmt.Errorf("%s was damaged on its way: its checksum differs", f.Path)
	}
	if err == nil && f.Summed && f.Sum != in.sum.Sum32() {
		return fmt.Errorf("%s is damaged where it comes from: its checksum differs", f.Path)
	}
	return err
}

// Whole makes what came in durable and complete, still in its own place, and returns it.
func (in *Incoming) Whole() (Found, error) {
	if in.err == nil && (in.manifest == nil || in.next < len(in.manifest.Files)) {
		in.err = errors.New("receive a snapshot: it broke off")
	}
	if in.err != nil {
		return Found{}, errors.Join(in.err, in.Drop())
	}
	for _, part := range []string{stateName, segmentsName} {
		if err := durable.SyncDir(in.disk, in.path(part)); err != nil {
			return Found{}, err
		}
	}
	found := At(in.disk, in.root, in.manifest)
	found.Dir = in.disk.PathJoin(in.root, incomingName)
	return found, durable.WriteFile(in.disk, found.Dir, manifestName, in.manifest.encode())
}

// Keep makes it one of the folder's snapshots, durably. Whole comes before it.
func (in *Incoming) Keep() error {
	to := in.disk.PathJoin(in.root, folderName(in.manifest.Applied))
	if err := in.disk.RemoveAll(to); err != nil {
		return fmt.Errorf("receive a snapshot: %w", err)
	}
	if err := in.disk.Rename(in.disk.PathJoin(in.root, incomingName), to); err != nil {
		return fmt.Errorf("receive a snapshot: %w", err)
	}
	return durable.SyncDir(in.disk, in.root)
}

// Drop removes what came in.
func (in *Incoming) Drop() error {
	if in.file != nil {
		if err := in.file.Close(); err != nil {
			return err
		}
		in.file = nil
	}
	return CleanIncoming(in.disk, in.root)
}
