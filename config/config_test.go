package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen/stages"
)

// sinkEnv is the least that a sink needs.
func sinkEnv(more ...string) []string {
	return append(more, "QUEEN_S3_EMBEDDED=true", "QUEEN_S3_QUEUES=orders", "QUEEN_S3_ENDPOINT=http://minio:9000",
		"QUEEN_S3_REGION=us-east-1", "QUEEN_S3_BUCKET=lake", "QUEEN_S3_ACCESS_KEY=queen", "QUEEN_S3_SECRET_KEY=hunter2hunter2",
		"HOSTNAME=pod-7")
}

const encryptionKey = "000102030405060708090A0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

func defaults() Config {
	return Config{
		Port: 6632, Bind: "0.0.0.0", Dir: "./queen-data", NodeID: 1, MaxBody: 32 << 20,
		Sink: &Sink{
			Tenant: stages.DefaultTenant, Name: "default", Queues: []string{"orders"},
			Endpoint: "http://minio:9000", Region: "us-east-1", Bucket: "lake", Prefix: "queen",
			AccessKey: "queen", SecretKey: "hunter2hunter2",
			Format: "jsonl", Compression: "zstd", ParquetCodec: "zstd", Layout: "merged", Align: "hour", Start: "latest",
			TargetBytes: 128 << 20, MaxWindow: 5 * time.Minute, MemoryBytes: 512 << 20, FetchConcurrency: 4,
			DiscoveryInterval: 2 * time.Second, SafeGuard: 5 * time.Second, LeaseTTL: 30 * time.Second,
			MultipartThreshold: 64 << 20, CheckpointEvery: 20, Instance: "node-1@pod-7", CrashAt: "never",
			Threads: 1, ShutdownGrace: 30 * time.Second,
		},
	}
}

func TestDefaults(t *testing.T) {
	got, err := FromEnv(sinkEnv("QUEEN_S3_THREADS=1"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(defaults(), got); d != "" {
		t.Error(d)
	}
	none, err := FromEnv([]string{"QUEEN_S3_TARGET_MB=nonsense", "PATH=/bin", "QUEEN_RAFT_DIR= "})
	if err != nil || none.Sink != nil || none.Dir != DefaultDir || len(none.Warnings) != 0 {
		t.Errorf("without a sink: %+v %v", none, err)
	}
}

func secured(t TLS) func(*Config) {
	return func(c *Config) { c.Cluster = &Cluster{Listen: "a:1", Token: "raftsecret", TLS: t} }
}

// TestEverySetting flips each variable of the table and sees exactly its effect. A setting without a case fails.
func TestEverySetting(t *testing.T) {
	type change func(*Config)
	cases := map[string]map[string]change{
		"PORT": {"7000": func(c *Config) { c.Port = 7000 }, "0": func(c *Config) { c.Port = 0 }},
		"QUEEN_RAFT_PEERS": {"1=a:7401/a:80, 2=b:7402/b:80": func(c *Config) {
			a := Peer{1, "a:7401", "a:80"}
			c.Cluster = &Cluster{Self: a, Peers: []Peer{a, {2, "b:7402", "b:80"}}, Listen: "0.0.0.0:7401", Token: "raftsecret"}
		}},
		"QUEEN_RAFT_JOIN":      {"yes": func(c *Config) { c.Cluster = &Cluster{Join: true, Listen: "0.0.0.0:7400", Token: "raftsecret"} }, "no": func(*Config) {}},
		"QUEEN_RAFT_LISTEN":    {"127.0.0.1:9": func(c *Config) { c.Cluster = &Cluster{Listen: "127.0.0.1:9", Token: "raftsecret"} }},
		"QUEEN_RAFT_TOKEN":     {"raftsecret": func(*Config) {}},
		"QUEEN_RAFT_TLS_CERT":  {"/a/c.pem": secured(TLS{"/a/c.pem", "f", "f"})},
		"QUEEN_RAFT_TLS_KEY":   {"k": secured(TLS{"f", "k", "f"})},
		"QUEEN_RAFT_TLS_CA":    {"ca": secured(TLS{"f", "f", "ca"})},
		"QUEEN_BIND_ADDR":      {"127.0.0.1": func(c *Config) { c.Bind = "127.0.0.1" }},
		"QUEEN_RAFT_DIR":       {" /data ": func(c *Config) { c.Dir = "/data" }},
		"QUEEN_RAFT_NODE_ID":   {"3": node(3), "ordinal": node(8), "Ordinal": node(8)},
		"QUEEN_MAX_BODY_BYTES": {"50331648": func(c *Config) { c.MaxBody = 48 << 20 }},
		"QUEEN_ENCRYPTION_KEY": {" " + encryptionKey: func(c *Config) { c.EncryptionKey = Secret(encryptionKey) }},
		"QUEEN_LOG_FORMAT":     {"JSON": func(c *Config) { c.LogJSON = true }, "text": func(*Config) {}},
		"QUEEN_S3_EMBEDDED":    {"Yes": func(*Config) {}, "1": func(*Config) {}, "on": func(*Config) {}, "off": noSink, "0": noSink, "NO": noSink},
		"QUEEN_S3_THREADS":     {"64": func(c *Config) { c.Sink.Threads = 64 }},
		"QUEEN_S3_SHUTDOWN_GRACE_MS": {
			"100": func(c *Config) { c.Sink.ShutdownGrace = 100 * time.Millisecond }},
		"QUEEN_S3_QUEUES": {
			"b, a ,,b": func(c *Config) { c.Sink.Queues = []string{"b", "a"} },
			"*":        func(c *Config) { c.Sink.All, c.Sink.Queues = true, nil }},
		"QUEEN_S3_ENDPOINT": {
			"HTTPS://s3.example.com/": func(c *Config) { c.Sink.Endpoint = "https://s3.example.com" },
			"http://[::1]:9000":       func(c *Config) { c.Sink.Endpoint = "http://[::1]:9000" }},
		"QUEEN_S3_REGION":        {"auto": func(c *Config) { c.Sink.Region = "auto" }},
		"QUEEN_S3_BUCKET":        {"Other.Bucket-1": func(c *Config) { c.Sink.Bucket = "Other.Bucket-1" }},
		"QUEEN_S3_ACCESS_KEY":    {"k2": func(c *Config) { c.Sink.AccessKey = "k2" }},
		"QUEEN_S3_SECRET_KEY":    {"s=2": func(c *Config) { c.Sink.SecretKey = "s=2" }},
		"QUEEN_S3_SESSION_TOKEN": {"t=1": func(c *Config) { c.Sink.SessionToken = "t=1" }},
		"QUEEN_S3_PREFIX":        {"//a/b/": func(c *Config) { c.Sink.Prefix = "a/b" }},
		"QUEEN_S3_PATH_STYLE":    {"true": func(c *Config) { c.Sink.PathStyle = true }, "No": func(*Config) {}},
		"QUEEN_S3_SSE":           {"aes256": func(c *Config) { c.Sink.SSE = "AES256" }, "KMS": func(c *Config) { c.Sink.SSE = "aws:kms" }},
		"QUEEN_S3_SSE_KMS_KEY_ID": {"key-1": func(c *Config) {
			c.Sink.SSE, c.Sink.SSEKMSKeyID = "aws:kms", "key-1"
		}},
		"QUEEN_S3_SINK":   {"a.B_c-9": func(c *Config) { c.Sink.Name = "a.B_c-9" }, strings.Repeat("s", 64): func(c *Config) { c.Sink.Name = strings.Repeat("s", 64) }},
		"QUEEN_S3_FORMAT": {"NDJSON": func(*Config) {}, "json": func(*Config) {}, "Parquet": func(c *Config) { c.Sink.Format = "parquet" }},
		"QUEEN_S3_COMPRESSION": {
			"gz": func(c *Config) { c.Sink.Compression = "gzip" }, "OFF": func(c *Config) { c.Sink.Compression = "none" },
			"zst": func(*Config) {}, "none": func(c *Config) { c.Sink.Compression = "none" }},
		"QUEEN_S3_PARQUET_CODEC": {"snap": func(c *Config) { c.Sink.ParquetCodec = "snappy" }, "zst": func(*Config) {}},
		"QUEEN_S3_LAYOUT":        {"Merged": func(*Config) {}, "per_partition": layout("per-partition"), "PerPartition": layout("per-partition")},
		"QUEEN_S3_ALIGN":         {"daily": align("day"), "off": align("none"), "hourly": align("hour"), "none": align("none")},
		"QUEEN_S3_START":         {"beginning": start("earliest"), "now": start("latest"), "END": start("latest"), "Earliest": start("earliest")},
		"QUEEN_S3_TARGET_MB":     {"5120": func(c *Config) { c.Sink.TargetBytes = 5120 << 20 }},
		"QUEEN_S3_MAX_WINDOW_MS": {"10000": func(c *Config) { c.Sink.MaxWindow = 10 * time.Second }},
		"QUEEN_S3_MEMORY_MB":     {"1": func(c *Config) { c.Sink.MemoryBytes = 1 << 20 }},
		"QUEEN_S3_FETCH_CONCURRENCY": {
			"256": func(c *Config) { c.Sink.FetchConcurrency = 256 }},
		"QUEEN_S3_DISCOVERY_INTERVAL_MS": {
			"10": func(c *Config) { c.Sink.DiscoveryInterval = 10 * time.Millisecond }},
		"QUEEN_S3_SAFE_GUARD_MS": {"0": func(c *Config) { c.Sink.SafeGuard = 0 }},
		"QUEEN_S3_LEASE_TTL_MS":  {"1000": func(c *Config) { c.Sink.LeaseTTL = time.Second }},
		"QUEEN_S3_MULTIPART_THRESHOLD_MB": {
			"5": func(c *Config) { c.Sink.MultipartThreshold = 5 << 20 }},
		"QUEEN_S3_CHECKPOINT_EVERY": {"7": func(c *Config) {
			c.Sink.CheckpointEvery = 7
		}},
		"QUEEN_S3_INSTANCE": {"a": func(c *Config) { c.Sink.Instance = "a/node-1" }, "a/node-1": func(c *Config) { c.Sink.Instance = "a/node-1" }},
		"QUEEN_S3_CRASH_AT": {"Mid_Upload": func(c *Config) { c.Sink.CrashAt = "mid_upload" }, "off": func(*Config) {}, "none": func(*Config) {}},
	}
	for _, s := range Settings() {
		values, ok := cases[s.Env]
		if !ok {
			t.Errorf("%s has no case", s.Env)
		}
		for value, effect := range values {
			t.Run(s.Env+"="+value, func(t *testing.T) {
				env := []string{s.Env + "=" + value}
				if s.Env == "QUEEN_S3_SSE_KMS_KEY_ID" {
					env = append(env, "QUEEN_S3_SSE=aws:kms")
				}
				if strings.HasPrefix(s.Env, "QUEEN_RAFT_") {
					env = append(env, "QUEEN_RAFT_TOKEN=raftsecret")
				}
				if strings.HasPrefix(s.Env, "QUEEN_RAFT_TLS_") {
					env = append(env, "QUEEN_RAFT_LISTEN=a:1", "QUEEN_RAFT_TLS_CERT=f", "QUEEN_RAFT_TLS_KEY=f", "QUEEN_RAFT_TLS_CA=f")
				}
				got, err := FromEnv(sinkEnv(append(env, "QUEEN_S3_THREADS=1")...))
				if err != nil {
					t.Fatal(err)
				}
				want := defaults()
				effect(&want)
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

func node(id int) func(*Config) {
	return func(c *Config) { c.NodeID, c.Sink.Instance = id, fmt.Sprintf("node-%d@pod-7", id) }
}
func align(to string) func(*Config) { return func(c *Config) { c.Sink.Align = to } }

func layout(to string) func(*Config) { return func(c *Config) { c.Sink.Layout = to } }
func start(at string) func(*Config)  { return func(c *Config) { c.Sink.Start = at } }
func noSink(c *Config) {
	c.Sink = nil
	c.Warnings = []string{"QUEEN_S3_QUEUES is set, but QUEEN_S3_EMBEDDED is not true: the sink does not run"}
}

func TestSecretShowsNothing(t *testing.T) {
	c, err := FromEnv(sinkEnv("QUEEN_RAFT_LISTEN=a:1", "QUEEN_RAFT_TOKEN=hunter2", "QUEEN_ENCRYPTION_KEY="+encryptionKey))
	if err != nil {
		t.Fatal(err)
	}
	j, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := c.Sink.SecretKey.MarshalText()
	shown := fmt.Sprintf("%v %+v %#v %+v %#v %s %q %x %X %d %v", *c.Sink, *c.Sink, *c.Sink, c, c, c.Sink.SecretKey, c.Sink.SecretKey, c.Sink.SecretKey,
		c.Sink.SecretKey, c.Sink.SecretKey, []any{c.Sink.SecretKey}) + fmt.Sprintf("%v %+v %#v", *c.Cluster, *c.Cluster, *c.Cluster) + string(j) + string(text) + c.Sink.SecretKey.String() + c.Sink.SecretKey.GoString()
	for _, leak := range []string{"hunter2", "68756e74", "68756E74", encryptionKey[:16]} {
		if strings.Contains(shown, leak) {
			t.Errorf("the secret shows as %s in %s", leak, shown)
		}
	}
	if c.Sink.SecretKey.Reveal() != "hunter2hunter2" || !c.Sink.SecretKey.Set() {
		t.Error("the secret is lost")
	}
}

// Every field of Config and Sink must be reached by the table: a field that is the same whatever is set is a field that
// nothing fills.
func TestEveryFieldIsFilled(t *testing.T) {
	c, err := FromEnv(sinkEnv("QUEEN_LOG_FORMAT=json", "QUEEN_S3_PATH_STYLE=1", "QUEEN_S3_SSE=kms", "QUEEN_S3_SSE_KMS_KEY_ID=k", "QUEEN_S3_SESSION_TOKEN=t",
		"QUEEN_BOGUS=1", "QUEEN_ENCRYPTION_KEY="+encryptionKey, "QUEEN_RAFT_PEERS=1=a:1/b:2", "QUEEN_RAFT_JOIN=true", "QUEEN_RAFT_TOKEN=hunter2hunter2",
		"QUEEN_RAFT_TLS_CERT=c", "QUEEN_RAFT_TLS_KEY=k", "QUEEN_RAFT_TLS_CA=ca"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []reflect.Value{reflect.ValueOf(c), reflect.ValueOf(*c.Sink), reflect.ValueOf(*c.Cluster)} {
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "All" && name != "Ambient" {
				t.Errorf("%s.%s is not filled", v.Type().Name(), name)
			}
		}
	}
}

func TestDocsAreGenerated(t *testing.T) {
	got, err := os.ReadFile("../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Markdown(), string(got)); d != "" {
		t.Errorf("docs/settings.md is not what the table says (make generate):\n%s", d)
	}
	table := Table()
	for _, s := range Settings() {
		if !strings.Contains(table, s.Env+"\n") {
			t.Errorf("queen settings does not show %s", s.Env)
		}
	}
}

func TestErrorIsTyped(t *testing.T) {
	_, err := FromEnv([]string{"PORT=x"})
	var bad *Error
	if !errors.As(err, &bad) || bad.Sink {
		t.Errorf("%v is not an *Error of the broker", err)
	}
	_, err = FromEnv([]string{"QUEEN_S3_EMBEDDED=true"})
	if !errors.As(err, &bad) || !bad.Sink {
		t.Errorf("%v is not an *Error of the sink", err)
	}
}
