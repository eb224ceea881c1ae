package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"queen/config"
)

// The test binary is the program when this variable says so: signals and exit codes need a process.
const actAs = "TEST_ACT_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(actAs) {
	case "queen":
		os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
	case "abort":
		abort()
	}
	os.Exit(m.Run())
}

func command(t *testing.T, as string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self)
	c.Env = append(env, actAs+"="+as, "HOME="+os.Getenv("HOME"))
	return c
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		args      string
		code      int
		out, errs string
	}{
		{"version", exitOK, "queen 0.", ""},
		{"help", exitOK, "queen lake verify", ""},
		{"settings", exitOK, "QUEEN_S3_MAX_WINDOW_MS", ""},
		{"settings --markdown", exitOK, "| `QUEEN_S3_MAX_WINDOW_MS` | `300000` |", ""},
		{"settings --html", exitUsage, "", "settings takes"},
		{"serve", exitUsage, "", "queen: no command serve"},
		{"--port 1", exitUsage, "", "queen: no command --port"},
		{"lake verify --help", exitOK, "queen lake verify", ""},
		{"settings -h", exitOK, "queen settings", ""},
		{"lake", exitUsage, "", "lake takes ls, cat, stats, ddl or verify"},
		{"lake ls", exitUsage, "", "needs a TARGET"},
		{"lake ls a b", exitUsage, "", "one TARGET, not two: b"},
		{"lake ls --broker x a", exitUsage, "", "not defined: -broker"},
		{"lake ddl a", exitUsage, "", "lake ddl takes --for athena, clickhouse, duckdb, spark, trino"},
		{"lake ddl --for oracle a", exitUsage, "", "lake ddl takes --for athena"},
		{"lake stats --for duckdb a", exitUsage, "", "not defined: -for"},
		{"lake ddl --for duckdb /nonexistent", exitFailed, "", "no such file"},
		{"lake stats /nonexistent", exitFailed, "", "no such file"},
		{"lake verify --align week a", exitUsage, "", "--align takes hour, day or none"},
		{"lake verify --align hour /nonexistent", exitFailed, "", "no such file"},
		{"lake verify /nonexistent", exitFailed, "", "no such file"},
		{"lake verify s3://lake", exitConfig, "", "queen: QUEEN_S3_ENDPOINT is not set: it is"},
		{"lake ls --prefix a/../b /tmp", exitConfig, "", "QUEEN_S3_PREFIX=a/../b has a segment"},
	} {
		var out, errs bytes.Buffer
		code := run(strings.Fields(c.args), nil, &out, &errs)
		if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(), c.errs) {
			t.Errorf("queen %s: exit code %d\n%s%s", c.args, code, out.String(), errs.String())
		}
	}
}

func TestTargets(t *testing.T) {
	env := []string{"QUEEN_S3_ENDPOINT=http://127.0.0.1:1", "QUEEN_S3_REGION=r", "QUEEN_S3_ACCESS_KEY=a", "QUEEN_S3_SECRET_KEY=s",
		"QUEEN_S3_BUCKET=other", "QUEEN_S3_PREFIX=root", "QUEEN_S3_QUEUES=orders"}
	for target, want := range map[string]string{"s3://lake": "root", "s3://lake/": "root", "s3://lake/a/b/": "a/b", "folder": "root"} {
		a := lakeArgs{verb: "ls", target: target}
		_, o, _, err := a.open(env)
		if err != nil || o.Prefix != want {
			t.Errorf("%s: prefix %q %v", target, o.Prefix, err)
		}
	}
}

func TestRefusedBoot(t *testing.T) {
	c := command(t, "queen", "QUEEN_S3_EMBEDDED=true", "QUEEN_S3_QUEUES=orders", "QUEEN_S3_ENDPOINT=http://h", "QUEEN_S3_REGION=r",
		"QUEEN_S3_BUCKET=lake", "QUEEN_S3_ACCESS_KEY=k", "QUEEN_S3_SECRET_KEY=s", "QUEEN_S3_MAX_WINDOW_MS=50")
	text, err := c.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != config.ExitCode {
		t.Errorf("%v", err)
	}
	want := " ERROR boot: FATAL: QUEEN_S3_EMBEDDED=true: QUEEN_S3_MAX_WINDOW_MS=50 is outside 100..=86400000. It is how long a window may stay open; " +
		"the lag SLO is about this plus the safe lag\n"
	if !strings.HasSuffix(string(text), want) || strings.Count(string(text), "\n") != 1 {
		t.Errorf("%s", text)
	}
}

// running is a process that serves; its lines come out of logs.
type running struct {
	*exec.Cmd
	url   string
	lines []string
	rest  *bufio.Reader
}

// start runs queen until it says where it listens.
func start(t *testing.T, env ...string) *running {
	t.Helper()
	c := command(t, "queen", append([]string{"PORT=0", "QUEEN_BIND_ADDR=127.0.0.1", "QUEEN_RAFT_DIR=" + t.TempDir()}, env...)...) // the last of two counts
	pipe, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{Cmd: c, rest: bufio.NewReader(pipe)}
	for r.url == "" {
		line, err := r.rest.ReadString('\n')
		if err != nil {
			t.Fatalf("ended before it listened: %v %q", err, r.lines)
		}
		r.lines = append(r.lines, line)
		if _, after, ok := strings.Cut(line, "listening url="); ok {
			r.url, _, _ = strings.Cut(after, " ")
		}
		if _, after, ok := strings.Cut(line, `"url":"`); ok {
			r.url, _, _ = strings.Cut(after, `"`)
		}
	}
	return r
}

// end reads the rest of the output and returns how the process ended.
func (r *running) end(t *testing.T) (string, syscall.WaitStatus) {
	t.Helper()
	text, err := io.ReadAll(r.rest)
	if err != nil {
		t.Fatal(err)
	}
	r.Wait()
	return string(text), r.ProcessState.Sys().(syscall.WaitStatus)
}

func TestServeAndStop(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		began := time.Now()
		r := start(t)
		t.Logf("listening after %s", time.Since(began))
		resp, err := http.Get(r.url + "/health")
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("health: %v %v", resp, err)
		}
		resp.Body.Close()
		if err := r.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		text, status := r.end(t)
		if status.ExitStatus() != exitOK || !strings.Contains(text, " INFO queen: stopped\n") {
			t.Errorf("%s: exit code %d\n%s", s, status.ExitStatus(), text)
		}
	}
}

func TestPortTaken(t *testing.T) {
	r := start(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(r.url, "http://"), ":")
	second := command(t, "queen", "PORT="+port, "QUEEN_BIND_ADDR=127.0.0.1", "QUEEN_RAFT_DIR="+t.TempDir())
	text, _ := second.CombinedOutput()
	if second.ProcessState.ExitCode() != exitFailed || !strings.Contains(string(text), "ERROR boot: FATAL: listen on 127.0.0.1:"+port) {
		t.Errorf("exit code %d\n%s", second.ProcessState.ExitCode(), text)
	}
	r.Process.Kill()
	r.end(t)
}

// TestRefusedFolder: a start that is refused after the settings were read is one line too, which names the folder once.
func TestRefusedFolder(t *testing.T) {
	taken, spoiled := t.TempDir(), t.TempDir()
	r := command(t, "queen", "PORT=0", "QUEEN_BIND_ADDR=127.0.0.1", "QUEEN_RAFT_DIR="+spoiled)
	pipe, err := r.StderrPipe()
	if err == nil {
		err = r.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(pipe)
	for line := ""; !strings.Contains(line, "listening url="); {
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(spoiled, taken+"/data"); err != nil {
		t.Fatal(err)
	}
	refused := func(dir, want string) {
		t.Helper()
		c := command(t, "queen", "PORT=0", "QUEEN_BIND_ADDR=127.0.0.1", "QUEEN_RAFT_DIR="+dir)
		text, _ := c.CombinedOutput()
		if c.ProcessState.ExitCode() != exitFailed || strings.Count(string(text), "\n") != 1 || strings.Count(string(text), dir) != 1 ||
			!strings.Contains(string(text), " ERROR boot: FATAL: data folder "+dir+want) {
			t.Errorf("exit code %d\n%s", c.ProcessState.ExitCode(), text)
		}
	}
	refused(taken+"/data", " is in use by another process")
	r.Process.Kill()
	io.Copy(io.Discard, pipe)
	r.Wait()
	if err := os.WriteFile(spoiled+"/FORMAT", []byte("queen data 9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(spoiled, ` has the format "queen data 9"`)
}

// A request that does not end holds the stop; a second signal ends the process at once.
func TestSecondSignal(t *testing.T) {
	r := start(t)
	body, hold := io.Pipe()
	defer hold.Close()
	go func() {
		if resp, err := http.Post(r.url+"/api/v1/push", "application/json", body); err == nil {
			resp.Body.Close()
		}
	}()
	if _, err := hold.Write([]byte(`{"items":[`)); err != nil { // returns when the request is under way
		t.Fatal(err)
	}
	if err := r.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for line := ""; !strings.Contains(line, "a second signal ends it at once"); {
		var err error
		if line, err = r.rest.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	text, status := r.end(t)
	if status.ExitStatus() != 128+int(syscall.SIGTERM) || !strings.Contains(text, " WARN queen: ended at once") {
		t.Errorf("exit code %d\n%s", status.ExitStatus(), text)
	}
}

func TestAbort(t *testing.T) {
	c := command(t, "abort")
	c.Dir = t.TempDir() // a core file, where the system writes one, goes with it
	c.Run()
	if status := c.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGABRT {
		t.Errorf("ended by %v", c.ProcessState)
	}
}
