package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"queen/test/harness"
)

// node is one of the cluster: a queen process in its network, on its folder. Faults are played by one goroutine, which alone starts and
// ends its process.
type node struct {
	t      testing.TB
	id     int
	url    string
	dir    string
	clock  string // the file with the offset of its wall clock, seconds
	disk   *disk  // nil: it is on the disk of the machine
	env    []string
	doomed string // why its process may end by itself; empty: it may not

	mu  sync.Mutex
	p   *harness.Process
	all []*harness.Process
}

func newNode(t testing.TB, id, nodes int, work string, env harness.Env) *node {
	t.Helper()
	n := &node{t: t, id: id, url: fmt.Sprintf("http://%s:%d", nodeAddr(id), httpPort), dir: filepath.Join(work, fmt.Sprintf("node-%d", id))}
	n.clock = filepath.Join(work, fmt.Sprintf("clock-%d", id))
	if err := n.setClock(0); err != nil {
		t.Fatal(err)
	}
	var peers []string
	for i := 1; i <= nodes; i++ {
		peers = append(peers, fmt.Sprintf("%d=%s:%d/%s:%d", i, nodeAddr(i), raftPort, nodeAddr(i), httpPort))
	}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "QUEEN_") {
			n.env = append(n.env, kv)
		}
	}
	own := env.With("QUEEN_RAFT_NODE_ID", fmt.Sprint(id), "QUEEN_RAFT_PEERS", strings.Join(peers, ","), "QUEEN_RAFT_TOKEN", "chaos",
		"QUEEN_RAFT_DIR", n.dir, "PORT", fmt.Sprint(httpPort), "CHAOS_CLOCK_FILE", n.clock)
	n.env = append(n.env, own.List()...)
	return n
}

// setClock moves the wall clock of the node's processes, this one and the next.
func (n *node) setClock(seconds int) error {
	next := n.clock + ".next"
	if err := os.WriteFile(next, []byte(fmt.Sprint(seconds)), 0o644); err != nil {
		return err
	}
	return os.Rename(next, n.clock)
}

func (n *node) start() {
	bins, err := harness.Build()
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := exec.Command("ip", "netns", "exec", fmt.Sprintf("n%d", n.id), bins.Queen) // ip becomes the program: one process
	cmd.Env = n.env
	p := harness.Start(n.t, cmd)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.p = p
	n.all = append(n.all, p)
}

func (n *node) process() *harness.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.p
}

// processes are all that ran on this node, the running one too.
func (n *node) processes() []*harness.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]*harness.Process(nil), n.all...)
}

func (n *node) kill() { n.process().Kill() }

func (n *node) ended() bool {
	select {
	case <-n.process().Done():
		return true
	default:
		return false
	}
}

// stop ends the process in order and wants exit code 0.
func (n *node) stop() error {
	n.process().Signal(syscall.SIGTERM)
	code, err := n.process().Wait(stopLimit)
	if err != nil { // what its goroutines wait for goes to its lines
		n.process().Signal(syscall.SIGQUIT)
		_, ended := n.process().Wait(stopLimit)
		err = errors.Join(err, ended)
	} else if code != 0 {
		err = fmt.Errorf("exit code %d after SIGTERM", code)
	}
	if err != nil {
		return fmt.Errorf("node %d: %w\n%s", n.id, err, n.lastLines(15))
	}
	return nil
}

// stopLimit is more than a stop may take: the sink's grace of 5 s, the hand-over of 3, a flush.
const stopLimit = 40 * time.Second

func (n *node) lastLines(count int) string {
	lines := n.process().Lines()
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}

// health is what /health says; ok is its status 200.
type health struct {
	ok   bool
	Raft struct {
		Role         string
		Term         uint64
		Applied      uint64
		Commit       uint64
		StorageReady bool
	}
}

func (h health) leads() bool { return h.ok && h.Raft.Role == "leader" }

// client is for questions that a healthy node answers at once.
func client(limit time.Duration) *http.Client {
	return &http.Client{Timeout: limit, Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: limit / 2}).DialContext, MaxIdleConnsPerHost: 4,
		IdleConnTimeout: 5 * time.Second}}
}

func (n *node) health(c *http.Client) (health, error) {
	var h health
	status, err := n.get(c, "/health", &h)
	h.ok = status == http.StatusOK
	return h, err
}

func (n *node) get(c *http.Client, path string, into any) (int, error) {
	resp, err := c.Get(n.url + path)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, json.Unmarshal(body, into)
}

// row is a queue in the status of a node's sink.
type row struct {
	Name          string
	OwnedHere     bool
	State         string
	K             int64
	BufferedBytes int64
	LastError     *struct{ Message string }
}

func (n *node) rows(c *http.Client) ([]row, error) {
	var s struct {
		S3 struct{ Sinks []struct{ Queues []row } }
	}
	if _, err := n.get(c, "/status", &s); err != nil {
		return nil, err
	}
	var out []row
	for _, sink := range s.S3.Sinks {
		out = append(out, sink.Queues...)
	}
	return out, nil
}
