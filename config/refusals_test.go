package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each case is put before the least environment that a sink needs, so it is what counts.
func TestRefusals(t *testing.T) {
	const sink = "QUEEN_S3_EMBEDDED=true: "
	long := strings.Repeat("s", 65)
	for _, c := range []struct{ env, want string }{
		{"QUEEN_S3_MAX_WINDOW_MS=50", sink + "QUEEN_S3_MAX_WINDOW_MS=50 is outside 100..=86400000. It is how long a window may stay open; " +
			"the lag SLO is about this plus the safe lag"},
		{"QUEEN_S3_MAX_WINDOW_MS=86400001", sink + "QUEEN_S3_MAX_WINDOW_MS=86400001 is outside 100..=86400000. It is *"},
		{"QUEEN_S3_TARGET_MB=1e3", sink + "QUEEN_S3_TARGET_MB=1e3 is not a whole number. It is how many MiB of uncompressed records close a window, in 1..=5120"},
		{"QUEEN_S3_TARGET_MB=+5", sink + "QUEEN_S3_TARGET_MB=+5 is not a whole number. *"},
		{"QUEEN_S3_TARGET_MB=0", sink + "QUEEN_S3_TARGET_MB=0 is outside 1..=5120. *"},
		{"QUEEN_S3_TARGET_MB=99999999999999999999", sink + "QUEEN_S3_TARGET_MB=99999999999999999999 is outside 1..=5120. *"},
		{"QUEEN_S3_TARGET_MB=-99999999999999999999", sink + "QUEEN_S3_TARGET_MB=-99999999999999999999 is outside 1..=5120. *"},
		{"QUEEN_S3_MEMORY_MB=1048577", sink + "QUEEN_S3_MEMORY_MB=1048577 is outside 1..=1048576. *"},
		{"QUEEN_S3_FETCH_CONCURRENCY=257", sink + "QUEEN_S3_FETCH_CONCURRENCY=257 is outside 1..=256. *"},
		{"QUEEN_S3_DISCOVERY_INTERVAL_MS=9", sink + "QUEEN_S3_DISCOVERY_INTERVAL_MS=9 is outside 10..=3600000. *"},
		{"QUEEN_S3_SAFE_GUARD_MS=-1", sink + "QUEEN_S3_SAFE_GUARD_MS=-1 is outside 0..=3600000. *"},
		{"QUEEN_S3_LEASE_TTL_MS=999", sink + "QUEEN_S3_LEASE_TTL_MS=999 is outside 1000..=3600000. *"},
		{"QUEEN_S3_MULTIPART_THRESHOLD_MB=4", sink + "QUEEN_S3_MULTIPART_THRESHOLD_MB=4 is outside 5..=5120. *"},
		{"QUEEN_S3_CHECKPOINT_EVERY=0", sink + "QUEEN_S3_CHECKPOINT_EVERY=0 is outside 1..=100000. *"},
		{"QUEEN_S3_THREADS=65", sink + "QUEEN_S3_THREADS=65 is not an integer in 1..=64"},
		{"QUEEN_S3_THREADS=two", sink + "QUEEN_S3_THREADS=two is not an integer in 1..=64"},
		{"QUEEN_S3_SHUTDOWN_GRACE_MS=99", sink + "QUEEN_S3_SHUTDOWN_GRACE_MS=99 is not an integer in 100..=3600000"},
		{"QUEEN_S3_PATH_STYLE=maybe", sink + "QUEEN_S3_PATH_STYLE=maybe is not a boolean: use true or false. It is *"},
		{"QUEEN_S3_EMBEDDED=ja", "QUEEN_S3_EMBEDDED=ja is not a boolean: use true or false. It is *"},
		{"QUEEN_S3_FORMAT=csv", sink + "QUEEN_S3_FORMAT=csv is not a format: jsonl is one JSON line a record, parquet is a column file"},
		{"QUEEN_S3_COMPRESSION=snappy", sink + "QUEEN_S3_COMPRESSION=snappy is not a codec: zstd *QUEEN_S3_PARQUET_CODEC"},
		{"QUEEN_S3_PARQUET_CODEC=gzip", sink + "QUEEN_S3_PARQUET_CODEC=gzip is not a codec: zstd *"},
		{"QUEEN_S3_LAYOUT=split", sink + "QUEEN_S3_LAYOUT=split is not a layout: merged *"},
		{"QUEEN_S3_ALIGN=week", sink + "QUEEN_S3_ALIGN=week is not an alignment: hour *"},
		{"QUEEN_S3_START=yesterday", sink + "QUEEN_S3_START=yesterday is not a start: latest *"},
		{"QUEEN_S3_SSE=rot13", sink + "QUEEN_S3_SSE=rot13 is not a mode: AES256 *"},
		{"QUEEN_S3_CRASH_AT=always", sink + "QUEEN_S3_CRASH_AT=always is not a fault point: never *"},
		{"QUEEN_S3_ENDPOINT=minio:9000", sink + "QUEEN_S3_ENDPOINT=minio:9000 has no scheme: it starts with http:// or https://. It is *"},
		{"QUEEN_S3_ENDPOINT=ftp://minio", sink + "QUEEN_S3_ENDPOINT=ftp://minio has no scheme: *"},
		{"QUEEN_S3_ENDPOINT=http://", sink + "QUEEN_S3_ENDPOINT=http:// has no host. *"},
		{"QUEEN_S3_ENDPOINT=http://:9000", sink + "QUEEN_S3_ENDPOINT=http://:9000 has no host. *"},
		{"QUEEN_S3_ENDPOINT=http://minio:9000/lake", sink + "QUEEN_S3_ENDPOINT=http://minio:9000/lake carries a path: put it into QUEEN_S3_PREFIX. *"},
		{"QUEEN_S3_ENDPOINT=http://minio?x=1", sink + "QUEEN_S3_ENDPOINT=http://minio?x=1 carries a query: *"},
		{"QUEEN_S3_ENDPOINT=http://me:pass@minio", sink + "QUEEN_S3_ENDPOINT=http://***@minio carries credentials: *"},
		{"QUEEN_S3_ENDPOINT=http://minio:70000", sink + "QUEEN_S3_ENDPOINT=http://minio:70000 has no usable port. *"},
		{"QUEEN_S3_ENDPOINT=http://mi nio", sink + "QUEEN_S3_ENDPOINT=http://mi nio is not an address. *"},
		{"QUEEN_S3_BUCKET=lake/raw", sink + "QUEEN_S3_BUCKET=lake/raw is not a bucket name: it has no slash or space. A path inside the bucket goes into QUEEN_S3_PREFIX"},
		{"QUEEN_S3_BUCKET=my lake", sink + "QUEEN_S3_BUCKET=my lake is not a bucket name: *"},
		{"QUEEN_S3_PREFIX=//", sink + "QUEEN_S3_PREFIX=// is empty without its slashes. *"},
		{"QUEEN_S3_PREFIX=a//b", sink + "QUEEN_S3_PREFIX=a//b has an empty segment between two slashes. *"},
		{"QUEEN_S3_PREFIX=a/../b", sink + "QUEEN_S3_PREFIX=a/../b has a segment `..`, *"},
		{"QUEEN_S3_PREFIX=.", sink + "QUEEN_S3_PREFIX=. has a segment `.`, *"},
		{"QUEEN_S3_PREFIX=a\nb", sink + `QUEEN_S3_PREFIX="a\nb" has a control character in it. *`},
		{"QUEEN_S3_SINK=a/b", sink + "QUEEN_S3_SINK=a/b is not a sink name: 1..=64 of [A-Za-z0-9._-]. It scopes the KV documents and is in no object key, so two sinks *QUEEN_S3_PREFIX"},
		{"QUEEN_S3_SINK=" + long, sink + "QUEEN_S3_SINK=" + long + " is not a sink name: *"},
		{"QUEEN_S3_SINK=ü", sink + "QUEEN_S3_SINK=ü is not a sink name: *"},
		{"QUEEN_S3_SSE_KMS_KEY_ID=k", sink + "QUEEN_S3_SSE_KMS_KEY_ID is set but QUEEN_S3_SSE is not aws:kms: the key id would be ignored"},
		{"QUEEN_S3_QUEUES=,,", sink + "QUEEN_S3_QUEUES=,, names no queue. It is *"},
		{"QUEEN_S3_QUEUES=a,*", sink + "QUEEN_S3_QUEUES=a,* has `*` inside a list: *"},
		{"QUEEN_S3_QUEUES=", sink + "QUEEN_S3_ENDPOINT is set but QUEEN_S3_QUEUES is not. QUEEN_S3_QUEUES is what turns the environment's sink on"},
		{"QUEEN_S3_ENDPOINT= ", sink + "QUEEN_S3_ENDPOINT is not set: it is the address of the object store: http:// or https://, a host and an optional port"},
		{"QUEEN_S3_REGION=", sink + "QUEEN_S3_REGION is not set: it is *"},
		{"QUEEN_S3_BUCKET=", sink + "QUEEN_S3_BUCKET is not set: it is *"},
		{"QUEEN_S3_ACCESS_KEY=", sink + "QUEEN_S3_ACCESS_KEY is not set: it is *"},
		{"QUEEN_S3_SECRET_KEY=", sink + "QUEEN_S3_SECRET_KEY is not set: it is the secret of the key that requests are signed with; it is never logged or returned"},
		{"QUEEN_S3_PARTITIONS=orders:0..1023,b:x,y", sink + "QUEEN_S3_PARTITIONS names 1026 partitions of orders, b, but a window can only close against what discovery reports: unset it"},
		{"QUEEN_S3_PARTITIONS=a..b", sink + "QUEEN_S3_PARTITIONS=a..b starts without a queue name and a colon, *"},
		{"QUEEN_S3_PARTITIONS=orders:", sink + "QUEEN_S3_PARTITIONS=orders: has an empty partition name, *"},
		{"QUEEN_S3_PARTITIONS=:a", sink + "QUEEN_S3_PARTITIONS=:a has a list without a queue name, *"},
		{"QUEEN_S3_PARTITIONS=o:0..1000000", sink + "QUEEN_S3_PARTITIONS=o:0..1000000 has a range 0..1000000 of more than 1000000 names, *"},
		{"QUEEN_S3_PARTITIONS=o:5..4", sink + "QUEEN_S3_PARTITIONS=o:5..4 has a range 5..4 that runs backwards, *"},
		{"QUEEN_S3_PARTITIONS=o:a..b", sink + "QUEEN_S3_PARTITIONS names 1 partitions of o, *"},
		{"PORT=65536", "PORT=65536 is outside 0..=65535. It is *"},
		{"QUEEN_MAX_BODY_BYTES=50331649", "QUEEN_MAX_BODY_BYTES=50331649 is outside 1..=50331648. It is *"},
		{"QUEEN_RAFT_NODE_ID=0", "QUEEN_RAFT_NODE_ID=0 is outside 1..=2147483647. It is *"},
		{"QUEEN_RAFT_NODE_ID=one", "QUEEN_RAFT_NODE_ID=one is not a whole number. It is *"},
		{"QUEEN_LOG_FORMAT=xml", "QUEEN_LOG_FORMAT=xml is not a log format: text is one readable line an event, json is one JSON object an event"},
		{"QUEEN_RAFT_TLS_KEY=k", "QUEEN_RAFT_TLS_CERT, QUEEN_RAFT_TLS_KEY and QUEEN_RAFT_TLS_CA belong together: not set: QUEEN_RAFT_TLS_CERT, QUEEN_RAFT_TLS_CA"},
		{"QUEEN_RAFT_PEERS=1=a/b,2=c/d", `QUEEN_RAFT_PEERS: "1=a/b": the raft address "a" is no host:port`},
		{"QUEEN_RAFT_PEERS=1=a:1", `QUEEN_RAFT_PEERS: "1=a:1" is not id=host:raftport/host:httpport`},
		{"QUEEN_RAFT_PEERS=x=a:1/b:2", `QUEEN_RAFT_PEERS: "x=a:1/b:2": "x" is no node id, it must be a whole number from 1`},
		{"QUEEN_RAFT_PEERS=1=a:1/b:2,1=c:1/d:2", "QUEEN_RAFT_PEERS names node 1 twice"},
		{"QUEEN_RAFT_PEERS=1=a:1/b:2,2=a:1/d:2", "QUEEN_RAFT_PEERS gives node 1 and node 2 the raft address a:1"},
		{"QUEEN_RAFT_PEERS=2=a:1/b:2,3=c:1/d:2", "QUEEN_RAFT_PEERS does not name this node, which is node 1 (QUEEN_RAFT_NODE_ID)"},
		{"QUEEN_RAFT_PEERS=1=a:1/b:2,2=c:1/d:2", "QUEEN_RAFT_TOKEN is not set: it is the secret that every node of a cluster has to know before another one speaks with it"},
		{"QUEEN_RAFT_JOIN=true", "QUEEN_RAFT_TOKEN is not set: it is the secret that every node of a cluster has to know before another one speaks with it"},
		{"QUEEN_RAFT_LISTEN=nowhere", `QUEEN_RAFT_LISTEN="nowhere" is no host:port`},
		{"QUEEN_ENCRYPTION_KEY=00hunter2", "QUEEN_ENCRYPTION_KEY is not 64 hex digits. It is *"},
		{"QUEEN_ENCRYPTION_KEY=" + encryptionKey + "0hunter2", "QUEEN_ENCRYPTION_KEY is not 64 hex digits. It is *"},
		{"QUEEN_ENCRYPTION_KEY=" + encryptionKey[2:], "QUEEN_ENCRYPTION_KEY is not 64 hex digits. It is *"},
		{"JWT_ENABLED=true", "JWT_ENABLED is set, and this build does not check tokens: it would serve everyone"},
	} {
		t.Run(c.env, func(t *testing.T) {
			_, err := FromEnv(sinkEnv(c.env))
			if err == nil {
				t.Fatal("not refused")
			}
			if !like(c.want, err.Error()) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("\n got %s\nwant %s", err, c.want)
			}
		})
	}
	_, err := FromEnv([]string{"QUEEN_S3_EMBEDDED=true"})
	if err == nil || !strings.HasPrefix(err.Error(), sink+"QUEEN_S3_QUEUES is not set: it is the queues to mirror") {
		t.Errorf("nothing but EMBEDDED: %v", err)
	}
	_, err = FromEnv([]string{"QUEEN_RAFT_NODE_ID=ordinal", "HOSTNAME=pod"})
	if err == nil || !strings.Contains(err.Error(), "needs a host name that ends in a number, and pod does not") {
		t.Errorf("ordinal without a number: %v", err)
	}
}

// like compares text with a pattern in which `*` stands for anything.
func like(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	for _, part := range parts {
		_, rest, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = rest
	}
	return text == "" || strings.HasSuffix(pattern, "*")
}

// B11: without keys the process's own credentials are used; by half, neither.
func TestKeysGivenByHalf(t *testing.T) {
	none := []string{"QUEEN_S3_ACCESS_KEY=", "QUEEN_S3_SECRET_KEY="}
	for _, c := range []struct {
		env  []string
		want string // "" = accepted
	}{
		{nil, ""},
		{[]string{"QUEEN_S3_SESSION_TOKEN=t"}, "QUEEN_S3_SESSION_TOKEN is set but QUEEN_S3_ACCESS_KEY is not: the token would be ignored"},
		{[]string{"AWS_ACCESS_KEY_ID=a"}, "AWS_ACCESS_KEY_ID is set but AWS_SECRET_ACCESS_KEY is not: *"},
		{[]string{"AWS_ACCESS_KEY=a"}, "AWS_ACCESS_KEY is set but AWS_SECRET_ACCESS_KEY is not: *"},
		{[]string{"AWS_SECRET_ACCESS_KEY=hunter2"}, "AWS_SECRET_ACCESS_KEY is set but AWS_ACCESS_KEY_ID is not: *"},
		{[]string{"AWS_WEB_IDENTITY_TOKEN_FILE=/t"}, "AWS_WEB_IDENTITY_TOKEN_FILE is set but AWS_ROLE_ARN is not: *"},
		{[]string{"AWS_ROLE_ARN=arn:aws:iam::1:role/r"}, "AWS_ROLE_ARN is set but AWS_WEB_IDENTITY_TOKEN_FILE is not: *"},
		{[]string{"AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=hunter2"}, ""},
		{[]string{"AWS_ACCESS_KEY=a", "AWS_SECRET_KEY=hunter2"}, ""},
		{[]string{"AWS_WEB_IDENTITY_TOKEN_FILE=/t", "AWS_ROLE_ARN=arn:aws:iam::1:role/r"}, ""},
	} {
		got, err := FromEnv(sinkEnv(append(c.env, none...)...))
		switch {
		case c.want == "" && (err != nil || !got.Sink.Ambient):
			t.Errorf("%q: %v", c.env, err)
		case c.want != "" && (err == nil || !like("QUEEN_S3_EMBEDDED=true: "+c.want, err.Error()) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%q: %v", c.env, err)
		}
	}
	given, err := FromEnv(sinkEnv("QUEEN_S3_SESSION_TOKEN=t", "AWS_ACCESS_KEY_ID=a")) // keys that are given leave nothing to find
	if err != nil || given.Sink.Ambient || given.Sink.SessionToken.Reveal() != "t" {
		t.Errorf("given keys: %+v %v", given.Sink, err)
	}
}

func TestWarnings(t *testing.T) {
	c, err := FromEnv(sinkEnv("QUEEN_S3_LISTEN=0.0.0.0:1", "QUEEN_S3_LOG_FORMAT=json", "QUEEN_S3_BUKET=x", "QUEEN_RAFT_ELECTION_MS=9",
		"QUEEN_RAFT_SCRUB_ROWS=1", "JWT_ENABLED=false", "JWT_ISSUER=me", "QUEEN_RAFT_REPLICATOR=local", "QUEEN_RAFT_GROUPS=", "OTHER=1"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"JWT_ISSUER is set, but this build has nothing that it would change: ignored",
		"QUEEN_RAFT_ELECTION_MS is set, but this build has nothing that it would change: ignored",
		"QUEEN_RAFT_REPLICATOR is set, but this build has nothing that it would change: ignored",
		"QUEEN_RAFT_SCRUB_ROWS is set, but this build has nothing that it would change: ignored",
		"QUEEN_S3_BUKET is not a setting, and is ignored; did you mean QUEEN_S3_BUCKET?",
		"QUEEN_S3_LISTEN and QUEEN_S3_LOG_FORMAT belonged to the standalone sink: ignored",
	}
	if d := cmp.Diff(want, c.Warnings); d != "" {
		t.Error(d)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"abc", "abc", 0}, {"abc", "acb", 2}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q %q: %d", c.a, c.b, got)
		}
	}
}

func FuzzFromEnv(f *testing.F) {
	f.Add("QUEEN_S3_ENDPOINT", "http://a:1/")
	f.Add("QUEEN_S3_PARTITIONS", "a:0..9,b")
	f.Add("QUEEN_S3_PREFIX", "/a/./b")
	f.Fuzz(func(t *testing.T, name, value string) {
		if strings.ContainsAny(name, "=") || name == "QUEEN_S3_SECRET_KEY" {
			return
		}
		c, err := FromEnv(sinkEnv(name + "=" + value))
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.ContainsAny(err.Error(), "\n\r")) {
			t.Fatalf("the refusal is not one line without the secret: %q", err)
		}
		if err == nil && c.Sink != nil && (c.Sink.Endpoint == "" || c.Sink.Prefix == "" || c.Sink.TargetBytes <= 0) {
			t.Fatalf("accepted without a usable value: %+v", c.Sink)
		}
	})
}
