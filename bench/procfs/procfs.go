// Package procfs reads what Linux says of a process: processor time, anonymous memory, and the goroutines of a stack dump.
//
// It only reads, and only files of one pid. Parsing is apart from reading, so that it is tested on stored text.
package procfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticks is USER_HZ, the unit of the times in /proc/<pid>/stat: 100 a second on every Linux that Go runs on.
const ticks = 100

// CPU returns the processor time that a process has used, all of its threads, user and system. Its resolution is 10 ms.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return ParseStat(string(text))
}

// Ended is the processor time of all processes that this one started and that have ended.
func Ended() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ParseStat reads utime and stime from the text of /proc/<pid>/stat. The command name may hold spaces and parentheses.
func ParseStat(text string) (time.Duration, error) {
	end := strings.LastIndexByte(text, ')')
	if end < 0 {
		return 0, errors.New("stat: no command name")
	}
	fields := strings.Fields(text[end+1:]) // from field 3, the state
	if len(fields) < 13 {
		return 0, fmt.Errorf("stat: %d fields behind the command name", len(fields))
	}
	var sum int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("stat: %w", err)
		}
		sum += n
	}
	return time.Duration(sum) * (time.Second / ticks), nil
}

// Memory is what /proc/<pid>/status says of a process's memory, in bytes.
type Memory struct {
	Anon int64 // RssAnon: what the process itself has allocated and touched, without mapped files
	RSS  int64 // VmRSS
	High int64 // VmHWM: the most that VmRSS ever was, mapped files included
}

// ReadMemory reads the memory of a process.
func ReadMemory(pid int) (Memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, err
	}
	return ParseStatus(string(text))
}

// ParseStatus reads the text of /proc/<pid>/status.
func ParseStatus(text string) (Memory, error) {
	var m Memory
	found := 0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		var into *int64
		switch name {
		case "RssAnon":
			into = &m.Anon
		case "VmRSS":
			into = &m.RSS
		case "VmHWM":
			into = &m.High
		default:
			continue
		}
		number, unit, _ := strings.Cut(strings.TrimSpace(value), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || unit != "kB" {
			return m, fmt.Errorf("status: %s is %q", name, strings.TrimSpace(value))
		}
		*into = n << 10
		found++
	}
	if found != 3 {
		return m, fmt.Errorf("status: %d of RssAnon, VmRSS and VmHWM", found)
	}
	return m, nil
}

// HighWater samples the memory of a process until ctx ends or the process is gone, and returns the most that was seen of each value.
// What comes and goes between two samples is not seen.
func HighWater(ctx context.Context, pid int, every time.Duration) Memory {
	var high Memory
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		m, err := ReadMemory(pid)
		if err != nil {
			return high
		}
		high = Memory{Anon: max(high.Anon, m.Anon), RSS: max(high.RSS, m.RSS), High: max(high.High, m.High)}
		select {
		case <-ctx.Done():
			return high
		case <-tick.C:
		}
	}
}

// Goroutines counts the goroutines of a stack dump, as SIGQUIT makes a Go program print it.
func Goroutines(lines []string) int {
	n := 0
	for _, l := range lines {
		rest, ok := strings.CutPrefix(l, "goroutine ")
		if !ok || !strings.HasSuffix(l, ":") {
			continue
		}
		id, _, _ := strings.Cut(rest, " ")
		if v, err := strconv.Atoi(id); err == nil && v > 0 { // goroutine 0 is the scheduler's stack
			n++
		}
	}
	return n
}
