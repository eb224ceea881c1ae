package sink

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"queen/commit/committest"
	"queen/config"
	"queen/internal/fakes3"
	"queen/internal/rounds"
	"queen/stages"
	"queen/upload"
)

// sight is what is seen of a sink that runs with the settings of an environment.
type sight func(r *rig) string

// flipped is a setting at its default and away from it, and what is seen of a running sink each time.
type flipped struct {
	with []string // in both environments
	env  string   // what the setting is set to; "" = it is left at its default
	want string
	see  sight
}

// rig is a world and the settings that a sink in it has, from an environment.
type rig struct {
	*world
	cfg *config.Sink
}

// environment is the least that a sink needs: every setting that is not named is at its default.
func (w *world) environment(more ...string) *config.Sink {
	w.t.Helper()
	got, err := config.FromEnv(append(more, "QUEEN_S3_EMBEDDED=true", "QUEEN_S3_QUEUES=orders", "QUEEN_S3_ENDPOINT="+w.s3.Endpoint(), "QUEEN_S3_REGION=us-east-1",
		"QUEEN_S3_BUCKET=lake", "QUEEN_S3_ACCESS_KEY=key", "QUEEN_S3_SECRET_KEY="+secret, "QUEEN_S3_PATH_STYLE=true", "QUEEN_S3_START=earliest",
		"QUEEN_S3_THREADS=2", "HOSTNAME=h"))
	if err != nil {
		w.t.Fatal(err)
	}
	return got.Sink
}

func (r *rig) run() *life { return r.start(func(cfg *config.Sink) { *cfg = *r.cfg }) }

// first runs until window 1 of orders is committed.
func (r *rig) first() *life {
	l := r.run()
	r.until(10*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
	return l
}

// TestEverySetting is contract S11: each setting of the table, at its default and away from it, is seen on a sink that runs. A setting of the
// sink without a row fails; those of the broker have theirs in cmd/queen.
func TestEverySetting(t *testing.T) {
	rows := map[string][]flipped{}
	for _, group := range []map[string][]flipped{wireRows(), objectRows(), windowRows(), nodeRows()} {
		for env := range group {
			if rows[env] != nil {
				t.Errorf("%s is in two groups", env)
			}
		}
		maps.Copy(rows, group)
	}
	known := map[string]bool{}
	for _, s := range config.Settings() {
		if known[s.Env] = true; s.Scope != config.Broker && len(rows[s.Env]) < 2 {
			t.Errorf("%s is flipped nowhere", s.Env)
		}
	}
	for i, env := range slices.Sorted(maps.Keys(rows)) {
		if !known[env] {
			t.Errorf("%s is no setting", env)
		}
		if i%rounds.Of(1, 4) != 0 {
			continue
		}
		seen := map[string]bool{}
		for _, f := range rows[env] {
			t.Run(env+"="+f.env, func(t *testing.T) {
				inWorld(t, func(w *world) {
					var set []string
					if f.env != "" {
						set = append(set, env+"="+f.env)
					}
					if got := f.see(&rig{w, w.environment(append(set, f.with...)...)}); got != f.want {
						t.Errorf("saw %q, want %q", got, f.want)
					}
				})
			})
			seen[f.want] = true
		}
		if len(seen) < 2 {
			t.Errorf("%s: whatever it is, the same is seen", env)
		}
	}
}

// sent sees the request that carries the first data object.
func sent(records int, saw func(data fakes3.Request, all []fakes3.Request) string) sight {
	return func(r *rig) string {
		r.s3.Accept(fakes3.Credentials{Access: r.cfg.AccessKey, Secret: r.cfg.SecretKey.Reveal(), Token: r.cfg.SessionToken.Reveal()})
		for range records {
			r.mem.push("orders", "p", 1000)
		}
		r.first().stop()
		all := r.s3.Requests()
		for _, q := range all {
			if (q.Op == "put" || q.Op == "multipart_create") && strings.Contains(q.Key, "/dt=") {
				return saw(q, all)
			}
		}
		return "no data object was sent"
	}
}

func header(name string) sight {
	return sent(1, func(data fakes3.Request, _ []fakes3.Request) string { return strings.Join(data.Header[name], "|") })
}

func where(data fakes3.Request, _ []fakes3.Request) string {
	path, _, _ := strings.Cut(data.Path, "/tenant")
	return data.Host + path
}

// signed is the key's id and the region that a request is signed for, and how it was answered.
func signed(data fakes3.Request, _ []fakes3.Request) string {
	_, rest, _ := strings.Cut(data.Header.Get("Authorization"), "Credential=")
	fields := strings.Split(rest, "/")
	return fmt.Sprint(fields[0], " ", fields[2], " ", data.Status)
}

func parts(_ fakes3.Request, all []fakes3.Request) string {
	n := 0
	for _, r := range all {
		if r.Op == "multipart_part" {
			n++
		}
	}
	return fmt.Sprint(n)
}

// wireRows are seen on the way to the bucket.
func wireRows() map[string][]flipped {
	const token, sse, kms = "X-Amz-Security-Token", "X-Amz-Server-Side-Encryption", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"
	big := []string{"QUEEN_S3_COMPRESSION=none"}
	small := append(big, "QUEEN_S3_MULTIPART_THRESHOLD_MB=5")
	return map[string][]flipped{
		"QUEEN_S3_ENDPOINT":   {{nil, "", "fakes3.test/lake/queen", sent(1, where)}, {nil, "http://other.test:9000", "other.test:9000/lake/queen", sent(1, where)}},
		"QUEEN_S3_REGION":     {{nil, "", "key us-east-1 200", sent(1, signed)}, {nil, "auto", "key auto 200", sent(1, signed)}},
		"QUEEN_S3_BUCKET":     {{nil, "", "fakes3.test/lake/queen", sent(1, where)}, {nil, "Other.b-1", "fakes3.test/Other.b-1/queen", sent(1, where)}},
		"QUEEN_S3_ACCESS_KEY": {{nil, "", "key us-east-1 200", sent(1, signed)}, {nil, "key2", "key2 us-east-1 200", sent(1, signed)}},
		"QUEEN_S3_SECRET_KEY": {{nil, "s=2", "key us-east-1 200", sent(1, signed)}, {nil, "s=2", "403", func(r *rig) string {
			r.mem.push("orders", "p", 1)
			l := r.run() // the store knows another one
			defer l.gone()
			r.until(10*time.Minute, "refused", func() bool { return failingBucket(r.world, l) })
			return fmt.Sprint(r.s3.Requests()[0].Status)
		}}},
		"QUEEN_S3_SESSION_TOKEN":          {{nil, "", "", header(token)}, {nil, "t=1", "t=1", header(token)}},
		"QUEEN_S3_PREFIX":                 {{nil, "", "fakes3.test/lake/queen", sent(1, where)}, {nil, "/a b/%2F+é/", "fakes3.test/lake/a%20b/%252F%2B%C3%A9", sent(1, where)}},
		"QUEEN_S3_PATH_STYLE":             {{nil, "true", "fakes3.test/lake/queen", sent(1, where)}, {nil, "false", "lake.fakes3.test/queen", sent(1, where)}},
		"QUEEN_S3_SSE":                    {{nil, "", "", header(sse)}, {nil, "aes256", "AES256", header(sse)}, {nil, "kms", "aws:kms", header(sse)}},
		"QUEEN_S3_SSE_KMS_KEY_ID":         {{[]string{"QUEEN_S3_SSE=kms"}, "", "", header(kms)}, {[]string{"QUEEN_S3_SSE=kms"}, "k1", "k1", header(kms)}},
		"QUEEN_S3_MULTIPART_THRESHOLD_MB": {{big, "", "0", sent(70, parts)}, {big, "5", "1", sent(70, parts)}},
		"QUEEN_S3_MEMORY_MB":              {{small, "", "1", sent(70, parts)}, {small, "64", "3", sent(70, parts)}},
	}
}

// stored sees the bucket after window 1, of two partitions.
func stored(saw func(r *rig, m upload.Manifest, data []byte) string) sight {
	return func(r *rig) string {
		r.mem.push("orders", "p1", 3)
		r.mem.push("orders", "p2", 4)
		r.first().stop()
		text, _ := r.s3.Object(upload.ManifestKey(r.cfg.Prefix, stages.DefaultTenant, "orders", 1))
		m, err := upload.ParseManifest(text)
		if err != nil {
			r.t.Fatal(err)
		}
		data, _ := r.s3.Object(m.Objects[0].Key)
		return saw(r, *m, data)
	}
}

// begins is the magic of the object's format or codec, and its ending.
func begins(_ *rig, m upload.Manifest, data []byte) string {
	return fmt.Sprintf("%q %s", data[:4], m.Objects[0].Key[strings.LastIndexByte(m.Objects[0].Key, '.')+1:])
}

// folder is what of the key's folders says when.
func folder(_ *rig, m upload.Manifest, _ []byte) string {
	_, after, _ := strings.Cut(m.Objects[0].Key, "/dt=")
	levels := strings.Split(after, "/")
	return strings.Join(levels[:len(levels)-1], "/")
}

// objectRows are seen in keys and bytes.
func objectRows() map[string][]flipped {
	parquet := []string{"QUEEN_S3_FORMAT=parquet"}
	objects := stored(func(_ *rig, m upload.Manifest, _ []byte) string { return fmt.Sprint(len(m.Objects)) })
	codec := stored(func(_ *rig, m upload.Manifest, data []byte) string {
		if strings.Contains(string(data), "\x28\xb5\x2f\xfd") { // the magic of zstd in a page
			return m.Compression + ", zstd"
		}
		return m.Compression + ", no zstd"
	})
	return map[string][]flipped{
		"QUEEN_S3_FORMAT": {{nil, "", `"(\xb5/\xfd" zst`, stored(begins)}, {nil, "parquet", `"PAR1" parquet`, stored(begins)}},
		"QUEEN_S3_COMPRESSION": {{nil, "", `"(\xb5/\xfd" zst`, stored(begins)}, {nil, "gzip", `"\x1f\x8b\b\x00" gz`, stored(begins)},
			{nil, "none", `"{\"pa" jsonl`, stored(begins)}},
		"QUEEN_S3_PARQUET_CODEC": {{parquet, "", "zstd, zstd", codec}, {parquet, "snappy", "snappy, no zstd", codec}},
		"QUEEN_S3_LAYOUT":        {{nil, "", "1", objects}, {nil, "per-partition", "2", objects}},
		"QUEEN_S3_ALIGN":         {{nil, "", "2000-01-01/hour=00", stored(folder)}, {nil, "day", "2000-01-01", stored(folder)}},
		"QUEEN_S3_SINK":          {{nil, "", "default default", stored(sinkName)}, {nil, "archive", "archive archive", stored(sinkName)}},
	}
}

// sinkName is the sink's name in KV and in the manifest.
func sinkName(r *rig, m upload.Manifest, _ []byte) string {
	for _, key := range r.mem.kv.Keys() {
		if strings.HasSuffix(key, ":orders:committed") {
			return strings.Split(key, ":")[1] + " " + m.Sink
		}
	}
	return "no row"
}

// windowRows are seen in when windows begin and end.
func windowRows() map[string][]flipped {
	records := func(r *rig) string {
		r.mem.push("orders", "p", 5)
		elapse(time.Second)
		l := r.run()
		r.until(time.Minute, "adopted", hasState(l, "orders", "filling"))
		r.mem.push("orders", "p", 2)
		r.until(10*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		defer l.stop()
		return fmt.Sprint(l.row("orders")["records"])
	}
	windows := func(r *rig) string {
		for range 20 {
			r.mem.push("orders", "p", 1000) // 3 MiB in all
		}
		l := r.run()
		defer l.stop()
		r.until(10*time.Minute, "all", func() bool { return r.complete(l, "orders") })
		return fmt.Sprint(l.k("orders"))
	}
	age := func(r *rig) string {
		r.mem.push("orders", "p", 1)
		begun := time.Now()
		defer r.first().stop()
		return time.Since(begun).Truncate(10 * time.Second).String()
	}
	behind := func(r *rig) string { // the end of an idle queue's lake, behind the log
		r.mem.push("orders", "p", 1)
		l := r.first()
		defer l.stop()
		elapse(time.Minute)
		lag := l.row("orders")["lagSeconds"].(float64)
		return fmt.Sprint(int(lag) / 5 * 5)
	}
	return map[string][]flipped{
		"QUEEN_S3_START":         {{[]string{"QUEEN_S3_START="}, "earliest", "7", records}, {nil, "latest", "2", records}},
		"QUEEN_S3_TARGET_MB":     {{nil, "", "1", windows}, {nil, "1", "3", windows}},
		"QUEEN_S3_MAX_WINDOW_MS": {{nil, "", "5m0s", age}, {nil, "20000", "20s", age}},
		"QUEEN_S3_SAFE_GUARD_MS": {{nil, "", "5", behind}, {nil, "30000", "30", behind}},
	}
}

// nodeRows are seen in status, in rows of KV, and in what is done at the same time.
func nodeRows() map[string][]flipped {
	names := func(r *rig) string {
		for _, q := range []string{"a", "b", "orders"} {
			r.mem.push(q, "p", 1)
		}
		l := r.run()
		defer l.stop()
		var all []string
		r.until(time.Minute, "all adopted", func() bool {
			all = all[:0]
			for _, q := range l.s.all() {
				if hasState(l, q.name, "filling")() {
					all = append(all, q.name)
				}
			}
			return len(all) > 0 && len(all) == len(l.s.all())
		})
		return strings.Join(all, " ")
	}
	looks := func(r *rig) string {
		r.mem.push("orders", "p", 1)
		l := r.run()
		defer l.stop()
		r.until(time.Minute, "adopted", hasState(l, "orders", "filling"))
		count := func() int {
			r.mem.mu.Lock()
			defer r.mem.mu.Unlock()
			return r.mem.looks
		}
		before := count()
		elapse(time.Minute + time.Second)
		return fmt.Sprint(count() - before)
	}
	return map[string][]flipped{
		"QUEEN_S3_QUEUES":                {{nil, "", "orders", names}, {nil, "b,a", "a b", names}, {nil, "*", "a b orders", names}},
		"QUEEN_S3_DISCOVERY_INTERVAL_MS": {{nil, "", "30", looks}, {nil, "10000", "6", looks}},
		"QUEEN_S3_LEASE_TTL_MS":          {{nil, "", "30s every 10s", leaseTTL}, {nil, "60000", "1m0s every 20s", leaseTTL}},
		"QUEEN_S3_INSTANCE":              {{nil, "", "node-1@h", owner}, {nil, "blue", "blue/node-1", owner}},
		"QUEEN_S3_CRASH_AT":              {{nil, "", "1", dies}, {nil, "after_intent", "dead with an intent and 0 objects", dies}, {nil, "after_upload", "dead with an intent and 2 objects", dies}},
		"QUEEN_S3_SHUTDOWN_GRACE_MS":     {{nil, "", "27s", drainTime}, {nil, "10000", "9s", drainTime}},
		"QUEEN_S3_THREADS":               {{nil, "1", "1 queues", atOnce}, {nil, "3", "3 queues", atOnce}},
		"QUEEN_S3_FETCH_CONCURRENCY":     {{nil, "", "4 reads", readsAtOnce}, {nil, "7", "7 reads", readsAtOnce}},
		"QUEEN_S3_CHECKPOINT_EVERY":      {{nil, "", "0 checkpoints", checkpoints}, {nil, "3", "2 checkpoints", checkpoints}},
	}
}

// leaseTTL sees with what time to live the lease row is written, and how far apart.
func leaseTTL(r *rig) string {
	r.mem.push("orders", "p", 1)
	var mu sync.Mutex
	var ttl time.Duration
	var at []time.Time
	r.mem.kv.Script(func(ops []stages.Op) committest.Fault {
		if op := ops[0]; len(ops) == 1 && op.Key == leaseKey && op.Kind == stages.OpPut {
			mu.Lock()
			defer mu.Unlock()
			ttl, at = op.TTL, append(at, time.Now())
		}
		return committest.None
	})
	l := r.run()
	defer l.stop()
	r.until(time.Minute, "adopted", hasState(l, "orders", "filling"))
	elapse(time.Minute)
	mu.Lock()
	defer mu.Unlock()
	return fmt.Sprintf("%v every %v", ttl, at[len(at)-1].Sub(at[len(at)-2]))
}

func owner(r *rig) string {
	r.mem.push("orders", "p", 1)
	l := r.run()
	defer l.stop()
	r.until(time.Minute, "adopted", hasState(l, "orders", "filling"))
	var row struct{ Instance string }
	if err := json.Unmarshal(r.mem.kv.Get(leaseKey).Value, &row); err != nil {
		r.t.Fatal(err)
	}
	return row.Instance
}

func dies(r *rig) string {
	r.mem.push("orders", "p", 1)
	l := r.run()
	r.until(10*time.Minute, "window 1, or the end", func() bool { return l.k("orders") == 1 || l.dead.Load() })
	if !l.dead.Load() {
		defer l.stop()
		return fmt.Sprint(l.k("orders"))
	}
	<-l.ended
	if r.mem.kv.Get("s3:default:orders:intent").Version == 0 || r.mem.kv.Get(committedKey).Version != 0 {
		return "dead elsewhere"
	}
	return fmt.Sprintf("dead with an intent and %d objects", len(r.s3.Keys()))
}

func drainTime(r *rig) string {
	r.s3.Script(fakes3.Rule{Op: "put", Times: 1, Hold: make(chan struct{})})
	r.mem.push("orders", "p", 5)
	l := r.run()
	r.until(10*time.Minute, "the upload", hasState(l, "orders", "upload"))
	begun := time.Now()
	l.stop()
	return time.Since(begun).Truncate(time.Second).String()
}

// stick lets reads of bodies wait, and returns what counts them and what lets them go.
func (r *rig) stick() (count func() map[stages.QueueID]int, release func()) {
	stuck := make(chan struct{})
	r.mem.mu.Lock()
	defer r.mem.mu.Unlock()
	r.mem.stuck, r.mem.reads = stuck, map[stages.QueueID]int{}
	return func() map[stages.QueueID]int {
		r.mem.mu.Lock()
		defer r.mem.mu.Unlock()
		return maps.Clone(r.mem.reads)
	}, func() { close(stuck) }
}

// atOnce sees of how many queues windows are encoded at the same time.
func atOnce(r *rig) string {
	for i := range 6 {
		r.mem.push(fmt.Sprintf("q%d", i), "p", 1)
	}
	r.cfg.All, r.cfg.Queues = true, nil
	count, release := r.stick()
	l := r.run()
	elapse(6 * time.Minute)
	synctest.Wait()
	n := len(count())
	release()
	l.stop()
	return fmt.Sprintf("%d queues", n)
}

// readsAtOnce sees how many reads of one window are in flight.
func readsAtOnce(r *rig) string {
	r.mem.pad = 900_000
	for range 12 {
		r.mem.push("orders", "p", 1)
	}
	count, release := r.stick()
	l := r.run()
	elapse(6 * time.Minute)
	synctest.Wait()
	n := 0
	for _, reads := range count() {
		n += reads
	}
	release()
	l.stop()
	return fmt.Sprintf("%d reads", n)
}

// checkpoints sees how many of them are written while seven windows are.
func checkpoints(r *rig) string {
	l := r.run()
	for k := range uint64(7) {
		r.mem.push("orders", "p", 1)
		r.until(10*time.Minute, "a window", func() bool { return l.k("orders") == k+1 })
		elapse(10 * time.Second)
	}
	l.stop()
	n := 0
	for _, q := range r.s3.Requests() {
		if q.Op == "put" && strings.Contains(q.Key, "/checkpoint/") {
			n++
		}
	}
	return fmt.Sprintf("%d checkpoints", n)
}
