//go:build chaosclock

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestStepped: the wall clock moves by the offset, and nothing that measures time on the monotonic clock sees it.
func TestStepped(t *testing.T) {
	for _, seconds := range []int64{3600, -3600, 1, 0} {
		before := time.Now()
		after := stepped(before, seconds)
		if got := after.Unix() - before.Unix(); got != seconds {
			t.Errorf("an offset of %d s moves the wall clock by %d s", seconds, got)
		}
		if after.Nanosecond() != before.Nanosecond() {
			t.Errorf("an offset of %d s changes the nanoseconds", seconds)
		}
		if got := after.Sub(before); got != 0 {
			t.Errorf("an offset of %d s moves the monotonic clock by %s", seconds, got)
		}
	}
}

// TestClock: the file is read at the start, a file that holds something else is refused, and without one the clock is the machine's.
func TestClock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "offset")
	if err := os.WriteFile(path, []byte("-3600\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	now, err := clock([]string{clockFile + "=" + path})
	if err != nil {
		t.Fatal(err)
	}
	if off := now().Unix() - time.Now().Unix(); off < -3601 || off > -3599 {
		t.Errorf("the clock is %d s off, want -3600", off)
	}
	if _, err := clock([]string{clockFile + "=" + path + ".not-there"}); err == nil {
		t.Error("a file that is not there was taken")
	}
	if now, err = clock(nil); err != nil || now().Unix()-time.Now().Unix() != 0 {
		t.Errorf("without a file the clock is not the machine's (%v)", err)
	}
}
