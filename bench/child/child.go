// Package child starts the processes that a benchmark needs, reads what they print, and ends them again.
//
// Each ends by its own pid and no other way: when it is told to, when its context ends, or when the benchmark that started it does. It
// knows no program in particular; package measure does.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Line is one line of a process's output and when it was read.
type Line struct {
	Text string
	At   time.Time
}

// Process is a started process.
type Process struct {
	cmd  *exec.Cmd
	name string
	done chan struct{}
	err  error // of Wait, once done is closed

	mu    sync.Mutex
	lines []Line
	grew  chan struct{} // closed and replaced when a line arrives
	hear  func(Line)
}

// Start starts a process whose two outputs are read line by line. It is killed when ctx ends. hear, when not nil, is called for each line
// as it comes.
func Start(ctx context.Context, name string, args, env []string, hear func(Line)) (*Process, error) {
	p := &Process{cmd: exec.CommandContext(ctx, name, args...), name: name, done: make(chan struct{}), grew: make(chan struct{}), hear: hear}
	p.cmd.Env = env
	p.cmd.WaitDelay = 5 * time.Second
	r, w := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = w, w
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		s := bufio.NewScanner(r)
		s.Buffer(nil, 64<<20)
		for s.Scan() {
			p.add(Line{s.Text(), time.Now()})
		}
		_, _ = io.Copy(io.Discard, r) // a line longer than the buffer must not block the process
	}()
	go func() {
		p.err = p.cmd.Wait()
		w.Close()
		<-read
		close(p.done)
	}()
	return p, nil
}

func (p *Process) add(l Line) {
	if p.hear != nil {
		p.hear(l)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, l)
	close(p.grew)
	p.grew = make(chan struct{})
}

// Pid is the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and all it printed was read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Lines are the lines printed so far.
func (p *Process) Lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]string, len(p.lines))
	for i, l := range p.lines {
		out[i] = l.Text
	}
	return out
}

// WaitLine waits for the first line that holds text.
func (p *Process) WaitLine(ctx context.Context, text string) (Line, error) {
	for at := 0; ; {
		p.mu.Lock()
		grew := p.grew
		for ; at < len(p.lines); at++ {
			if strings.Contains(p.lines[at].Text, text) {
				l := p.lines[at]
				p.mu.Unlock()
				return l, nil
			}
		}
		p.mu.Unlock()
		select {
		case <-grew:
		case <-p.done:
			select {
			case <-grew: // the last lines came with the end
			default:
				return Line{}, p.failure(fmt.Errorf("ended before it printed %q", text))
			}
		case <-ctx.Done():
			return Line{}, p.failure(fmt.Errorf("did not print %q: %w", text, context.Cause(ctx)))
		}
	}
}

// failure adds the last lines of the process to an error.
func (p *Process) failure(err error) error {
	lines := p.Lines()
	return fmt.Errorf("%s: %w; its last lines:\n  %s", p.name, err, strings.Join(lines[max(0, len(lines)-10):], "\n  "))
}

// Signal sends a signal to the process.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Stop asks the process to end (SIGTERM) and kills it when it has not within limit, which is an error. So is a failure of its own.
func (p *Process) Stop(limit time.Duration) error {
	p.Signal(syscall.SIGTERM)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		if p.err != nil {
			return p.failure(p.err)
		}
		return nil
	case <-timer.C:
		p.Kill()
		return p.failure(fmt.Errorf("did not end within %s of SIGTERM", limit))
	}
}

// Kill ends the process at once and waits until it is gone. It is safe to call twice.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Result waits for the end of a process that prints one JSON value as its last line, and reads that.
func (p *Process) Result(into any) error {
	<-p.done
	lines := p.Lines()
	if p.err != nil || len(lines) == 0 {
		return p.failure(errors.Join(p.err, errors.New("no result")))
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), into); err != nil {
		return p.failure(err)
	}
	return nil
}
