package mutation

import (
	"fmt"
	"testing"
)

// clusterTable is the same for the raft cluster: each line that stands between a fault of a node, a disk or a link and what was acknowledged, taken out once.
var clusterTable = []mutation{
	{invariant: "votes", why: "nodes without an address of their own are one node in votes",
		file: "broker/raftnode/fresh.go", old: "return []byte(at(id, address))", new: `_, _ = id, address; return []byte("/")`,
		pkg: "broker/raftnode", test: "TestOneVoteATerm", says: "gave its vote of one term to the nodes"},
	{invariant: "votes", why: "nodes without an address of their own are one node in votes: seen as two leaders",
		file: "broker/raftnode/fresh.go", old: "return []byte(at(id, address))", new: `_, _ = id, address; return []byte("/")`,
		pkg: "broker/raftnode", test: "TestOneLeaderATerm", says: "has the leaders"},
	{invariant: "votes", why: "a node runs on another node's log, and gives its votes again",
		file: "broker/raftnode/fresh.go", old: "if len(value) > 0 && string(value) != n.o.NodeID {", new: "if false {",
		pkg: "broker/raftnode", test: "TestAnotherNodesFolder", says: "node 3 runs on the log of node 2"},
	{invariant: "lead", why: "a node leads although its state is being replaced",
		file: "broker/raftnode/lead.go", old: "if n.machine.replaced.Load() { //", new: "if false { //",
		pkg: "broker/raftnode", test: "TestAReplacedNodeDoesNotLead", says: "its state is being replaced"},
	{invariant: "lead", why: "a leader that has followed for long believes its own wall clock at once",
		file: "broker/raftnode/catchup.go", old: "n.clock.begun = true", new: "_ = n.clock.begun",
		pkg: "broker/raftnode", test: "TestANewLeaderProvesItsLeap", says: "of leading the log clock is"},
	{invariant: "log", why: "a full disk behind an end that was taken back counts as any full disk",
		file: "broker/raftnode/logs.go", old: "errors.Is(err, syscall.ENOSPC) && !l.cut.Load()", new: "errors.Is(err, syscall.ENOSPC)",
		pkg: "broker/raftnode", test: "TestFullDiskAfterTheEndWasTakenBack", says: "goes on with a log of which it does not know the end"},
	{invariant: "log", why: "the mark is not taken back before the end of the log is",
		file: "broker/raftnode/store.go", old: "s.mark.lower(left)", new: "s.mark.note(left)",
		pkg: "broker/raftnode", test: "TestPowerLossWhileTheEndIsTakenBack", says: "was acknowledged"},
	{invariant: "log", why: "the mark is taken back, and not durably",
		file: "broker/raftnode/mark.go", old: "\tif err := m.sync(); err != nil {\n", new: "\tif err := error(nil); err != nil {\n",
		pkg: "broker/raftnode", test: "TestPowerLossWhileTheEndIsTakenBack", says: "was acknowledged"},
	{invariant: "log", why: "one record of the mark keeps what it was",
		file: "broker/raftnode/mark.go", old: "\tfor range markSlots {\n", new: "\tfor range 1 {\n",
		pkg: "broker/raftnode", test: "TestPowerLossWhileTheEndIsTakenBack", says: "was acknowledged"},
	{invariant: "log", why: "a damaged entry counts as one of another leader, and the log is emptied",
		file: "broker/raftnode/boot.go", old: "if err := l.GetLog(index, &at); err != nil {", new: "if err := l.GetLog(index, &at); err != nil && false {",
		pkg: "broker/raftnode", test: "TestContinueRefusesADamagedEntry", says: "with a damaged entry"},
	{invariant: "network", why: "a call carries whatever its eight entries have",
		file: "broker/raftnode/transport.go", old: "size > maxAppend {", new: "size > maxAppend<<10 {",
		pkg: "broker/raftnode", test: "TestLargeEntriesToAFollowerThatIsBehind", says: "one call carried"},
}

// TestClusterCanBeBroken does for the raft cluster what TestEachInvariantCanBeBroken does for the argument.
func TestClusterCanBeBroken(t *testing.T) {
	t.Run("green", func(t *testing.T) { green(t, clusterTable) })
	for i, m := range clusterTable {
		t.Run(fmt.Sprintf("%02d %s: %s", i+1, m.invariant, m.why), func(t *testing.T) { red(t, m) })
	}
}
