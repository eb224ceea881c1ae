package harness

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a child whose output lines can be waited for.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has been reaped
	err  error         // after done

	mu    sync.Mutex
	lines []string
	grew  chan struct{} // closed and replaced when a line arrives
}

// Start starts a process, which ends with the test at the latest.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{cmd: cmd, done: make(chan struct{}), grew: make(chan struct{})}
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that Kill ends what a tracer traces, too
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		s := bufio.NewScanner(r)
		s.Buffer(nil, 16<<20)
		for s.Scan() {
			p.add(s.Text())
		}
	}()
	go func() {
		p.err = cmd.Wait()
		w.Close()
		<-read
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("last lines of %s:\n%s", cmd.Path, strings.Join(p.tail(60), "\n"))
		}
	})
	return p
}

func (p *Process) add(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line)
	close(p.grew)
	p.grew = make(chan struct{})
}

func (p *Process) tail(n int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines[max(0, len(p.lines)-n):]...)
}

// Lines returns every line printed so far.
func (p *Process) Lines() []string { return p.tail(1 << 30) }

// Count returns how many lines so far hold text.
func (p *Process) Count(text string) int {
	n := 0
	for _, l := range p.Lines() {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}

// WaitLine returns the first line that holds text.
func (p *Process) WaitLine(text string, limit time.Duration) (string, error) {
	timeout := time.After(limit)
	for at := 0; ; {
		p.mu.Lock()
		grew := p.grew
		for ; at < len(p.lines); at++ {
			if strings.Contains(p.lines[at], text) {
				defer p.mu.Unlock()
				return p.lines[at], nil
			}
		}
		p.mu.Unlock()
		select {
		case <-grew:
		case <-p.done:
			if p.Count(text) == 0 {
				return "", fmt.Errorf("process ended (%v) before it printed %q", p.err, text)
			}
		case <-timeout:
			return "", fmt.Errorf("no line with %q within %s", text, limit)
		}
	}
}

// Signal sends sig to the process.
func (p *Process) Signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// Kill ends the process and its children at once (SIGKILL) and waits until they are gone. It is safe to call twice.
func (p *Process) Kill() {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
	}
}

// Wait waits for the end of the process and returns its exit code; a process ended by signal s returns 128 + s.
func (p *Process) Wait(limit time.Duration) (int, error) {
	select {
	case <-p.done:
	case <-time.After(limit):
		return 0, fmt.Errorf("process still runs after %s", limit)
	}
	st := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if st.Signaled() {
		return 128 + int(st.Signal()), nil
	}
	return st.ExitStatus(), nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Attach starts a tracer on a running process and waits until the kernel says that it is traced.
func Attach(t testing.TB, traced *Process, line ...string) *Process {
	t.Helper()
	p := Start(t, exec.Command(line[0], line[1:]...))
	Eventually(t, 10*time.Second, func() (bool, string) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", traced.Pid()))
		return err == nil && !strings.Contains(string(status), "TracerPid:\t0\n"), fmt.Sprint(err)
	})
	return p
}

// FreePort returns a loopback port that was free a moment ago.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Eventually looks until ok says yes, at most limit, and fails with what the last look said.
func Eventually(t testing.TB, limit time.Duration, ok func() (bool, string)) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(limit)
	for {
		yes, state := ok()
		if yes {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("not within %s: %s", limit, state)
		}
	}
}
