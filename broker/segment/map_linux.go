package segment

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// populateRead is MADV_POPULATE_READ of Linux 5.14, which package syscall does not name.
const populateRead = 22

// populateStep is how much is asked for in one call, bytes, so that an end of the context is heard in between.
const populateStep = 4 << 20

// mapFile maps the first size bytes of a file for reading. The mapping stays when the file is closed.
func mapFile(fd uintptr, size int64) ([]byte, error) {
	if int64(int(size)) != size {
		return nil, errors.New("the file is larger than the address space")
	}
	data, err := syscall.Mmap(int(fd), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	return data, nil
}

// tryAhead brings the pages of a mapping into memory. A slow disk is waited for here, inside a system call that holds no processor of the
// runtime: a page that is only missed when it is used stops every goroutine that would have run on that processor. It is advice: what a kernel
// does not do, or can't, is left to the faults.
func tryAhead(ctx context.Context, data []byte) {
	for ; len(data) > 0 && ctx.Err() == nil; data = data[min(len(data), populateStep):] {
		step := data[:min(len(data), populateStep)]
		if err := syscall.Madvise(step, populateRead); errors.Is(err, syscall.EINVAL) {
			_ = syscall.Madvise(data, syscall.MADV_WILLNEED)
			return
		}
	}
}

func unmapFile(data []byte) error { return syscall.Munmap(data) }
