package mutation

import "testing"

// faultTable has the lines that stand against faults which are of no table above. `invariant` is the number of the fault, or the rule of the contract.
var faultTable = []mutation{
	{invariant: "P50", why: "a window that was uploaded whole before a crash is sent again",
		file: "upload/finished.go", old: "if m == nil || !m.matches(id, in) {", new: "if m != nil || !m.matches(id, in) {", pkg: "sink", test: "TestP50EventsOfARedo", says: "2 events of"},
	{invariant: "P60", why: "status shows the number of a window as a float",
		file: "sink/status.go", old: `"state": t.state, "k": t.k,`, new: `"state": t.state, "k": uint64(float64(t.k)),`, pkg: "sink", test: "TestP60NoIntegerIsRounded", says: "status rounds"},
	{invariant: "P60", why: "a line of the lake has its offset as a float",
		file: "encode/jsonl/line.go", old: "strconv.AppendInt(dst, rec.Offset, 10)", new: "strconv.AppendInt(dst, int64(float64(rec.Offset)), 10)",
		pkg: "sink", test: "TestP60NoIntegerIsRounded", says: "the object rounds"},
	{invariant: "P60", why: "queen lake reads an offset as a float",
		file: "lake/line.go", old: "r.Offset = p.integer()", new: "r.Offset = int64(float64(p.integer()))", pkg: "lake", test: "TestP60NoIntegerIsRounded", says: "nothing is missing, and"},
	{invariant: "P60", why: "a counter is added up as a float",
		file: "broker/kv/apply.go", old: "sum := old + op.Delta", new: "sum := int64(float64(old) + float64(op.Delta))", pkg: "broker/api", test: "TestP60NoIntegerIsRounded", says: "a counter"},
}

// TestFaultsCanBeBroken does for them what TestEachInvariantCanBeBroken does for the argument.
func TestFaultsCanBeBroken(t *testing.T) { breakEach(t, faultTable) }
