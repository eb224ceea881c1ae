// Package processors knows how many processors the process may use, and gives Go's scheduler one more than that while it is asked to.
//
// Go runs no more goroutines at once than there are processors, and takes one from a goroutine that computes only after 10 ms. When all
// are taken by compressors and readers, whoever wakes up to take a push a step further waits that long, at each of its steps. With one more it gets a
// thread at once, and the system shares the processors out: it prefers who has had little of them, by the ms. Beside a busy sink the slowest
// hundredth of pushes took 10 ms then, instead of 35 to 40 (2 cores, 20,000 messages a second).
//
// It costs a push that finds idle processors about 5 %, so it is for the time in which windows are written beside pushes (node/tuning.go).
package processors

import (
	"runtime"
	"sync"
)

// GOMAXPROCS is of the process, and so is this.
var (
	mu    sync.Mutex
	extra int // of GOMAXPROCS: 0 or 1
)

// Count is how many processors the process may use.
func Count() int {
	mu.Lock()
	defer mu.Unlock()
	return runtime.GOMAXPROCS(0) - extra
}

// Extra gives the scheduler one processor more than there are, or takes it back. It stops all goroutines for some 20 us when it changes anything. Call it
// only where nobody else has set GOMAXPROCS: what is taken back to is Go's default.
func Extra(on bool) {
	mu.Lock()
	defer mu.Unlock()
	switch {
	case on && extra == 0:
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
		extra = 1
	case !on && extra == 1:
		runtime.SetDefaultGOMAXPROCS()
		extra = 0
	}
}
