package mutation

import (
	"fmt"
	"testing"
)

// placementTable is the same for the queues of several nodes: each rule of who claims, who gives back and who waits, taken out once.
var placementTable = []mutation{
	{invariant: "S7", why: "a node whose lease ran out counts for as long as its presence row lives",
		file: "sink/placement/book.go", old: "n.out = true", new: "n.out = false",
		pkg: "sink/placement", test: "TestKilledOwner", says: "three each"},
	{invariant: "S7", why: "who was counted out stays out when it is back",
		file: "sink/placement/book.go", old: "n.version, n.out = r.Version, false", new: "n.version = r.Version",
		pkg: "sink/placement", test: "TestReturn", says: "its share"},
	{invariant: "S7", why: "a node takes more than its share at once",
		file: "sink/placement/decide.go", old: "\t\twait += b.o.TTL\n", new: "\t\twait += 0\n",
		pkg: "sink/placement", test: "TestStartTogether", says: "6 queues"},
	{invariant: "S7", why: "who runs more queues claims as soon as who runs fewer",
		file: "sink/placement/decide.go", old: "time.Duration(size.Load+ahead)*perQueue", new: "time.Duration(0*size.Load)*perQueue",
		pkg: "sink/placement", test: "TestStartTogether", says: "7 queues"},
	{invariant: "S7", why: "the wait grows with the load without a limit",
		file: "sink/placement/decide.go", old: "time.Duration(size.Load+ahead)*perQueue, longest)", new: "time.Duration(size.Load+ahead)*perQueue, time.Hour+longest)",
		pkg: "sink/placement", test: "TestLongestWait", says: "those of the dead one"},
	{invariant: "S7", why: "a node claims before the others can count it",
		file: "sink/placement/decide.go", old: "max(max(w.free, b.here)+wait, w.rest)", new: "max(w.free+wait, w.rest)",
		pkg: "sink/placement", test: "TestStartIntoAFailingStore", says: "a=6"},
	{invariant: "S7", why: "a queue is given back as soon as there is one too many",
		file: "sink/placement/decide.go", old: "now-b.over >= b.o.TTL && ", new: "",
		pkg: "sink/placement", test: "TestLateJoiner", says: "nothing may within a time to live"},
	{invariant: "S7", why: "the next queue is given back before anybody has the last",
		file: "sink/placement/decide.go", old: ` && b.giving.queue == "" && b.alive(now)`, new: " && b.alive(now)",
		pkg: "sink/placement", test: "TestStaggeredStart", says: "without an owner at once"},
	{invariant: "S7", why: "a node that is probably dead is given a queue",
		file: "sink/placement/decide.go", old: ` && b.giving.queue == "" && b.alive(now)`, new: ` && b.giving.queue == ""`,
		pkg: "sink/placement", test: "TestBriefNode", says: "stops=false"},
	{invariant: "S7", why: "nobody takes what was given back, and the giver waits for ever",
		file: "sink/placement/decide.go", old: "} else if now-g.released < b.o.TTL {", new: "} else {",
		pkg: "sink/placement", test: "TestTranscripts", says: "give_back"},
	{invariant: "S7", why: "the giver claims at once what it gave back",
		file: "sink/placement/decide.go", old: "w.rest, w.claimed = now+2*b.o.TTL, false", new: "w.rest, w.claimed = now, false",
		pkg: "sink/placement", test: "TestCoolDown", says: "claimed again after"},
	{invariant: "S7", why: "the cool-down holds although the one who took the queue is dead",
		file: "sink/placement/book.go", old: "w.rest = 0 //", new: "//",
		pkg: "sink/placement", test: "TestCoolDown", says: "the dead one's"},
	{invariant: "S7", why: "the fullest queue is given back",
		file: "sink/placement/decide.go", old: "cmp.Compare(x.Buffered, y.Buffered)", new: "cmp.Compare(y.Buffered, x.Buffered)",
		pkg: "sink/placement", test: "TestLeastIsGiven", says: "a kept"},
	{invariant: "S7", why: "rows that a node gave back when it stopped are looked at in their turn",
		file: "sink/placement/book.go", old: "\t\t\tw.expires = min(w.expires, now)\n", new: "",
		pkg: "sink/placement", test: "TestStop", says: "half each"},
	{invariant: "S7", why: "the presence row stays after a stop",
		file: "sink/sink.go", old: "\ts.tryLeave(ctx)\n", new: "",
		pkg: "sink", test: "TestCluster", says: "those of the one that stopped"},
	{invariant: "S7", why: "the presence of others is forgotten when the own row cannot be written",
		file: "sink/place.go", old: "\tif err != nil {\n\t\treturn err\n\t}\n\tnodes :=", new: "\tif err != nil {\n\t\ts.place.book.Nodes(s.moment(), nil)\n\t\treturn err\n\t}\n\tnodes :=",
		pkg: "sink", test: "TestBeatBacksOff", says: "2 were read last"},
	{invariant: "S3", why: "a node that starts again under its name waits for its own leases",
		file: "sink/placement/decide.go", old: "\tif w.own(b) {\n\t\treturn max(b.here, w.rest)", new: "\tif w.own(b) {\n\t\treturn max(w.expires, w.rest)",
		pkg: "sink/placement", test: "TestRestart", says: "its own"},
	{invariant: "S3", why: "a queue that was lost is looked at again at once",
		file: "sink/judge.go", old: "return verdict{commit.WholeTTL(q.s.cfg.LeaseTTL), true}", new: "return verdict{0, true}",
		pkg: "sink", test: "TestIdleQueueIsFenced", says: "noticed"},
	{invariant: "S3", why: "a lease that could not be given back is refreshed for ever",
		file: "commit/refresh.go", old: "\t\t\tgaveBack(rest)\n", new: "",
		pkg: "commit", test: "TestReleaseGivesUp", says: "a lease that was given up is written"},
	{invariant: "S3", why: "a queue that cannot finish is never given back",
		file: "sink/place.go", old: "since >= s.cfg.ShutdownGrace", new: "since < 0",
		pkg: "sink", test: "TestGiveBackOfWhatCannotFinish", says: "hanging: released"},
	{invariant: "S4", why: "a paused owner's pointer is not fenced",
		file: "commit/ledger.go", old: "fence, err := g.lease.fence()", new: "fence, err := g.lease.fence(); fence.Required = row != committed",
		pkg: "sink", test: "TestPausedOwnerIsRefused", says: "not within 2s: refused"},
	{invariant: "S4", why: "a paused owner thinks that its lease lives for an hour",
		file: "commit/lease.go", old: "if d := sent.Add(l.ttl()); d.After(l.deadline) {", new: "if d := sent.Add(l.ttl() + time.Hour); d.After(l.deadline) {",
		pkg: "sink", test: "TestPausedOwnerSendsNothing", says: "requests after the lease's time to live"},
}

// TestPlacementCanBeBroken does for placement what TestEachInvariantCanBeBroken does for the argument.
func TestPlacementCanBeBroken(t *testing.T) {
	t.Run("green", func(t *testing.T) { green(t, placementTable) })
	for i, m := range placementTable {
		t.Run(fmt.Sprintf("%02d %s: %s", i+1, m.invariant, m.why), func(t *testing.T) { red(t, m) })
	}
}
