package config

import (
	"math"
	"runtime"
	"strconv"
)

// Scope says whom a setting concerns.
type Scope string

// The scopes, in the order of the docs.
const (
	Broker  Scope = "the broker"    // read always
	Process Scope = "the sink here" // read when the sink runs; the broker's own side of it
	PerSink Scope = "per sink"      // one mirror: where it writes and how
	Node    Scope = "node-wide"     // shared by all sinks of a node
)

// Kind is what a value looks like.
type Kind uint8

// The kinds of values.
const (
	Text    Kind = iota
	Number       // whole, in Min..=Max, times Unit
	Boolean      // true/1/yes/on, false/0/no/off
	Choice       // one of Choices
)

// Option is one value of a Choice.
type Option struct {
	Value   string
	Aliases []string
	Means   string // one clause, shown in the refusal and the docs
	Absent  string // why this build refuses it; empty = it is here
}

// Setting is one line of the table. A setting exists here and nowhere else.
type Setting struct {
	Env      string
	Scope    Scope
	Kind     Kind
	Default  string // as it would be written; empty = unset
	Shown    string // the default as docs show it, where it is computed
	Required bool
	Min, Max int64
	Unit     int64    // what one of the number is: bytes, nanoseconds, or 1
	Noun     string   // Choice: "is not a <noun>"
	Options  []Option // Choice
	Integer  bool     // Number: the refusal says "is not an integer in a..=b"
	Purpose  string   // follows "It is": no capital, no full stop

	into  func(*Config) any                                            // pointer to the field
	parse func(s *Setting, c *Config, env environment, v string) error // instead of into, where a value has rules of its own
}

const (
	mib = int64(1) << 20
	ms  = int64(1_000_000)

	// DefaultDir is where the data lies when nothing says otherwise.
	DefaultDir = "./queen-data"
	// MaxBodyLimit is the most that QUEEN_MAX_BODY_BYTES may be: an entry of the log is not larger (contract R6).
	MaxBodyLimit = 48 << 20
)

// Settings returns the table, in the order in which it is read, refused and documented.
func Settings() []Setting {
	all := brokerSettings()
	all = append(all, processSettings()...)
	all = append(all, targetSettings()...)
	all = append(all, shapeSettings()...)
	return append(all, nodeSettings()...)
}

func brokerSettings() []Setting {
	return []Setting{
		{Env: "PORT", Scope: Broker, Kind: Number, Default: "6632", Max: 65535, Unit: 1,
			Purpose: "the port of the HTTP API; 0 lets the system pick a free one",
			into:    func(c *Config) any { return &c.Port }},
		{Env: "QUEEN_BIND_ADDR", Scope: Broker, Default: "0.0.0.0",
			Purpose: "the address that the HTTP API listens on",
			into:    func(c *Config) any { return &c.Bind }},
		{Env: "QUEEN_RAFT_DIR", Scope: Broker, Default: DefaultDir,
			Purpose: "the folder of this node's data: log, state and record bodies; it is made when it is not there",
			into:    func(c *Config) any { return &c.Dir }},
		{Env: "QUEEN_RAFT_NODE_ID", Scope: Broker, Kind: Number, Default: "1", Min: 1, Max: math.MaxInt32, Unit: 1,
			Purpose: "this node's number; `ordinal` takes it from the end of HOSTNAME, plus 1 (queen-0 is node 1)",
			parse:   parseNodeID},
		{Env: "QUEEN_RAFT_PEERS", Scope: Broker,
			Purpose: "the first members of a cluster, this node among them, as `id=host:raftport/host:httpport,…`, the same line on each of them; it is read when the folder is empty, " +
				"and says later how the others reach this node",
			parse: parsePeers},
		{Env: "QUEEN_RAFT_JOIN", Scope: Broker, Kind: Boolean, Default: "false",
			Purpose: "start with an empty folder and wait until the leader of a cluster is told to add this node",
			parse:   parseJoin},
		{Env: "QUEEN_RAFT_LISTEN", Scope: Broker, Shown: "0.0.0.0: and the port of this node in QUEEN_RAFT_PEERS, else 7400",
			Purpose: "the host:port on which other nodes of the cluster reach this one; a node that is alone opens none",
			parse:   parseListen},
		{Env: "QUEEN_RAFT_TOKEN", Scope: Broker,
			Purpose: "the secret that every node of a cluster has to know before another one speaks with it",
			parse:   parseToken},
		{Env: "QUEEN_RAFT_TLS_CERT", Scope: Broker,
			Purpose: "the file with this node's certificate in PEM, for the host of its raft address and as server and client; with it, nodes speak TLS 1.3 with each other, both ends showing a certificate",
			parse:   parseTLS(func(t *TLS) *string { return &t.Cert })},
		{Env: "QUEEN_RAFT_TLS_KEY", Scope: Broker,
			Purpose: "the file with the key of that certificate",
			parse:   parseTLS(func(t *TLS) *string { return &t.Key })},
		{Env: "QUEEN_RAFT_TLS_CA", Scope: Broker,
			Purpose: "the file with the certificate that signs those of all nodes",
			parse:   parseTLS(func(t *TLS) *string { return &t.CA })},
		{Env: "QUEEN_MAX_BODY_BYTES", Scope: Broker, Kind: Number, Default: "33554432", Min: 1, Max: MaxBodyLimit, Unit: 1,
			Purpose: "the largest request body that is taken; a larger one is answered 413",
			into:    func(c *Config) any { return &c.MaxBody }},
		{Env: "QUEEN_ENCRYPTION_KEY", Scope: Broker,
			Purpose: "the key that payloads of queues with encryptionEnabled are sealed with on the disk: 64 hex digits (32 bytes), the same on every " +
				"node; it is never logged or returned",
			parse: parseEncryptionKey},
		{Env: "QUEEN_LOG_FORMAT", Scope: Broker, Kind: Choice, Default: "text", Noun: "log format",
			Options: []Option{
				{Value: "text", Aliases: []string{"pretty", "console"}, Means: "is one readable line an event"},
				{Value: "json", Means: "is one JSON object an event"}},
			Purpose: "how log lines look on stderr",
			parse:   parseLogFormat},
	}
}

func processSettings() []Setting {
	return []Setting{
		{Env: "QUEEN_S3_EMBEDDED", Scope: Broker, Kind: Boolean, Default: "false",
			Purpose: "what starts the S3 sink on this node; off, nothing of it runs and its other settings do not matter",
			parse:   parseEmbedded},
		{Env: "QUEEN_S3_THREADS", Scope: Process, Kind: Number, Default: strconv.Itoa(defaultThreads(runtime.NumCPU())),
			Shown: "a quarter of the cores, 1 or 2", Min: 1, Max: 64, Unit: 1, Integer: true,
			Purpose: "how many windows are encoded at once, over all sinks",
			into:    func(c *Config) any { return &c.Sink.Threads }},
		{Env: "QUEEN_S3_SHUTDOWN_GRACE_MS", Scope: Process, Kind: Number, Default: "30000", Min: 100, Max: 3_600_000, Unit: ms, Integer: true,
			Purpose: "how long the drain may take, counted from SIGTERM",
			into:    func(c *Config) any { return &c.Sink.ShutdownGrace }},
	}
}

func targetSettings() []Setting {
	return []Setting{
		{Env: "QUEEN_S3_QUEUES", Scope: PerSink, Required: true,
			Purpose: "the queues to mirror: names with commas between them, or `*` for every queue of the tenant",
			parse:   parseQueues},
		{Env: "QUEEN_S3_ENDPOINT", Scope: PerSink, Required: true,
			Purpose: "the address of the object store: http:// or https://, a host and an optional port",
			parse:   parseEndpoint},
		{Env: "QUEEN_S3_REGION", Scope: PerSink, Required: true,
			Purpose: "the region that requests are signed for; gateways commonly take us-east-1",
			into:    func(c *Config) any { return &c.Sink.Region }},
		{Env: "QUEEN_S3_BUCKET", Scope: PerSink, Required: true,
			Purpose: "the bucket that holds the lake: one name, no slash or space",
			parse:   parseBucket},
		{Env: "QUEEN_S3_ACCESS_KEY", Scope: PerSink, Shown: "the AWS credentials of this process",
			Purpose: "the id of the key that requests are signed with",
			into:    func(c *Config) any { return &c.Sink.AccessKey }},
		{Env: "QUEEN_S3_SECRET_KEY", Scope: PerSink, Shown: "the AWS credentials of this process",
			Purpose: "the secret of the key that requests are signed with; it is never logged or returned",
			into:    func(c *Config) any { return &c.Sink.SecretKey }},
		{Env: "QUEEN_S3_SESSION_TOKEN", Scope: PerSink,
			Purpose: "the session token that belongs to temporary keys; keys that are given are not renewed, those of this process are",
			into:    func(c *Config) any { return &c.Sink.SessionToken }},
		{Env: "QUEEN_S3_PREFIX", Scope: PerSink, Default: "queen",
			Purpose: "the root of every object key; outer slashes are dropped",
			parse:   parsePrefix},
		{Env: "QUEEN_S3_PATH_STYLE", Scope: PerSink, Kind: Boolean, Default: "false",
			Purpose: "whether the bucket is put into the path of the URL, as MinIO and most gateways want it",
			into:    func(c *Config) any { return &c.Sink.PathStyle }},
		{Env: "QUEEN_S3_SSE", Scope: PerSink, Kind: Choice, Noun: "mode",
			Options: []Option{
				{Value: "AES256", Means: "encrypts with the store's own keys"},
				{Value: "aws:kms", Aliases: []string{"kms"}, Means: "encrypts with a KMS key"}},
			Purpose: "the server-side encryption asked for with every upload; unset sends no header and the bucket's default applies",
			into:    func(c *Config) any { return &c.Sink.SSE }},
		{Env: "QUEEN_S3_SSE_KMS_KEY_ID", Scope: PerSink,
			Purpose: "the KMS key of QUEEN_S3_SSE=aws:kms; unset takes the account's default key",
			into:    func(c *Config) any { return &c.Sink.SSEKMSKeyID }},
		{Env: "QUEEN_S3_SINK", Scope: PerSink, Default: "default",
			Purpose: "the name of this sink; it scopes the KV documents and is what retentionSinkHold refers to",
			parse:   parseSinkName},
	}
}

func shapeSettings() []Setting {
	return []Setting{
		{Env: "QUEEN_S3_FORMAT", Scope: PerSink, Kind: Choice, Default: "jsonl", Noun: "format",
			Options: []Option{
				{Value: "jsonl", Aliases: []string{"json", "ndjson"}, Means: "is one JSON line a record"},
				{Value: "parquet", Means: "is a column file"}},
			Purpose: "the format of data objects", into: func(c *Config) any { return &c.Sink.Format }},
		{Env: "QUEEN_S3_COMPRESSION", Scope: PerSink, Kind: Choice, Default: "zstd", Noun: "codec",
			Options: []Option{
				{Value: "zstd", Aliases: []string{"zst"}, Means: "is the smallest and fastest"},
				{Value: "gzip", Aliases: []string{"gz"}, Means: "is read by everything"},
				{Value: "none", Aliases: []string{"off"}, Means: "writes plain text; for Parquet see QUEEN_S3_PARQUET_CODEC"}},
			Purpose: "the compression of JSONL objects", into: func(c *Config) any { return &c.Sink.Compression }},
		{Env: "QUEEN_S3_PARQUET_CODEC", Scope: PerSink, Kind: Choice, Default: "zstd", Noun: "codec",
			Options: []Option{
				{Value: "zstd", Aliases: []string{"zst"}, Means: "is the smallest"},
				{Value: "snappy", Aliases: []string{"snap"}, Means: "is the quickest to read"}},
			Purpose: "the codec of Parquet objects",
			into:    func(c *Config) any { return &c.Sink.ParquetCodec }},
		{Env: "QUEEN_S3_LAYOUT", Scope: PerSink, Kind: Choice, Default: "merged", Noun: "layout",
			Options: []Option{
				{Value: "merged", Means: "is one object a window"},
				{Value: "per-partition", Aliases: []string{"per_partition", "perpartition"}, Means: "is one object a partition and window"}},
			Purpose: "how a window is spread over objects", into: func(c *Config) any { return &c.Sink.Layout }},
		{Env: "QUEEN_S3_ALIGN", Scope: PerSink, Kind: Choice, Default: "hour", Noun: "alignment",
			Options: []Option{
				{Value: "hour", Aliases: []string{"hourly"}, Means: "keeps every object inside the hour of its path"},
				{Value: "day", Aliases: []string{"daily"}, Means: "keeps it inside the day and drops hour= from the path"},
				{Value: "none", Aliases: []string{"off"}, Means: "lets a window cross both"}},
			Purpose: "the boundary that no window crosses", into: func(c *Config) any { return &c.Sink.Align }},
		{Env: "QUEEN_S3_START", Scope: PerSink, Kind: Choice, Default: "latest", Noun: "start",
			Options: []Option{
				{Value: "latest", Aliases: []string{"now", "end"}, Means: "begins where the sink first finds the queue"},
				{Value: "earliest", Aliases: []string{"beginning"}, Means: "begins at the first record that is still there"}},
			Purpose: "where a queue starts that this sink has not adopted yet; it is decided once for each queue",
			into:    func(c *Config) any { return &c.Sink.Start }},
		{Env: "QUEEN_S3_TARGET_MB", Scope: PerSink, Kind: Number, Default: "128", Min: 1, Max: 5120, Unit: mib,
			Purpose: "how many MiB of uncompressed records close a window",
			into:    func(c *Config) any { return &c.Sink.TargetBytes }},
		{Env: "QUEEN_S3_MAX_WINDOW_MS", Scope: PerSink, Kind: Number, Default: "300000", Min: 100, Max: 86_400_000, Unit: ms,
			Purpose: "how long a window may stay open; the lag SLO is about this plus the safe lag",
			into:    func(c *Config) any { return &c.Sink.MaxWindow }},
	}
}

func nodeSettings() []Setting {
	return []Setting{
		{Env: "QUEEN_S3_MEMORY_MB", Scope: Node, Kind: Number, Default: "512", Min: 1, Max: 1_048_576, Unit: mib,
			Purpose: "how many MiB the sinks of this node may hold together, everything counted",
			into:    func(c *Config) any { return &c.Sink.MemoryBytes }},
		{Env: "QUEEN_S3_FETCH_CONCURRENCY", Scope: Node, Kind: Number, Default: "4", Min: 1, Max: 256, Unit: 1,
			Purpose: "how many reads of a queue's log are in flight at once; the throttle for a backfill",
			into:    func(c *Config) any { return &c.Sink.FetchConcurrency }},
		{Env: "QUEEN_S3_DISCOVERY_INTERVAL_MS", Scope: Node, Kind: Number, Default: "2000", Min: 10, Max: 3_600_000, Unit: ms,
			Purpose: "how often the sink asks which queues have something new",
			into:    func(c *Config) any { return &c.Sink.DiscoveryInterval }},
		{Env: "QUEEN_S3_SAFE_GUARD_MS", Scope: Node, Kind: Number, Default: "5000", Min: 0, Max: 3_600_000, Unit: ms,
			Purpose: "how far behind safeTime a window must end",
			into:    func(c *Config) any { return &c.Sink.SafeGuard }},
		{Env: "QUEEN_S3_LEASE_TTL_MS", Scope: Node, Kind: Number, Default: "30000", Min: 1000, Max: 3_600_000, Unit: ms,
			Purpose: "how long a queue stays with a node that no longer answers; it is refreshed every third of this",
			into:    func(c *Config) any { return &c.Sink.LeaseTTL }},
		{Env: "QUEEN_S3_MULTIPART_THRESHOLD_MB", Scope: Node, Kind: Number, Default: "64", Min: 5, Max: 5120, Unit: mib,
			Purpose: "the size in MiB above which an object goes up in parts; above three parts (each a twelfth of the memory, 5 to 16 MiB) it always does",
			into:    func(c *Config) any { return &c.Sink.MultipartThreshold }},
		{Env: "QUEEN_S3_CHECKPOINT_EVERY", Scope: Node, Kind: Number, Default: "20", Min: 1, Max: 100_000, Unit: 1,
			Purpose: "how many windows lie between two checkpoint objects, which say where each partition is read on from; the sink reads none of them",
			into:    func(c *Config) any { return &c.Sink.CheckpointEvery }},
		{Env: "QUEEN_S3_INSTANCE", Scope: Node, Shown: "node-<QUEEN_RAFT_NODE_ID>@<HOSTNAME>",
			Purpose: "this node's name in lease rows; /node-<id> is added unless it ends so already",
			into:    func(c *Config) any { return &c.Sink.Instance }},
		{Env: "QUEEN_S3_CRASH_AT", Scope: Node, Kind: Choice, Default: "never", Noun: "fault point",
			Options: []Option{
				{Value: "never", Aliases: []string{"off", "none"}, Means: "is off"},
				{Value: "after_intent", Means: "is right after the intent"},
				{Value: "mid_upload", Means: "is between two parts, or after the data object"},
				{Value: "after_upload", Means: "is after the manifest"},
				{Value: "before_commit", Means: "is before the pointer moves"},
				{Value: "after_commit", Means: "is right after it moved"}},
			Purpose: "where the broker aborts itself; for crash tests only",
			into:    func(c *Config) any { return &c.Sink.CrashAt }},
	}
}

// defaultThreads is a quarter of the cores, at least 1 and at most 2.
func defaultThreads(cores int) int { return min(max(cores/4, 1), 2) }
