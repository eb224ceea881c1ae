package segment

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// maxHandles is how many files stay open for reading although nobody reads them now.
const maxHandles = 256

// handles keeps files open for readers, by path. A file is opened once for all readers and closed when nobody uses it and
// more than maxHandles are open.
type handles struct {
	fs   vfs.FS
	mu   sync.Mutex
	open map[string]*handle
	uses uint64
	shut bool
}

type handle struct {
	vfs.File
	path string
	refs int
	used uint64
	gone bool // the file was removed: the last release closes
}

func (h *handles) acquire(path string) (*handle, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shut {
		return nil, errors.New("segment store is closed")
	}
	x := h.open[path]
	if x == nil {
		f, err := h.fs.Open(path)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		x = &handle{File: f, path: path}
		h.open[path] = x
	}
	h.uses++
	x.refs, x.used = x.refs+1, h.uses
	return x, nil
}

// tryClose closes a file that was only read: nothing can be lost by it, so nobody needs its error.
func (x *handle) tryClose() { _ = x.Close() }

// release gives a handle back.
func (h *handles) release(x *handle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x.refs--
	if h.shut || x.gone {
		if x.refs == 0 {
			x.tryClose()
		}
		return
	}
	if len(h.open) <= maxHandles {
		return
	}
	var oldest *handle
	for _, y := range h.open {
		if y.refs == 0 && (oldest == nil || y.used < oldest.used) {
			oldest = y
		}
	}
	if oldest != nil {
		delete(h.open, oldest.path)
		oldest.tryClose()
	}
}

// forget closes a file that is about to be removed, when nobody reads it any more.
func (h *handles) forget(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.open[path]
	if x == nil {
		return
	}
	delete(h.open, path)
	if x.gone = true; x.refs == 0 {
		x.tryClose()
	}
}

// close closes what nobody uses; who still reads closes the rest with its release.
func (h *handles) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shut = true
	for _, x := range h.open {
		if x.refs == 0 {
			x.tryClose()
		}
	}
	clear(h.open)
}
