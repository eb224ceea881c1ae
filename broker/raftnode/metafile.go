package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft-wal/types"

	"queen/broker/command/wire"
	"queen/internal/durable"
)

// The meta file (docs/formats.md section 1.2).
const (
	metaName    = "meta"
	metaMagic   = "QUEENMET"
	metaVersion = 1
	metaHeader  = 16
	metaSegment = 68 // bytes of a file of the log
)

// metaFile is the meta store of raft-wal: which files the log has, and raft's term and vote. It is one small file, replaced whole
// at each change (temporary name, sync, rename, folder sync), so it is never torn: bytes that do not fit its checksum are
// damage, and refused. raft-wal's own store, bbolt, falls back to an older state when its newest one is damaged, and
// raft-wal then removes the files of the log that this older state does not know.
//
// Changes are rare: an election, a new file of the log.
type metaFile struct {
	fs vfs.FS

	mu     sync.Mutex
	path   string // empty before Load
	dir    string
	state  types.PersistentState
	stable map[string][]byte
}

var _ types.MetaStore = (*metaFile)(nil)

var errMetaClosed = errors.New("the meta file is not open")

// Load reads the file, or makes it in a folder that holds no log.
func (m *metaFile) Load(dir string) (types.PersistentState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dir, m.path = dir, m.fs.PathJoin(dir, metaName)
	m.state, m.stable = types.PersistentState{}, make(map[string][]byte)
	text, err := m.read()
	if errors.Is(err, fs.ErrNotExist) {
		return m.state, m.make()
	}
	if err != nil {
		return m.state, fmt.Errorf("read %s: %w", m.path, err)
	}
	if m.state, m.stable, err = decodeMeta(text); err != nil {
		return m.state, fmt.Errorf("%s: %w: restore the folder from a copy", m.path, err)
	}
	return cloneState(m.state), nil
}

func (m *metaFile) read() ([]byte, error) {
	f, err := m.fs.Open(m.path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	return text, errors.Join(err, f.Close())
}

// make writes the first, empty file. A folder that holds a log has lost its meta file: going on would remove that log.
func (m *metaFile) make() error {
	names, err := m.fs.List(m.dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", m.dir, err)
	}
	for _, name := range names {
		if name == markFile || strings.HasSuffix(name, ".wal") || strings.HasSuffix(name, ".db") {
			return fmt.Errorf("%s is missing but the folder holds %s: restore the folder from a copy", m.path, name)
		}
	}
	return m.replace(m.state, m.stable)
}

// replace puts a new content on the disk and then in memory. It needs mu.
func (m *metaFile) replace(s types.PersistentState, stable map[string][]byte) error {
	if m.path == "" {
		return errMetaClosed
	}
	if err := durable.WriteFile(m.fs, m.dir, metaName, encodeMeta(s, stable)); err != nil {
		return err
	}
	m.state, m.stable = s, stable
	return nil
}

// CommitState replaces the list of the log's files.
func (m *metaFile) CommitState(s types.PersistentState) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.replace(cloneState(s), m.stable)
}

// GetStable returns a value, nil when there is none.
func (m *metaFile) GetStable(key []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.path == "" {
		return nil, errMetaClosed
	}
	return slices.Clone(m.stable[string(key)]), nil
}

// SetStable stores a value; nil removes it.
func (m *metaFile) SetStable(key, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	stable := maps.Clone(m.stable)
	if value == nil {
		delete(stable, string(key))
	} else {
		stable[string(key)] = slices.Clone(value)
	}
	return m.replace(m.state, stable)
}

// Close ends the use of the store; nothing is open in between.
func (m *metaFile) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.path = ""
	return nil
}

func cloneState(s types.PersistentState) types.PersistentState {
	s.Segments = slices.Clone(s.Segments)
	return s
}

func encodeMeta(s types.PersistentState, stable map[string][]byte) []byte {
	b := append([]byte(nil), metaMagic...)
	b = binary.BigEndian.AppendUint16(b, metaVersion)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint64(b, s.NextSegmentID)
	b = binary.AppendUvarint(b, uint64(len(s.Segments)))
	for _, f := range s.Segments {
		for _, n := range []uint64{f.ID, f.BaseIndex, f.MinIndex, f.MaxIndex, f.Codec, f.IndexStart, nanos(f.CreateTime), nanos(f.SealTime)} {
			b = binary.BigEndian.AppendUint64(b, n)
		}
		b = binary.BigEndian.AppendUint32(b, f.SizeLimit)
	}
	b = binary.AppendUvarint(b, uint64(len(stable)))
	for _, key := range slices.Sorted(maps.Keys(stable)) {
		b = wire.AppendBytes(wire.AppendString(b, key), stable[key])
	}
	binary.BigEndian.PutUint32(b[metaHeader-4:], metaSum(b))
	return b
}

// metaSum is the CRC32C of everything but the place of the checksum itself.
func metaSum(b []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(b[:metaHeader-4], table), table, b[metaHeader:])
}

func decodeMeta(b []byte) (s types.PersistentState, stable map[string][]byte, err error) {
	if len(b) < metaHeader || string(b[:8]) != metaMagic || metaSum(b) != binary.BigEndian.Uint32(b[metaHeader-4:]) {
		return s, nil, errors.New("checksum differs, the file is damaged")
	}
	if v := binary.BigEndian.Uint16(b[8:]); v != metaVersion {
		return s, nil, fmt.Errorf("version %d is not known", v)
	}
	if binary.BigEndian.Uint16(b[10:]) != 0 {
		return s, nil, errors.New("reserved bytes are set")
	}
	r := wire.NewReader(b[metaHeader:])
	s.NextSegmentID = r.U64()
	for range r.Count(metaSegment) {
		f := types.SegmentInfo{ID: r.U64(), BaseIndex: r.U64(), MinIndex: r.U64(), MaxIndex: r.U64(), Codec: r.U64(), IndexStart: r.U64()}
		f.CreateTime, f.SealTime = fromNanos(r.U64()), fromNanos(r.U64())
		f.SizeLimit = r.U32()
		s.Segments = append(s.Segments, f)
	}
	n := r.Count(2)
	stable = make(map[string][]byte, n)
	last := ""
	for i := range n {
		key := r.String()
		if i > 0 && key <= last {
			r.Failf("keys do not rise")
		}
		stable[key], last = slices.Clone(r.Bytes()), key
	}
	return s, stable, r.End()
}

// nanos writes the zero time, which raft-wal takes for "not yet", as 0.
func nanos(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixNano())
}

func fromNanos(n uint64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(n))
}
