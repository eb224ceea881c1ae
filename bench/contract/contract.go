// Package contract is the list of what `make bench` owes: every number of the contract's section 4, each once, whether it can be taken yet
// or not. It is a list and nothing else: package measure takes the numbers, package report puts them beside this list.
package contract

// Row is one number of the contract.
type Row struct {
	ID    string // how a line names its row
	Part  string // the row of the contract's table that this number is from
	What  string
	Must  string // what the contract asks for, or "reported"
	Kind  string // the measurement that takes it, as -only names it; "" when none does
	Needs string // what must be built before it can be measured; "" when it is measured
}

// Rows are all numbers in the order of the contract.
func Rows() []Row {
	const writer, nodes = "a writer of another library beside ours", "more than one node"
	return []Row{
		{"backfill.jsonl", "backfill of one queue, JSONL+zstd", "backfill, JSONL+zstd", ">= 0.95, 0.92, 0.85 of the roofline at 100, 10, 1 records an append", "backfill", ""},
		{"backfill.parquet", "the same, Parquet+zstd", "backfill, Parquet+zstd", ">= 0.90, 0.85, 0.80 of the roofline at 100, 10, 1 records an append", "parquet", ""},
		{"encoder.jsonl", "encoders alone", "encoder alone, JSONL+zstd", ">= 0.9 of bare zstd", "backfill", ""},
		{"encoder.parquet", "encoders alone", "encoder alone, Parquet", ">= 0.9 of the best other Go writer a core", "", writer},
		{"memory.jsonl", "memory of the sink", "memory of the sink, JSONL", "<= QUEEN_S3_MEMORY_MB + 64 MB + 3 x the largest record", "memory", ""},
		{"memory.parquet", "memory of the sink", "memory of the sink, Parquet", "<= QUEEN_S3_MEMORY_MB + 64 MB + 8 x the largest record", "parquet-memory", ""},
		{"scale.partitions", "cost of scale", "time a record, 100,000 partitions against 10", "<= 1.5x", "backfill", ""},
		{"scale.idle.cpu", "cost of scale", "10,000 idle queues, processor", "< 3 % of a core", "idle", ""},
		{"scale.idle.memory", "cost of scale", "10,000 idle queues, memory", "< 50 MB", "idle", ""},
		{"scale.idle.lag", "cost of scale", "10,000 idle queues, lag of the worst", "guard + discovery", "idle", ""},
		{"lag.idle", "lag", "lag of an idle queue", "<= guard + 2 s", "lag", ""},
		{"lag.busy", "lag", "lag of a busy queue", "<= window + guard + upload", "lag", ""},
		{"push.cpu", "push", "push, batches of 100 to one partition", ">= 250,000 msg/CPU-s", "push", ""},
		{"push.spread", "push", "push, batches of 100 to 100 partitions", "reported", "push", ""},
		{"push.p99", "push", "push p99, sink at full speed against none", "<= 1.5x", "latency", ""},
		{"restart.ready", "restart", "restart with 10 GB of log", "< 5 s", "restart", ""},
		{"restart.takeover", "restart", "a killed owner's queues are taken", "<= TTL + 2 s", "", nodes},
	}
}

// Find returns the row of a name.
func Find(id string) (Row, bool) {
	for _, r := range Rows() {
		if r.ID == id {
			return r, true
		}
	}
	return Row{}, false
}
