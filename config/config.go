// Package config is the one table of settings (table.go): name, default, range, scope and sentence of every QUEEN_* variable, from
// which parsing, refusals, docs/settings.md and `queen settings` are made. FromEnv reads an environment once, at boot.
//
// It imports nothing of ours, reads no file and takes no flag. What a value means is said where it is used; here is only
// what it may be. Read table.go next.
package config

import "time"

// Config is everything a process is told, read once at boot from its environment.
type Config struct {
	Port    int    // PORT, 6632; 0 = the system picks a free one
	Bind    string // QUEEN_BIND_ADDR, 0.0.0.0
	Dir     string // QUEEN_RAFT_DIR, ./queen-data
	NodeID  int    // QUEEN_RAFT_NODE_ID, 1
	MaxBody int64  // QUEEN_MAX_BODY_BYTES, 32 MiB, at most 48 MiB
	LogJSON bool   // QUEEN_LOG_FORMAT=json
	// EncryptionKey is QUEEN_ENCRYPTION_KEY, 64 hex digits; unset = payloads are not encrypted.
	EncryptionKey Secret
	Cluster       *Cluster // nil: this node is alone
	Sink          *Sink    // nil: QUEEN_S3_EMBEDDED is off
	Warnings      []string
}

// Cluster is what makes a node one of several (contract R3).
type Cluster struct {
	Self   Peer   // the addresses at which others reach this node; empty where nothing names it
	Peers  []Peer // QUEEN_RAFT_PEERS
	Join   bool   // QUEEN_RAFT_JOIN
	Listen string // QUEEN_RAFT_LISTEN
	Token  Secret // QUEEN_RAFT_TOKEN
	TLS    TLS    // QUEEN_RAFT_TLS_*: all three are set, or none
}

// TLS names the files with which nodes speak TLS with each other, in PEM.
type TLS struct{ Cert, Key, CA string }

// Peer is one node of a cluster.
type Peer struct {
	ID         int
	Raft, HTTP string // host:port
}

// Sink is one mirror of queues into a bucket (contract S11).
type Sink struct {
	Tenant string // the default tenant for the environment's sink
	Name   string // QUEEN_S3_SINK, default

	All    bool     // QUEEN_S3_QUEUES=*
	Queues []string // names in the order given

	Endpoint, Region, Bucket, Prefix string
	AccessKey                        string
	SecretKey, SessionToken          Secret
	Ambient                          bool // no key is given: the process's own AWS credentials are used (contract B11)
	PathStyle                        bool
	SSE, SSEKMSKeyID                 string

	Format, Compression, ParquetCodec, Layout, Align, Start string

	TargetBytes        int64 // QUEEN_S3_TARGET_MB in bytes
	MaxWindow          time.Duration
	MemoryBytes        int64
	FetchConcurrency   int
	DiscoveryInterval  time.Duration
	SafeGuard          time.Duration
	LeaseTTL           time.Duration
	MultipartThreshold int64 // bytes
	CheckpointEvery    int
	Instance           string // with /node-<id> as in contract 4.9
	CrashAt            string // never, after_intent, mid_upload, after_upload, before_commit, after_commit
	Threads            int
	ShutdownGrace      time.Duration
}

// Codec is the compression of the objects that are written: QUEEN_S3_PARQUET_CODEC for Parquet, else QUEEN_S3_COMPRESSION.
func (s Sink) Codec() string {
	if s.Format == "parquet" {
		return s.ParquetCodec
	}
	return s.Compression
}

// DefaultTenant is the tenant of a broker that runs without tenancy; package stages has the same constant, which a test compares.
const DefaultTenant = "00000000-0000-0000-0000-000000000001"
