// Package machine says on what and from what a number was measured: the machine, the state of it, and the commit.
//
// A number without this line is not worth printing. Only Linux is known here, as everywhere in the benchmarks.
package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Machine is where a benchmark ran.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	RAM    int64  `json:"ramBytes"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Commit string `json:"commit"` // short hash, with -dirty when the tree differs from it
}

// Read asks the system and, in the folder dir, git.
func Read(ctx context.Context, dir string) (Machine, error) {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m, err
	}
	m.CPU = ParseModel(string(cpu))
	mem, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return m, err
	}
	if m.RAM, err = ParseTotal(string(mem)); err != nil {
		return m, err
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return m, err
	}
	m.Kernel = strings.TrimSpace(string(kernel))
	m.Commit, err = commit(ctx, dir)
	return m, err
}

// String is the machine on one line.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %.0f GiB, Linux %s, %s, commit %s", m.CPU, m.Cores, float64(m.RAM)/(1<<30), m.Kernel, m.Go, m.Commit)
}

// Slug names the machine in the name of a file: the processor and how many cores, in lower case.
func (m Machine) Slug() string {
	words := strings.FieldsFunc(strings.ToLower(m.CPU), func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9') })
	return strings.Join(append(words, strconv.Itoa(m.Cores), "cores"), "-")
}

// ParseModel finds the name of the processor in the text of /proc/cpuinfo.
func ParseModel(text string) string {
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(name) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return runtime.GOARCH
}

// ParseTotal finds the memory in bytes in the text of /proc/meminfo.
func ParseTotal(text string) (int64, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			fields := strings.Fields(value)
			if len(fields) != 2 || fields[1] != "kB" {
				break
			}
			n, err := strconv.ParseInt(fields[0], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("meminfo: no MemTotal")
}

// Load is the system's load averages, as /proc/loadavg has them: of 1, 5 and 15 minutes.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

const tmpfs = 0x01021994

// OnDisk refuses a folder in memory: fsync costs nothing there, and a number measured so would not be one of a broker.
func OnDisk(dir string) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if int64(s.Type) == tmpfs {
		return fmt.Errorf("%s is in memory (tmpfs), where fsync costs nothing: name a folder on a disk with -work", dir)
	}
	return nil
}

func commit(ctx context.Context, dir string) (string, error) {
	head, err := git(ctx, dir, "rev-parse", "--short=7", "HEAD")
	if err != nil {
		return "", err
	}
	changed, err := git(ctx, dir, "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return "", err
	}
	if changed != "" {
		head += "-dirty"
	}
	return head, nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--no-optional-locks"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
