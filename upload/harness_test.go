package upload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"queen/internal/fakes3"
	"queen/stages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testSecret = "the-secret-of-the-tests"

// bucket is a client with a scripted store behind it; the real SDK runs in between.
type bucket struct {
	*Client
	s3   *fakes3.Server
	mu   sync.Mutex
	seen map[string]int // "op code" -> attempts
}

func newBucket(t *testing.T, server fakes3.Options, change func(*ClientOptions)) *bucket {
	t.Helper()
	server.Bucket = "lake"
	if server.Secret == "" {
		server.Secret = testSecret
	}
	b := &bucket{s3: fakes3.New(server), seen: map[string]int{}}
	o := ClientOptions{
		Endpoint: b.s3.Endpoint(), Region: "us-east-1", Bucket: "lake", AccessKey: "key", SecretKey: testSecret, PathStyle: true,
		Dial:   b.s3.Dial,
		Random: func() float64 { return 1 },
		Observe: func(op Op, code int) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.seen[fmt.Sprintf("%s %d", op, code)]++
		},
	}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	b.Client = c
	t.Cleanup(func() {
		c.Close()
		b.s3.Close()
	})
	return b
}

func (b *bucket) counted(what string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[what]
}

// transcript lists requests, parts that follow each other by number, as "op key status" with the named headers.
func transcript(reqs []fakes3.Request, headers ...string) string {
	var out strings.Builder
	slices.SortStableFunc(reqs, func(a, b fakes3.Request) int {
		if a.Op != "multipart_part" || b.Op != "multipart_part" {
			return 0
		}
		return strings.Compare(a.Query.Get("partNumber"), b.Query.Get("partNumber"))
	})
	for _, r := range reqs {
		fmt.Fprintf(&out, "%s %s", r.Op, r.Key)
		if n := r.Query.Get("partNumber"); n != "" {
			fmt.Fprintf(&out, " part=%s", n)
		}
		if r.Bytes > 0 {
			fmt.Fprintf(&out, " bytes=%d", r.Bytes)
		}
		for _, h := range headers {
			if v := r.Header.Get(h); v != "" {
				fmt.Fprintf(&out, " %s=%s", h, v)
			}
		}
		fmt.Fprintf(&out, " -> %d\n", r.Status)
	}
	return out.String()
}

func ops(reqs []fakes3.Request) string {
	var out []string
	for _, r := range reqs {
		out = append(out, r.Op)
	}
	return strings.Join(out, " ")
}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// pattern is n bytes that differ from place to place.
func pattern(n int) []byte {
	out := make([]byte, n)
	x := uint32(1)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x >> 24)
	}
	return out
}

func chunked(data []byte, size int) [][]byte {
	return slices.Collect(slices.Chunk(data, size))
}

func testIntent() stages.Intent {
	return stages.Intent{
		K: 1, Start: 1791007200000000, End: 1791009458377855, At: "2026-10-03T06:37:44.741000Z",
		Format: "jsonl", Compression: "zstd", Level: 3, Layout: "merged", Align: "hour", Prefix: "queen",
		Writer: "queen-s3/2.0.0 jsonl+zstd", Encoder: "test",
	}
}

func testJob() *stages.Job {
	return &stages.Job{Queue: stages.QueueInfo{ID: 1, Name: "orders"}, Intent: testIntent()}
}

const (
	testTenant   = stages.DefaultTenant
	testData     = "queen/tenant=00000000-0000-0000-0000-000000000001/queue=orders/dt=2026-10-03/hour=06/w-0000000001-1791007200000000-1791009458377855.jsonl.zst"
	testManifest = "queen/_queen/tenant=00000000-0000-0000-0000-000000000001/queue=orders/windows/0000000001.json"
)

func describe(format, compression string) (string, string, error) {
	if format != "jsonl" || compression != "zstd" {
		return "", "", fmt.Errorf("unknown format %s %s", format, compression)
	}
	return "jsonl.zst", "application/zstd", nil
}

func newTestStage(b *bucket, threshold int64, hook func(string)) *Stage {
	return NewStage(StageOptions{Client: b.Client, Sink: "default", Tenant: testTenant, Threshold: threshold, Describe: describe, Hook: hook})
}

// send pushes an object through the stage in chunks as an encoder makes them, and returns what came out. However it ends, the stage holds no
// chunk then.
func send(ctx context.Context, s *Stage, job *stages.Job, data []byte) (*stages.Uploaded, error) {
	var out *stages.Uploaded
	emit := func(u *stages.Uploaded) error {
		out = u
		return nil
	}
	var pool stages.Chunks
	chunks := chunked(data, stages.ChunkBytes)
	for i, c := range chunks {
		in := taken(&pool, job, c)
		if i == len(chunks)-1 {
			in.End = true
			in.Stats = stages.Stats{Records: 3, Partitions: 2, MinTS: 1791009457501942, MaxTS: 1791009457501942}
		}
		if err := s.Do(ctx, in, emit); err != nil {
			atRest(&pool)
			return nil, err
		}
	}
	atRest(&pool)
	return out, nil
}

// taken is a chunk of the pool that holds data.
func taken(pool *stages.Chunks, job *stages.Job, data []byte) stages.Chunk {
	b := pool.Take()
	return stages.Chunk{Job: job, Buffer: b, Data: b.Bytes()[:copy(b.Bytes(), data)]}
}

// atRest ends the test when chunks are out.
func atRest(pool *stages.Chunks) {
	if n := pool.Out(); n != 0 {
		panic(fmt.Sprintf("%d bytes of chunks are out, and nothing is under way", n))
	}
}

// within fails the test when fn took longer than d of the bubble's time, or shorter than atLeast.
func within(t *testing.T, atLeast, d time.Duration, fn func()) {
	t.Helper()
	start := time.Now()
	fn()
	if took := time.Since(start); took > d || took < atLeast {
		t.Errorf("took %v, want %v to %v", took, atLeast, d)
	}
}
