package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Addresses inside: node i is nodeAddr(i) behind a link of its own; the store is at hub, which is this process, as the clients are.
const (
	hub      = "10.77.0.254"
	httpPort = 6632
	raftPort = 7400
)

func nodeAddr(i int) string { return fmt.Sprintf("10.77.%d.1", i) }

// network joins the nodes by a router, which is the namespace of this process. A cut is a rule of the router: what the one sends to the
// other goes nowhere, without an answer, as on a cable that is cut. What clients and the store exchange with a node passes.
type network struct {
	cuts map[[2]int]bool // from, to
}

func newNetwork(t testing.TB, nodes int) *network {
	t.Helper()
	lines := []string{"link set lo up", "addr add " + hub + "/32 dev lo"}
	for i := 1; i <= nodes; i++ {
		n := fmt.Sprintf("n%d", i)
		gate := fmt.Sprintf("10.77.%d.254", i)
		lines = append(lines, "netns add "+n, fmt.Sprintf("link add v%d type veth peer name eth0 netns %s", i, n),
			fmt.Sprintf("addr add %s/24 dev v%d", gate, i), fmt.Sprintf("link set v%d up", i), "-n "+n+" addr add "+nodeAddr(i)+"/24 dev eth0",
			"-n "+n+" link set lo up", "-n "+n+" link set eth0 up", "-n "+n+" route add default via "+gate)
	}
	for _, l := range lines {
		if err := ip(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	return &network{cuts: map[[2]int]bool{}}
}

func ip(line string) error {
	if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", line, err, out)
	}
	return nil
}

// cut drops what node from sends to node to.
func (n *network) cut(from, to int) error { return n.rule("add", from, to) }

// mend ends a cut.
func (n *network) mend(from, to int) error { return n.rule("del", from, to) }

func (n *network) rule(verb string, from, to int) error {
	if n.cuts[[2]int{from, to}] == (verb == "add") {
		return nil
	}
	if err := ip(fmt.Sprintf("rule %s priority %d from %s to %s blackhole", verb, 100+10*from+to, nodeAddr(from), nodeAddr(to))); err != nil {
		return err
	}
	n.cuts[[2]int{from, to}] = verb == "add"
	return nil
}

// heal ends all cuts.
func (n *network) heal() error {
	for pair, cut := range n.cuts {
		if cut {
			if err := n.mend(pair[0], pair[1]); err != nil {
				return err
			}
		}
	}
	return nil
}
