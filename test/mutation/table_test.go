package mutation

// The five invariants of docs/DESIGN.md section 3.
const (
	stamps  = "stamps"
	set     = "set"
	bytes   = "bytes"
	fence   = "fence"
	pointer = "pointer"
)

// The audits that live beside the product and are named below:
//
//	broker/state  a mirror that asks for what moved and reads up to the safe time
//	broker        windows listed and committed one after another over the rows of a real broker
//	sink          a sink over a broker and a bucket in memory; at the end every record is looked for in the bucket
var table = []mutation{
	{
		invariant: stamps, why: "the stamp is what was proposed, not what the applied log allows",
		file: "broker/state/apply.go", old: "m.now = max(proposed, before+1)", new: "m.now = proposed",
		pkg: "broker/state", test: "TestNothingIsStampedBelowASafeTime", says: "appends lost",
	},
	{
		invariant: stamps, why: "two pushes may share a stamp, so one may get a stamp that was reported as closed",
		file: "broker/state/apply.go", old: "m.now = max(proposed, before+1)", new: "m.now = max(proposed, before)",
		pkg: "broker/state", test: "TestNothingIsStampedBelowASafeTime", says: "appends lost",
	},
	{
		invariant: stamps, why: "the safe time is shown when an entry arrives, before its effects can be read",
		file: "broker/state/apply.go", old: "steps, err := decode(entry)",
		new: "early, _ := command.Decode(entry); s.now.Store(int64(early[len(early)-1].Time)); steps, err := decode(entry)",
		pkg: "broker/state", test: "TestSafeTimeComesLast", says: "appends lost",
	},
	{
		invariant: set, why: "a window may end above the safe time",
		file: "source/headers.go", old: "h.Log.Safe().Add(-h.Guard)", new: "h.Log.Safe().Add(h.Guard)",
		pkg: "sink", test: "TestNothingJoinsAListedWindow", says: "lost: record",
	},
	{
		invariant: set, why: "a window is filled up to above the safe time by the row that its queue is between two passes",
		file: "source/discovery.go", old: "f.d.o.Log.Safe().Add(-f.d.o.Guard)", new: "f.d.o.Log.Safe().Add(f.d.o.Guard)",
		pkg: "sink", test: "TestNothingJoinsAListedWindow", says: "lost: record",
	},
	{
		invariant: set, why: "a window is filled up to above the safe time by a look",
		file: "source/discovery.go", old: "ceiling := safe.Add(-d.o.Guard)", new: "ceiling := safe.Add(d.o.Guard)",
		pkg: "source", test: "TestDiscovery", says: "filled with",
	},
	{
		invariant: set, why: "a window holds what is stamped at its end, too",
		file: "broker/log.go", old: "Live(start, end)", new: "Live(start, end+1)",
		pkg: "broker", test: "TestWindowsTile", says: "doubled: append",
	},
	{
		invariant: set, why: "a window begins behind the stamp that the one before ended at",
		file: "broker/log.go", old: "Live(start, end)", new: "Live(start+1, end)",
		pkg: "broker", test: "TestWindowsTile", says: "lost: append",
	},
	{
		invariant: set, why: "retention takes records out of an open window",
		file: "broker/state/retain.go", old: "p.frozen = retention.Frozen(p.sinks)", new: "p.frozen = nil",
		pkg: "broker", test: "TestEachRecordOnce", says: "is listed otherwise than before",
	},
	{
		invariant: set, why: "what was lost before an open window grows while the window is open",
		file: "broker/state/lost.go", old: "row.first >= l.grows && ", new: "",
		pkg: "broker", test: "TestEachRecordOnce", says: "is listed otherwise than before",
	},
	{
		invariant: set, why: "what is lost behind a window is reported in it already, and again in its own",
		file: "broker/state/lost.go", old: "l.first >= from && l.first < before", new: "l.first >= from",
		pkg: "broker", test: "TestEachRecordOnce", says: "is listed otherwise than before",
	},
	{
		invariant: set, why: "what a sink has in the lake counts as lost when it is removed",
		file: "broker/state/retain.go", old: "h.TS < s.Position || ", new: "",
		pkg: "broker", test: "TestEachRecordOnce", says: "and the broker told of",
	},
	{
		invariant: set, why: "what is in a window that a sink has open counts as lost to it when it is removed",
		file: "broker/state/retain.go", old: "s.Open.From <= h.TS && h.TS < s.Open.To {", new: "false {",
		pkg: "broker", test: "TestEachRecordOnce", says: "and the broker told of",
	},
	{
		invariant: set, why: "a queue that is made again takes the place of one whose window is open",
		file: "broker/queues.go", old: "if !is {", new: "if row2, is2 := r.Queue(q.tenant, name); is2 { row, is = row2, is2 } else if !is {",
		pkg: "broker", test: "TestEachRecordOnce", says: "is listed otherwise than before",
	},
	{
		invariant: set, why: "retention does not wait for a sink that keeps up",
		file: "broker/retention/rules.go", old: "return await(cutoff, sinks)", new: "_ = await; return max(cutoff, 0)",
		pkg: "broker", test: "TestRetentionWaitsForASinkThatKeepsUp", says: "records in objects",
	},
	{
		invariant: set, why: "files of segments go before the state on the disk does without them",
		file: "broker/state/reclaim.go", old: "s.flushRows()", new: "error(nil)",
		pkg: "broker/state", test: "TestCrashRemoved", says: "are wanted",
	},
	{
		invariant: set, why: "a segment goes from which a boot would still learn what readers have passed",
		file: "broker/state/reclaim.go", old: "last >= q.heads.removed || ", new: "",
		pkg: "broker/state", test: "TestCrashRemoved", says: "readers see something else",
	},
	{
		invariant: set, why: "the position is read back from the pointer in milliseconds",
		file: "stages/rows.go", old: "p.End, err = ParseISO(iso)", new: "p.End, err = ParseISO(iso); p.End = p.End / 1000 * 1000",
		pkg: "broker", test: "TestWindowsTile", says: "doubled: append",
	},
	{
		invariant: set, why: "a window can be listed although it is committed: a late owner lists nothing and puts that",
		file: "broker/window.go", old: "case pointer.K+1 != k:", new: "case pointer.K > k:",
		pkg: "broker", test: "TestWindowsTile", says: "a late owner would put them over",
	},
	{
		invariant: set, why: "where a queue starts is decided again by the next life",
		file: "commit/adopt.go", old: "if r.targets[start].Version == 0 {", new: "if r.targets[committed].Version == 0 {",
		pkg: "sink", test: "TestStartIsDecidedOnce", says: "lost: record",
	},
	{
		invariant: set, why: "an open intent is not redone; its window is cut again, with another end",
		file: "commit/adopt.go", old: "if in.K == g.k+1 {", new: "if in.K == g.k+2 {",
		pkg: "sink", test: "TestRedoKeepsTheIntent", says: "doubled: record",
	},
	{
		invariant: set, why: "a read that comes up short is taken for the whole window",
		file: "encode/rows/worker.go", old: "if err == nil && next != len(t.appends) {", new: "if false {",
		pkg: "sink", test: "TestShortReadFailsTheWindow", says: "lost: record",
	},
	{
		invariant: bytes, why: "the number of cores decides how zstd compresses",
		file: "encode/codec/zstd.go", old: "zstd.WithEncoderConcurrency(zstdConcurrency),", new: "",
		pkg: "sink", test: "TestRedoIsTheSameOnAnyNode", says: "was put with 2 contents",
	},
	{
		invariant: bytes, why: "the encoder's concurrency is 1: quietly another stream under the same encoder id",
		file: "encode/codec/zstd.go", old: "zstdConcurrency = 2", new: "zstdConcurrency = 1",
		pkg: "encode", test: "TestP19GoldenBytes", says: "other bytes need another Encoder()",
	},
	{
		invariant: bytes, why: "a redo uses the settings of today",
		file: "commit/begin.go", old: "job.Intent = *b.g.open",
		new: "job.Intent = *b.g.open; job.Intent.Compression, job.Intent.Align = b.o.Pins.Compression, b.o.Pins.Align",
		pkg: "sink", test: "TestRedoKeepsTheIntent", says: "doubled: record",
	},
	{
		invariant: bytes, why: "the manifest's time is that of the redo",
		file: "commit/begin.go", old: "job.Intent = *b.g.open",
		new: "job.Intent = *b.g.open; job.Intent.At = stages.MicrosOf(b.g.store().Now()).ISO()",
		pkg: "sink", test: "TestRedoIsTheSameOnAnyNode", says: "0000000001.json was put with 2 contents",
	},
	{
		invariant: bytes, why: "another encoder uploads at once, while a PUT of the first one may still land",
		file: "commit/begin.go", old: "return b.await(ctx, w, job.Intent.NotBefore)", new: "return nil",
		pkg: "sink", test: "TestLatePutOfAnotherEncoder", says: "its manifest says sha256",
	},
	{
		invariant: bytes, why: "appends are not sorted: the encoder refuses them, and the queue stands still",
		file: "window/sort.go", old: "\tpermute(l.Appends, place)\n", new: "\t_ = place\n",
		pkg: "sink", test: "TestNothingJoinsAListedWindow", says: "lost: record",
	},
	{
		invariant: fence, why: "the pointer's batch is not fenced",
		file: "commit/ledger.go", old: "fence, err := g.lease.fence()", new: "fence, err := g.lease.fence(); fence.Required = row != committed",
		pkg: "sink", test: "TestLatePointerOfAnOldOwner", says: "its manifest says sha256",
	},
	{
		invariant: fence, why: "the intent's batch is not fenced",
		file: "commit/ledger.go", old: "fence, err := g.lease.fence()", new: "fence, err := g.lease.fence(); fence.Required = row != intent",
		pkg: "sink", test: "TestLateIntentOfAnOldOwner", says: "node-1 moved the intent",
	},
	{
		invariant: fence, why: "the fence does not ask for the version that this node wrote",
		file: "commit/lease.go", old: "TTL: l.ttl(), Expect: &version, Required: true}, err", new: "TTL: l.ttl(), Required: version > 0}, err",
		pkg: "sink", test: "TestLatePointerOfAnOldOwner", says: "its manifest says sha256",
	},
	{
		invariant: fence, why: "the target row is written whatever it holds",
		file: "commit/ledger.go", old: "Forever: true, Expect: &known, Required: true}", new: "Forever: true, Required: known < 1<<63}",
		pkg: "commit", test: "TestLandedIntentIsNotWrittenOver", says: "written over unread",
	},
	{
		invariant: fence, why: "no answer is taken for a yes",
		file: "commit/ledger.go", old: "landed, derr := g.decide(ctx, row, value)", new: "landed, derr := true, error(nil)",
		pkg: "sink", test: "TestUnclearPointerIsReadBack", says: "doubled: record",
	},
	{
		invariant: fence, why: "a node that cannot refresh its lease goes on sending for an hour",
		file: "commit/lease.go", old: "if d := sent.Add(l.ttl()); d.After(l.deadline) {", new: "if d := sent.Add(l.ttl() + time.Hour); d.After(l.deadline) {",
		pkg: "sink", test: "TestNothingIsSentAfterTheDeadline", says: "requests before the deadline",
	},
	{
		invariant: pointer, why: "the pointer moves although the manifest is not there",
		file: "upload/window.go", old: "if err := w.sheet.finish(ctx, w.m); err != nil {", new: "if err := w.sheet.finish(ctx, w.m); err != nil && false {",
		pkg: "sink", test: "TestPointerWaitsForTheManifest", says: "is committed and its manifest",
	},
	{
		invariant: pointer, why: "an object that fails while its window looks counts as sent",
		file: "upload/puts.go", old: "p.mu.Lock()\n\t\tok := p.held == 0 || free(p.held)\n\t\tp.mu.Unlock()\n\t\tif p.ctx.Err() != nil {",
		new: "failed := p.ctx.Err() != nil; p.mu.Lock(); ok := p.held == 0 || free(p.held); p.mu.Unlock(); if failed {",
		pkg: "upload", test: "TestFailureBetweenTwoLooks", says: "<nil>",
	},
	{
		invariant: pointer, why: "any manifest under the key counts as a finished upload of this intent",
		file: "upload/finished.go", old: "if m == nil || !m.matches(id, in) {", new: "if m == nil {",
		pkg: "sink", test: "TestForeignManifestIsNotTaken", says: "its manifest says sha256",
	},
	{
		invariant: pointer, why: "only the hash of what is sent in one PUT is in the manifest",
		file: "upload/object.go", old: "func (o *object) whole() sent {",
		new: "func (o *object) whole() sent { if o.upload != nil { return sent{o.size, hex.EncodeToString(sha256.New().Sum(nil))} };",
		pkg: "sink", test: "TestManifestHasTheHashOfTheObject", says: "its manifest says sha256",
	},
}
