package dedup

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// outside is from how many bytes on the blocks of a filter lie outside of Go's heap. They may come to gigabytes, and the heap may grow by as much as
// lies on it before it is collected. Smaller ones stay on it: without them it is collected more often, and pushes cost 3 to 7 % more.
const outside = 64 << 20

// allocate gives a filter so many blocks, all zero. It reports whether there is memory for them; large ones are given back to the system when
// the filter is no longer used.
func (b *bloom) allocate(blocks uint64) bool {
	if blocks*blockBytes < outside {
		b.blocks = make([]block, blocks)
		return true
	}
	memory, err := syscall.Mmap(-1, 0, int(blocks*blockBytes), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return false // a limit of the system's: as if the number were smaller
	}
	b.blocks = unsafe.Slice((*block)(unsafe.Pointer(unsafe.SliceData(memory))), blocks)
	runtime.AddCleanup(b, unmap, memory)
	return true
}

func unmap(memory []byte) {
	if err := syscall.Munmap(memory); err != nil {
		panic(fmt.Sprintf("dedup: give %d bytes back: %v", len(memory), err)) // it is a whole mapping of ours
	}
}
