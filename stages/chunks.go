package stages

import (
	"sync"
	"sync/atomic"
)

// Release gives the chunk's memory back. Data must not be touched from then on. A second release of a chunk is a panic: its bytes would be
// another window's already.
func (c Chunk) Release() {
	if c.Buffer != nil {
		c.Buffer.release()
	}
}

// Chunks is where the memory of chunks comes from and goes back to: without it each MiB of an object would be garbage, and what the collector
// lets lie counts as memory. It never refuses, since who encodes has its memory reserved before it begins; it holds no more than was out at
// once, and what is not used goes away with the collections of garbage, so that an idle sink holds none. The zero value is ready; it is safe
// for concurrent use.
type Chunks struct {
	free sync.Pool // of *Buffer
	out  atomic.Int64
}

// Buffer is the memory of one chunk, ChunkBytes of it.
type Buffer struct {
	from  *Chunks
	bytes []byte
	taken atomic.Bool
}

// Take returns a buffer that nobody else has. What it holds is what was left in it.
func (c *Chunks) Take() *Buffer {
	b, ok := c.free.Get().(*Buffer)
	if !ok {
		b = &Buffer{from: c, bytes: make([]byte, ChunkBytes)}
	}
	b.taken.Store(true)
	c.out.Add(1)
	return b
}

// Out is how many bytes are taken and not released.
func (c *Chunks) Out() int64 { return c.out.Load() * ChunkBytes }

// Bytes is the memory itself, ChunkBytes long.
func (b *Buffer) Bytes() []byte { return b.bytes }

func (b *Buffer) release() {
	if !b.taken.CompareAndSwap(true, false) {
		panic("stages: a chunk is released that is not out")
	}
	b.from.out.Add(-1)
	b.from.free.Put(b)
}
