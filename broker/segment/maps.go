package segment

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/stages"
)

// maxMaps is how many segments stay mapped although nobody reads them now: 16 GiB of addresses, at most 32 MiB of page tables. mapsPerCall
// is how many one call of Bodies may want: one that wants more reads instead, so that a large window does not map and unmap all the time.
const (
	maxMaps     = 256
	mapsPerCall = maxMaps / 4
)

// maps keeps segments mapped for readers.
//
// A mapping lives from the first acquire until the last release after it was closed or pushed out: a reader never sees it go. Pages that are
// mapped belong to the kernel, which takes them back when it needs memory. Files of a store are only cut in Settle, before anything is mapped;
// those that are removed later (Store.Remove) are whole as long as somebody has them mapped.
type maps struct {
	fs   vfs.FS
	mu   sync.Mutex
	open map[mapKey]*mapping
	uses uint64
	none bool // the file system has no files that could be mapped
	shut bool
}

type mapKey struct {
	queue stages.QueueID
	seg   uint32
}

// mapping is one segment from its first byte on. refs, used and gone are guarded by maps.mu; data is set once, before ready is done.
type mapping struct {
	key   mapKey
	size  int64
	ready sync.Once
	data  []byte // size bytes; nil when it can't be mapped
	path  string
	refs  int
	used  uint64
	gone  bool // out of the table: the last release unmaps
}

// acquire returns a mapping of at least the first `least` bytes of a segment, which has size bytes now, with its pages asked for; or nil when
// it can't be mapped: then it has to be read, and whoever reads it finds out why. The first caller maps; those who come meanwhile wait for
// it, and nobody else does.
func (m *maps) acquire(ctx context.Context, key mapKey, path string, least, size int64) *mapping {
	m.mu.Lock()
	if m.shut || m.none {
		m.mu.Unlock()
		return nil
	}
	x := m.open[key]
	if x != nil && x.size < least {
		m.drop(x)
		x = nil
	}
	if x == nil {
		x = &mapping{key: key, path: path, size: size}
		m.open[key] = x
	}
	m.uses++
	x.refs, x.used = x.refs+1, m.uses
	m.mu.Unlock()
	x.ready.Do(func() {
		if x.data = m.tryMap(x.path, x.size); x.data != nil {
			tryAhead(ctx, x.data)
		}
	})
	if x.data == nil {
		m.release(x)
		return nil
	}
	return x
}

// tryMap maps a file, or returns nil.
func (m *maps) tryMap(path string, size int64) []byte {
	f, err := m.fs.Open(path)
	if err != nil {
		return nil
	}
	data, err := mapOpen(f, size)
	if errors.Is(err, errors.ErrUnsupported) {
		m.mu.Lock()
		m.none = true
		m.mu.Unlock()
	}
	if f.Close() != nil || err != nil {
		return nil
	}
	return data
}

func mapOpen(f vfs.File, size int64) ([]byte, error) {
	if f.Fd() == vfs.InvalidFd {
		return nil, errors.ErrUnsupported
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < size {
		return nil, fmt.Errorf("%d bytes of %d", info.Size(), size)
	}
	return mapFile(f.Fd(), size)
}

// release gives a mapping back.
func (m *maps) release(x *mapping) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x.refs--
	if x.data == nil && !x.gone { // the next one tries again
		x.gone = true
		delete(m.open, x.key)
	}
	if x.gone && x.refs == 0 {
		x.tryUnmap()
	}
	if len(m.open) <= maxMaps {
		return
	}
	var oldest *mapping
	for _, y := range m.open {
		if y.refs == 0 && (oldest == nil || y.used < oldest.used) {
			oldest = y
		}
	}
	if oldest != nil {
		m.drop(oldest)
	}
}

// drop takes a mapping out of the table and unmaps it when nobody reads it. It needs mu.
func (m *maps) drop(x *mapping) {
	x.gone = true
	delete(m.open, x.key)
	if x.refs == 0 {
		x.tryUnmap()
	}
}

// forget unmaps a segment that is about to be removed, when nobody reads it any more.
func (m *maps) forget(key mapKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.open[key]; x != nil {
		m.drop(x)
	}
}

// tryUnmap: nobody can do anything about an address range that stays mapped, and nothing is lost by it.
func (x *mapping) tryUnmap() {
	if x.data != nil {
		_ = unmapFile(x.data)
		x.data = nil
	}
}

// close unmaps what nobody reads; who still reads unmaps the rest with its release.
func (m *maps) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shut = true
	for _, x := range m.open {
		m.drop(x)
	}
}
