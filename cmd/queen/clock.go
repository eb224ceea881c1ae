//go:build !chaosclock

package main

import "time"

// clock returns the clock of this process: the machine's. Builds for chaos tests have another one (clock_chaos.go).
func clock([]string) (func() time.Time, error) { return time.Now, nil }
