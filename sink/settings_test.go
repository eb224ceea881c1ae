package sink

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/config"
	"queen/internal/fakes3"
)

// silentSettings say nothing to the bucket: they shape what is in an object, when a window closes, or who writes.
var silentSettings = []string{
	"QUEEN_S3_QUEUES", "QUEEN_S3_SINK", "QUEEN_S3_FORMAT", "QUEEN_S3_PARQUET_CODEC", "QUEEN_S3_LAYOUT", "QUEEN_S3_START", "QUEEN_S3_TARGET_MB",
	"QUEEN_S3_MAX_WINDOW_MS", "QUEEN_S3_FETCH_CONCURRENCY", "QUEEN_S3_DISCOVERY_INTERVAL_MS", "QUEEN_S3_SAFE_GUARD_MS", "QUEEN_S3_LEASE_TTL_MS",
	"QUEEN_S3_CHECKPOINT_EVERY", "QUEEN_S3_INSTANCE", "QUEEN_S3_CRASH_AT",
}

// wireCase is one value of a setting, and what of it is seen on the way to the bucket.
type wireCase struct {
	env    []string
	accept fakes3.Credentials // zero: what the environment below has
	want   string
	saw    func(data fakes3.Request, all []fakes3.Request) string
}

func header(name string) func(fakes3.Request, []fakes3.Request) string {
	return func(data fakes3.Request, _ []fakes3.Request) string { return strings.Join(data.Header[name], "|") }
}

func where(data fakes3.Request, _ []fakes3.Request) string {
	path, _, _ := strings.Cut(data.Path, "/tenant")
	return data.Host + path
}

// scope is the key's id and the region that a request is signed for.
func scope(data fakes3.Request, _ []fakes3.Request) string {
	_, rest, _ := strings.Cut(data.Header.Get("Authorization"), "Credential=")
	fields := strings.Split(rest, "/")
	return fields[0] + " " + fields[2]
}

func answered(data fakes3.Request, _ []fakes3.Request) string { return fmt.Sprint(data.Status) }

func parts(_ fakes3.Request, all []fakes3.Request) string {
	n := 0
	for _, r := range all {
		if r.Op == "multipart_part" {
			n++
		}
	}
	return fmt.Sprint(n)
}

// folder is what of the key's folders says when.
func folder(data fakes3.Request, _ []fakes3.Request) string {
	_, after, _ := strings.Cut(data.Key, "/dt=")
	if strings.Contains(after, "/hour=") {
		return "day and hour"
	}
	return "day"
}

func wireCases() map[string][]wireCase {
	const big = "QUEEN_S3_COMPRESSION=none"
	return map[string][]wireCase{
		"QUEEN_S3_ENDPOINT": {{want: "fakes3.test/lake/queen", saw: where}, {env: []string{"QUEEN_S3_ENDPOINT=http://other.test:9000"}, want: "other.test:9000/lake/queen", saw: where}},
		"QUEEN_S3_REGION":   {{want: "key us-east-1", saw: scope}, {env: []string{"QUEEN_S3_REGION=auto"}, want: "key auto", saw: scope}},
		"QUEEN_S3_BUCKET":   {{env: []string{"QUEEN_S3_BUCKET=Other.b-1"}, want: "fakes3.test/Other.b-1/queen", saw: where}},
		"QUEEN_S3_ACCESS_KEY": {{env: []string{"QUEEN_S3_ACCESS_KEY=key2"}, accept: fakes3.Credentials{Access: "key2", Secret: secret},
			want: "key2 us-east-1", saw: scope}},
		"QUEEN_S3_SECRET_KEY": {{env: []string{"QUEEN_S3_SECRET_KEY=s=2"}, accept: fakes3.Credentials{Access: "key", Secret: "s=2"}, want: "200", saw: answered}},
		"QUEEN_S3_SESSION_TOKEN": {{want: "", saw: header("X-Amz-Security-Token")},
			{env: []string{"QUEEN_S3_SESSION_TOKEN=t=1"}, accept: fakes3.Credentials{Access: "key", Secret: secret, Token: "t=1"}, want: "t=1", saw: header("X-Amz-Security-Token")}},
		"QUEEN_S3_PREFIX":     {{env: []string{"QUEEN_S3_PREFIX=/a b/%2F+é/"}, want: "fakes3.test/lake/a%20b/%252F%2B%C3%A9", saw: where}},
		"QUEEN_S3_PATH_STYLE": {{env: []string{"QUEEN_S3_PATH_STYLE=false"}, want: "lake.fakes3.test/queen", saw: where}},
		"QUEEN_S3_SSE": {{want: "", saw: header("X-Amz-Server-Side-Encryption")},
			{env: []string{"QUEEN_S3_SSE=aes256"}, want: "AES256", saw: header("X-Amz-Server-Side-Encryption")},
			{env: []string{"QUEEN_S3_SSE=kms"}, want: "aws:kms", saw: header("X-Amz-Server-Side-Encryption")},
			{env: []string{"QUEEN_S3_SSE=kms"}, want: "", saw: header("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id")}},
		"QUEEN_S3_SSE_KMS_KEY_ID": {{env: []string{"QUEEN_S3_SSE=kms", "QUEEN_S3_SSE_KMS_KEY_ID=k1"}, want: "k1", saw: header("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id")}},
		"QUEEN_S3_COMPRESSION": {{want: "application/zstd", saw: header("Content-Type")},
			{env: []string{"QUEEN_S3_COMPRESSION=gzip"}, want: "application/gzip", saw: header("Content-Type")},
			{env: []string{"QUEEN_S3_COMPRESSION=none"}, want: "application/x-ndjson", saw: header("Content-Type")}},
		"QUEEN_S3_ALIGN": {{want: "day and hour", saw: folder}, {env: []string{"QUEEN_S3_ALIGN=day"}, want: "day", saw: folder}},
		"QUEEN_S3_MULTIPART_THRESHOLD_MB": {{env: []string{big, "QUEEN_S3_MULTIPART_THRESHOLD_MB=64", "QUEEN_S3_MEMORY_MB=512"}, want: "0", saw: parts},
			{env: []string{big, "QUEEN_S3_MULTIPART_THRESHOLD_MB=5", "QUEEN_S3_MEMORY_MB=512"}, want: "1", saw: parts}},
		"QUEEN_S3_MEMORY_MB": {{env: []string{big, "QUEEN_S3_MULTIPART_THRESHOLD_MB=5", "QUEEN_S3_MEMORY_MB=64"}, want: "3", saw: parts}},
	}
}

// P30: each setting that concerns the bucket is seen on the wire, from the environment through the table, the sink and the SDK.
func TestP30SettingsOnTheWire(t *testing.T) {
	cases := wireCases()
	for _, s := range config.Settings() {
		if (s.Scope == config.PerSink || s.Scope == config.Node) && len(cases[s.Env]) == 0 && !slices.Contains(silentSettings, s.Env) {
			t.Errorf("%s is flipped nowhere", s.Env)
		}
	}
	for env, list := range cases {
		for _, c := range list {
			t.Run(fmt.Sprintf("%s %q", env, c.env), func(t *testing.T) { flip(t, c) })
		}
	}
}

func flip(t *testing.T, c wireCase) {
	inWorld(t, func(w *world) {
		if c.accept == (fakes3.Credentials{}) {
			c.accept = fakes3.Credentials{Access: "key", Secret: secret}
		}
		w.s3.Accept(c.accept)
		got, err := config.FromEnv(append(c.env, "QUEEN_S3_EMBEDDED=true", "QUEEN_S3_QUEUES=orders", "QUEEN_S3_ENDPOINT="+w.s3.Endpoint(),
			"QUEEN_S3_REGION=us-east-1", "QUEEN_S3_BUCKET=lake", "QUEEN_S3_ACCESS_KEY=key", "QUEEN_S3_SECRET_KEY="+secret, "QUEEN_S3_PATH_STYLE=true",
			"QUEEN_S3_START=earliest", "QUEEN_S3_MAX_WINDOW_MS=10000", "QUEEN_S3_THREADS=2", "HOSTNAME=h"))
		if err != nil {
			t.Fatal(err)
		}
		n := 1
		if strings.Contains(fmt.Sprint(c.env), "COMPRESSION=none QUEEN") {
			n = 70
		}
		for range n {
			w.mem.push("orders", "p", 1000)
		}
		l := w.start(func(cfg *config.Sink) { *cfg = *got.Sink })
		w.until(5*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		l.stop()
		all := w.s3.Requests()
		for _, r := range all {
			if (r.Op == "put" || r.Op == "multipart_create") && strings.Contains(r.Key, "/dt=") {
				if saw := c.saw(r, all); saw != c.want {
					t.Errorf("saw %q, want %q", saw, c.want)
				}
				return
			}
		}
		t.Error("no data object was sent")
	})
}
