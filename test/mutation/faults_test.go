package mutation

import (
	"slices"
	"testing"
)

// faultTable has the lines that stand against faults which are of no table above. `invariant` is the number of the fault, or the rule of the contract.
var faultTable = slices.Concat([]mutation{
	{invariant: "P50", why: "a window that was uploaded whole before a crash is sent again",
		file: "upload/finished.go", old: "if m == nil || !m.matches(id, in) {", new: "if m != nil || !m.matches(id, in) {", pkg: "sink", test: "TestP50EventsOfARedo", says: "2 events of"},
	{invariant: "P60", why: "status shows the number of a window as a float",
		file: "sink/status.go", old: `"state": state, "k": t.k,`, new: `"state": state, "k": uint64(float64(t.k)),`, pkg: "sink", test: "TestP60NoIntegerIsRounded", says: "status rounds"},
	{invariant: "P60", why: "a line of the lake has its offset as a float",
		file: "encode/jsonl/line.go", old: "strconv.AppendInt(dst, rec.Offset, 10)", new: "strconv.AppendInt(dst, int64(float64(rec.Offset)), 10)",
		pkg: "sink", test: "TestP60NoIntegerIsRounded", says: "the object rounds"},
	{invariant: "P60", why: "queen lake reads an offset as a float",
		file: "lake/line.go", old: "r.Offset = p.integer()", new: "r.Offset = int64(float64(p.integer()))", pkg: "lake", test: "TestP60NoIntegerIsRounded", says: "nothing is missing, and"},
	{invariant: "P60", why: "a counter is added up as a float",
		file: "broker/kv/apply.go", old: "sum := old + op.Delta", new: "sum := int64(float64(old) + float64(op.Delta))", pkg: "broker/api", test: "TestP60NoIntegerIsRounded", says: "a counter"},
	{invariant: "S12", why: "a sink that falls again and again begins anew each second",
		file: "sink/supervise.go", old: "wait = min(2*wait, lastRestart)", new: "wait = min(wait, lastRestart)", pkg: "sink", test: "TestFallenSinkWaitsLonger", says: "it waited"},
	{invariant: "S12", why: "a sink that begins anew counts from nothing",
		file: "sink/supervise.go", old: "counters: s.metrics.counters,", new: "counters: newCounters(),", pkg: "sink", test: "TestFallenSinkBeginsAnew", says: "PUTs are counted"},
	{invariant: "B12", why: "an audit compares what an earlier life of a queue left with the log of the last one",
		file: "lake/compare.go", old: "if row.TS < c.born {", new: "if row.TS < 0 {", pkg: "lake", test: "TestLogOfAQueueMadeAgain", says: "has transactionId"},
	{invariant: "B12", why: "an audit believes that an earlier life's records are those of the last one",
		file: "lake/compare.go", old: "if at == nil || at.ts < c.born {", new: "if at == nil {", pkg: "lake", test: "TestLogOfAQueueMadeAgain", says: "lacks_a_partition"},
}, reportedTable)

// TestFaultsCanBeBroken does for them what TestEachInvariantCanBeBroken does for the argument.
func TestFaultsCanBeBroken(t *testing.T) { breakEach(t, faultTable) }
