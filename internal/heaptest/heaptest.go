// Package heaptest measures what lives on the heap, for tests that hold code to the memory that it promises.
package heaptest

import "runtime"

// Live returns the bytes in use after collections that also empty all pools.
func Live() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
