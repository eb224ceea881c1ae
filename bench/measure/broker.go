package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"queen/bench/child"
	"queen/bench/discard"
	"queen/bench/fill"
	"queen/upload"
)

// Limits of waiting. A benchmark that hangs must end by itself.
const (
	startLimit = 3 * time.Minute // a broker's start: 10 GB of log may be replayed
	stopLimit  = 90 * time.Second
	askLimit   = 30 * time.Second
)

// broker is a running queen.
type broker struct {
	*child.Process
	url   string
	lines chan child.Line
	file  string // of the profile; "" = none
}

// address is host:port.
func (q *broker) address() string { return strings.TrimPrefix(q.url, "http://") }

// manyLines is room for what a broker logs while nobody reads: ten thousand queues say several lines each.
const manyLines = 1 << 17

// start runs a broker on a folder. It returns as soon as the process runs; see ready.
func (b *Bench) start(ctx context.Context, dir string, settings map[string]string) (*broker, error) {
	if b.Profile != "" {
		return b.startInside(ctx, dir, settings)
	}
	return b.launch(ctx, dir, settings, "", b.Queen)
}

// startReady starts a broker and waits until it serves.
func (b *Bench) startReady(ctx context.Context, dir string, settings map[string]string) (*broker, error) {
	q, err := b.start(ctx, dir, settings)
	if err != nil {
		return nil, err
	}
	if err := q.ready(ctx); err != nil {
		q.Kill()
		return nil, err
	}
	return q, nil
}

// startInside runs the same broker inside this program (role serve), which can be profiled and counts its goroutines.
func (b *Bench) startInside(ctx context.Context, dir string, settings map[string]string) (*broker, error) {
	if b.Profile == "" {
		return b.launch(ctx, dir, settings, "", b.Self, "serve")
	}
	file := filepath.Join(b.Profile, filepath.Base(b.folder(b.kind))+".pprof")
	return b.launch(ctx, dir, settings, file, b.Self, "serve", "-profile", file)
}

func (b *Bench) launch(ctx context.Context, dir string, settings map[string]string, profile, program string, args ...string) (*broker, error) {
	q := &broker{lines: make(chan child.Line, manyLines), file: profile}
	all := map[string]string{"PORT": "0", "QUEEN_BIND_ADDR": "127.0.0.1", "QUEEN_RAFT_DIR": dir}
	for k, v := range settings {
		all[k] = v
	}
	p, err := child.Start(ctx, program, args, environ(all), func(l child.Line) {
		select {
		case q.lines <- l:
		default: // the reader has what it wanted
		}
	})
	q.Process = p
	return q, err
}

// ready waits until the broker says where it listens.
func (q *broker) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	l, err := q.WaitLine(ctx, " listening url=")
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(l.Text, "listening url=")
	q.url, _, _ = strings.Cut(rest, " ")
	return nil
}

// profiling starts or stops the processor profile, if one is wanted.
func (q *broker) profiling(on bool) {
	switch {
	case q.file == "":
	case on:
		q.Signal(syscall.SIGUSR1)
	default:
		q.Signal(syscall.SIGUSR2)
	}
}

// get reads one of the broker's JSON pages.
func (q *broker) get(ctx context.Context, path string, into any) error {
	return ask(ctx, http.MethodGet, q.url+path, into)
}

func ask(ctx context.Context, method, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %s: %w: %.200s", method, url, resp.Status, err, body)
	}
	return nil
}

// lags reads the lag of each queue that the sink knows one of, s.
func (q *broker) lags(ctx context.Context) (map[string]float64, error) {
	var s status
	if err := q.get(ctx, "/status", &s); err != nil {
		return nil, err
	}
	return s.lags(), nil
}

// status is what is read of /status.
type status struct {
	S3 struct {
		Sinks []struct {
			Queues []struct {
				Name       string
				LagSeconds *float64
			}
		}
	}
}

func (s status) lags() map[string]float64 {
	out := map[string]float64{}
	for _, sink := range s.S3.Sinks {
		for _, queue := range sink.Queues {
			if queue.LagSeconds != nil {
				out[queue.Name] = *queue.LagSeconds
			}
		}
	}
	return out
}

// store is the discarding S3 server.
type store struct {
	*child.Process
	url string
}

func (b *Bench) store(ctx context.Context) (*store, error) {
	p, err := child.Start(ctx, b.Self, []string{"discard"}, environ(nil), nil)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	l, err := p.WaitLine(wait, "listening ")
	if err != nil {
		p.Kill()
		return nil, err
	}
	return &store{p, "http://" + strings.TrimPrefix(l.Text, "listening ")}, nil
}

// seen returns what the store was sent since it was asked last.
func (s *store) seen(ctx context.Context) (seen discard.Seen, err error) {
	err = ask(ctx, http.MethodDelete, s.url+discard.Control, &seen)
	return seen, err
}

// manifests returns the manifests that the store was sent since it was asked last, by k.
func (s *store) manifests(ctx context.Context) ([]*upload.Manifest, error) {
	seen, err := s.seen(ctx)
	if err != nil {
		return nil, err
	}
	var out []*upload.Manifest
	for _, text := range seen.Manifests {
		m, err := upload.ParseManifest(text)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *upload.Manifest) int { return int(int64(a.K) - int64(b.K)) })
	return out, nil
}

// Settings of the sink in a benchmark. The keys are nobody's.
const (
	region    = "us-east-1"
	bucket    = "discard"
	accessKey = "bench"
	secretKey = "bench-secret"
)

// sinkOn are the settings of a broker that mirrors the backlog into a store. Each name has rows of its own, so that one folder can be
// mirrored from its beginning as often as wanted. Guard and discovery are waits, not work: they are set short.
func sinkOn(s *store, name string) map[string]string {
	return map[string]string{
		"QUEEN_S3_EMBEDDED": "true", "QUEEN_S3_QUEUES": fill.Queue, "QUEEN_S3_START": "earliest", "QUEEN_S3_SINK": name, "QUEEN_S3_PREFIX": name,
		"QUEEN_S3_ENDPOINT": s.url, "QUEEN_S3_REGION": region, "QUEEN_S3_BUCKET": bucket, "QUEEN_S3_PATH_STYLE": "true",
		"QUEEN_S3_ACCESS_KEY": accessKey, "QUEEN_S3_SECRET_KEY": secretKey,
		"QUEEN_S3_SAFE_GUARD_MS": "0", "QUEEN_S3_DISCOVERY_INTERVAL_MS": "10", "QUEEN_S3_MAX_WINDOW_MS": "100",
	}
}

// with returns settings with some changed: name, value, name, value.
func with(settings map[string]string, pairs ...string) map[string]string {
	out := map[string]string{}
	for k, v := range settings {
		out[k] = v
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// shown prints settings as a command line, without the address of the store, which is another one in each run.
func shown(settings map[string]string) string {
	var out []string
	for k, v := range settings {
		switch k {
		case "QUEEN_S3_ENDPOINT", "QUEEN_S3_ACCESS_KEY", "QUEEN_S3_SECRET_KEY", "QUEEN_S3_REGION", "QUEEN_S3_BUCKET", "QUEEN_S3_PATH_STYLE":
		default:
			out = append(out, k+"="+v)
		}
	}
	slices.Sort(out)
	return strings.Join(append(out, "queen"), " ")
}

// field returns the number behind key= in a log line.
func field(line, key string) (int64, bool) {
	_, rest, ok := strings.Cut(line, " "+key+"=")
	if !ok {
		return 0, false
	}
	text, _, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}
