//go:build chaosclock

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"
)

// clockFile names the variable with the path of a file that holds an offset, whole seconds. What is written there moves the wall clock
// of this process within a tenth of a second, and not its monotonic clock, as settimeofday does to a machine.
const (
	clockFile = "CHAOS_CLOCK_FILE"
	clockLook = 100 * time.Millisecond
)

// clock returns the clock of a process whose wall clock a test moves. It is in no build but those with the tag chaosclock.
func clock(environ []string) (func() time.Time, error) {
	path := ""
	for _, set := range environ {
		if v, ok := strings.CutPrefix(set, clockFile+"="); ok {
			path = v
		}
	}
	if path == "" {
		return time.Now, nil
	}
	first, err := clockOffset(path)
	if err != nil {
		return nil, err
	}
	var seconds atomic.Int64
	seconds.Store(first)
	go func() { // as long as the process
		for range time.Tick(clockLook) {
			if n, err := clockOffset(path); err == nil { // it is being written: look again
				seconds.Store(n)
			}
		}
	}()
	return func() time.Time { return stepped(time.Now(), seconds.Load()) }, nil
}

func clockOffset(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", clockFile, err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %s does not hold whole seconds: %w", clockFile, path, err)
	}
	return n, nil
}

// wallSecond is one second in the first word of a time.Time that has a monotonic reading: the low 30 bits are nanoseconds.
const wallSecond = 1 << 30

// stepped moves the wall clock of t and leaves its monotonic reading: time.Add moves both, and then a step would look like time that
// has passed. The layout is that of go1.9 to today; TestStepped finds it out when it changes.
func stepped(t time.Time, seconds int64) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(seconds * wallSecond)
	return t
}
