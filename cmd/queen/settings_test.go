package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"queen/config"
)

// flipped is a setting of the broker as a process has it, and what is seen of that process.
type flipped struct {
	env  []string
	want string
	see  func(t *testing.T, r *running) string
}

// brokerRows hold every setting of the scope Broker, at a usual value and away from it. start gives each process a port, an address and a folder.
func brokerRows(t *testing.T) map[string][]flipped {
	port := freePort(t)
	listens := func(_ *testing.T, r *running) string { return fmt.Sprint(strings.HasSuffix(r.url, ":"+port)) }
	dir := filepath.Join(t.TempDir(), "made", "here")
	folder := func(t *testing.T, r *running) string {
		_, err := os.Stat(filepath.Join(dir, "FORMAT"))
		return fmt.Sprint(err == nil)
	}
	node := func(t *testing.T, r *running) string {
		return word(request(t, r, "GET", "/status", ""), `"instance":"`, `"`)
	}
	body := func(t *testing.T, r *running) string {
		payload := `{"items":[{"queue":"q","partition":"p","payload":"` + strings.Repeat("x", 2000) + `"}]}`
		text := request(t, r, "POST", "/api/v1/push", payload)
		return text[:strings.IndexByte(text, ' ')]
	}
	lines := func(t *testing.T, r *running) string { return r.lines[0][:1] }
	block := func(t *testing.T, r *running) string {
		return fmt.Sprint(strings.Contains(request(t, r, "GET", "/status", ""), `"s3":{`))
	}
	sink := []string{"QUEEN_S3_EMBEDDED=true", "QUEEN_S3_QUEUES=q", "QUEEN_S3_ENDPOINT=http://127.0.0.1:" + freePort(t), "QUEEN_S3_REGION=r",
		"QUEEN_S3_BUCKET=b", "QUEEN_S3_ACCESS_KEY=a", "QUEEN_S3_SECRET_KEY=s", "QUEEN_S3_SHUTDOWN_GRACE_MS=100", "HOSTNAME=h-2"}
	with := func(more ...string) []string { return append(more, sink...) }
	raft := freePort(t)
	one := []string{"QUEEN_RAFT_PEERS=1=127.0.0.1:" + raft + "/127.0.0.1:1", "QUEEN_RAFT_TOKEN=a-token-of-this-cluster"}
	clustered := func(t *testing.T, r *running) string {
		for {
			line, err := r.rest.ReadString('\n')
			switch {
			case err != nil:
				t.Fatal(err)
			case strings.Contains(line, "one node of a cluster"):
				return "one of a cluster"
			case strings.Contains(line, "waits to be added"):
				return "waits"
			case strings.Contains(line, "the S3 sink is off"):
				return "alone"
			}
		}
	}
	listenAt := freePort(t)
	reached := func(_ *testing.T, _ *running) string {
		c, err := net.Dial("tcp", "127.0.0.1:"+listenAt)
		if err == nil {
			c.Close()
		}
		return fmt.Sprint(err == nil)
	}
	sealedDir := t.TempDir()
	sealed := func(t *testing.T, r *running) string { // how a push into a queue that is to be sealed ends, and whether its payload lies on the disk
		request(t, r, "POST", "/api/v1/configure", `{"queue":"q","options":{"encryptionEnabled":true}}`)
		text := request(t, r, "POST", "/api/v1/push", `{"items":[{"queue":"q","partition":"p","payload":"plain-to-be-seen"}]}`)
		return fmt.Sprint(word(" "+text, " ", " "), " ", lies(t, sealedDir, "plain-to-be-seen"))
	}
	return map[string][]flipped{
		"QUEEN_ENCRYPTION_KEY": {{[]string{"QUEEN_RAFT_DIR=" + filepath.Join(sealedDir, "a")}, "201 true", sealed},
			{[]string{"QUEEN_RAFT_DIR=" + filepath.Join(sealedDir, "b"), "QUEEN_ENCRYPTION_KEY=" + strings.Repeat("0f", 32)}, "201 false", sealed}},
		"QUEEN_RAFT_PEERS":     {{nil, "alone", clustered}, {one, "one of a cluster", clustered}},
		"QUEEN_RAFT_JOIN":      {{one, "one of a cluster", clustered}, {append(one[:len(one):len(one)], "QUEEN_RAFT_JOIN=true"), "waits", clustered}},
		"QUEEN_RAFT_LISTEN":    {{one, "false", reached}, {append(one[:len(one):len(one)], "QUEEN_RAFT_LISTEN=127.0.0.1:"+listenAt), "true", reached}},
		"PORT":                 {{nil, "false", listens}, {[]string{"PORT=" + port}, "true", listens}},
		"QUEEN_BIND_ADDR":      {{nil, "127.0.0.1", hostOf}, {[]string{"QUEEN_BIND_ADDR=127.0.0.2"}, "127.0.0.2", hostOf}},
		"QUEEN_RAFT_DIR":       {{nil, "false", folder}, {[]string{"QUEEN_RAFT_DIR=" + dir}, "true", folder}},
		"QUEEN_RAFT_NODE_ID":   {{with(), "node-1@h-2", node}, {with("QUEEN_RAFT_NODE_ID=7"), "node-7@h-2", node}, {with("QUEEN_RAFT_NODE_ID=ordinal"), "node-3@h-2", node}},
		"QUEEN_MAX_BODY_BYTES": {{nil, "201", body}, {[]string{"QUEEN_MAX_BODY_BYTES=1000"}, "413", body}},
		"QUEEN_LOG_FORMAT":     {{nil, "2", lines}, {[]string{"QUEEN_LOG_FORMAT=json"}, "{", lines}},
		"QUEEN_S3_EMBEDDED":    {{nil, "false", block}, {with(), "true", block}},
	}
}

// elsewhere are settings that one process alone does not show, and the tests that do.
var elsewhere = map[string]string{
	"QUEEN_RAFT_TOKEN":    "broker/peer, TestRefused: a node with another token is not spoken with",
	"QUEEN_RAFT_TLS_CERT": "broker/peer, TestTLSRefused: the certificate of another host is not spoken with",
	"QUEEN_RAFT_TLS_KEY":  "broker/peer, TestTLSFiles: a key that is none is refused",
	"QUEEN_RAFT_TLS_CA":   "broker/peer, TestTLSRefused: a certificate that another authority signed is not spoken with",
}

func hostOf(t *testing.T, r *running) string {
	host, _, err := net.SplitHostPort(strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// lies says whether a text is in any file below a folder, and removes them: the next process has another.
func lies(t *testing.T, dir, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || strings.Contains(string(data), text)
		return errors.Join(err, os.Remove(path))
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// word is what stands in a text between two others.
func word(text, before, after string) string {
	_, rest, _ := strings.Cut(text, before)
	found, _, _ := strings.Cut(rest, after)
	return found
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// request returns the status of an answer, a space and its body.
func request(t *testing.T, r *running, method, path, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, text)
}

// TestEverySettingOfTheBroker is contract S11 for what a broker is told: each setting, at a usual value and away from it, is seen on a process.
// A setting without a row fails; those of the sink have theirs in package sink.
func TestEverySettingOfTheBroker(t *testing.T) {
	rows := brokerRows(t)
	known := []string{}
	for _, s := range config.Settings() {
		if s.Scope == config.Broker {
			if known = append(known, s.Env); len(rows[s.Env]) < 2 && elsewhere[s.Env] == "" {
				t.Errorf("%s is flipped nowhere", s.Env)
			}
		}
	}
	for env, list := range rows {
		if !slices.Contains(known, env) {
			t.Errorf("%s is no setting of the broker", env)
		}
		for _, f := range list {
			t.Run(env+" "+f.want, func(t *testing.T) {
				r := start(t, f.env...)
				if got := f.see(t, r); got != f.want {
					t.Errorf("saw %q, want %q", got, f.want)
				}
				if err := r.Process.Signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				r.end(t)
			})
		}
	}
}
