package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"queen/test/harness"
)

// workVar tells the process inside which folder is its own; outside it is not set.
const workVar = "CHAOS_WORK"

// isolated runs this test once more in namespaces of its own for network, mounts and process ids. The test inside is process 1 there: when
// it ends, however it ends, the kernel kills all that it has started and takes interfaces and mounts away. The folder belongs to this test.
func isolated(t *testing.T, limit time.Duration) {
	if os.Geteuid() != 0 {
		t.Fatal("the suite makes network namespaces and mounts: run it as root")
	}
	work := t.TempDir()
	if _, err := harness.BuildInto(work, "-tags", "chaosclock"); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // the signal at the parent's death is one at this thread's
	defer runtime.UnlockOSThread()
	cmd := exec.Command(self, "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", limit.String())
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	for _, kv := range os.Environ() {
		if !strings.Contains(strings.ToLower(kv), "_proxy=") { // nothing leaves the network inside
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, workVar+"="+work, harness.BuiltVar+"="+work)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("the run inside: %v", err)
		}
	case sig := <-signals:
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		<-done
		t.Errorf("ended by signal: %v", sig)
	}
}

// settle makes the mounts of the process inside: none is seen outside.
func settle(t *testing.T) (work string) {
	t.Helper()
	work = os.Getenv(workVar)
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"none", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{"proc", "/proc", "proc", 0},
		{"run", "/run", "tmpfs", 0}, // ip netns keeps its names here
	} {
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			t.Fatalf("mount %s: %v", m.target, err)
		}
	}
	return work
}

// disk is a small file system of one node, whose size can be changed.
type disk struct{ dir string }

// diskRoom is what a node has to itself, more than half an hour of the load fills; memory is taken for what it writes.
const diskRoom = 6 << 30

func newDisk(t testing.TB, dir string) *disk {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("disk", dir, "tmpfs", 0, fmt.Sprintf("size=%d", diskRoom)); err != nil {
		t.Fatalf("mount %s: %v", dir, err)
	}
	return &disk{dir}
}

// fill leaves no more than left bytes free.
func (d *disk) fill(left int64) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(d.dir, &st); err != nil {
		return err
	}
	return d.resize(int64(st.Blocks-st.Bfree)*st.Bsize + left)
}

func (d *disk) free() error { return d.resize(diskRoom) }

func (d *disk) resize(size int64) error {
	if err := syscall.Mount("disk", d.dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", size)); err != nil {
		return fmt.Errorf("resize %s to %d: %w", filepath.Base(d.dir), size, err)
	}
	return nil
}
