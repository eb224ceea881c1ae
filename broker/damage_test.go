package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"queen/broker/raftnode"
	"queen/broker/state"
	"queen/internal/rounds"
	"queen/stages"
)

// One bit is flipped somewhere in the data folder of a node that was closed, or killed. The node that opens it next gives back
// every record, document and transaction id as it was, or it says no with an error that names the file or the entry. Wrong bytes,
// and records that are missing without an error, are what must not be.
//
// It does damagePlaces places for each kind of file, `make e2e` does 40, and QUEEN_DAMAGE_PLACES=200 as many as were once done by hand.

const (
	damagePlaces  = 10
	damageQueues  = 4
	damagePushes  = 240
	damageCount   = 12 // records of a push
	damageDocs    = 60
	damageWALFile = 64 << 10
	damageSeal    = 32 << 10
)

// expected is what a folder must give back.
type expected struct {
	pushes map[uint64]acked  // by first record
	docs   map[string]string // key -> value
}

// folder is a data folder at rest.
type folder struct {
	dir  string
	want expected
}

func damageOptions(dir string, log zerolog.Logger, fatal func(error)) Options {
	return Options{
		Dir: dir, NodeID: 1, Now: time.Now, Log: log, Fatal: fatal, SealBytes: damageSeal,
		OpenStore: func(dir string) (raftnode.Store, error) { return raftnode.OpenDisk(dir, damageWALFile, log) },
	}
}

// buildFolders makes both folders from one life of a node: as it was when killed, and closed.
func buildFolders(t *testing.T) map[string]folder {
	t.Helper()
	live, killed := filepath.Join(t.TempDir(), "live"), filepath.Join(t.TempDir(), "killed")
	b := start(t, damageOptions(live, zerolog.Nop(), func(err error) { t.Error("fatal:", err) }))
	want := expected{pushes: make(map[uint64]acked), docs: make(map[string]string)}
	var mu sync.Mutex
	for round := range 4 { // the last one is not flushed
		var work errgroup.Group
		for w := range 4 {
			work.Go(func() error {
				for i := range damagePushes / 16 {
					n := (round*4+w)*damagePushes/16 + i
					a := acked{queue: fmt.Sprint("q", n%damageQueues), partition: fmt.Sprint("p", n/damageQueues%5), first: uint64(n) * 1000, count: damageCount}
					r, err := push(t.Context(), b, a.queue, a.partition, a.first, a.count, 10)
					if err != nil {
						return err
					}
					a.stamp, a.base = r.Stamp, r.Appends[0].Base
					mu.Lock()
					want.pushes[a.first] = a
					mu.Unlock()
				}
				return nil
			})
		}
		if err := work.Wait(); err != nil {
			t.Fatal(err)
		}
		for i := range damageDocs {
			if i%4 > round {
				continue // some documents are written once, some are written over
			}
			key, value := fmt.Sprint("doc", i), fmt.Sprintf(`{"doc":%d,"round":%d,"pad":"%0200d"}`, i, round, i)
			op := stages.Op{Kind: stages.OpPut, Key: key, Value: []byte(value), Forever: true}
			if _, lost, err := b.KV(stages.DefaultTenant).Batch(t.Context(), []stages.Op{op}); err != nil || lost != nil {
				t.Fatal(lost, err)
			}
			want.docs[key] = value
		}
		if round < 3 { // and one of them is a snapshot, so that the log begins behind its first entry
			if err := [3]func() error{b.flush, b.snapshot, b.flush}[round](); err != nil {
				t.Fatal(err)
			}
		}
	}
	copyQuiet(t, b, live, killed)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return map[string]folder{"closed": {live, want}, "killed": {killed, want}}
}

// copyQuiet copies a folder in use at a moment at which nothing moves in it: ticks are 500 ms apart. A file that is renamed under the copy moved.
func copyQuiet(t *testing.T, b *Broker, from, to string) {
	t.Helper()
	for range 20 {
		before, flushed := b.Status().LastLog, b.State().Unflushed()
		err := os.CopyFS(to, os.DirFS(from))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err == nil && b.Status().LastLog == before && b.State().Unflushed() == flushed && flushed > 0 {
			return
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the node is never quiet")
}

// kindOf names the kind of a file by its path in the data folder.
func kindOf(path string) string {
	dir, name := filepath.Split(path)
	top, _, _ := strings.Cut(dir, "/")
	if top == snapshotsDir {
		parts := strings.SplitN(path, "/", 3)
		if parts[2] == "SNAPSHOT" || parts[2] == "FORMAT" {
			return "snapshots/" + parts[2]
		}
		return "snapshots/" + kindOf(parts[2])
	}
	switch ext := filepath.Ext(name); {
	case path == "FORMAT", path == "raft/FORMAT", path == "segments/FORMAT", path == "raft/meta", path == "raft/acked":
		return path
	case top == "raft" && ext == ".wal":
		return "raft/*.wal"
	case top == "segments" && (ext == ".seg" || ext == ".idx"):
		return "segments/*" + ext
	case top == "state" && ext == ".sst":
		return "state/*.sst"
	case top == "state" && ext == ".log": // not used; closing leaves a trailer in it
		return "state/*.log"
	case top == "state" && ext == "" && strings.Contains(name, "-"):
		return "state/" + strings.TrimRight(name, "-0123456789") // MANIFEST, OPTIONS
	}
	return "unknown: " + path
}

// place is a byte range of a file in which bits are flipped.
type place struct {
	path     string
	from, to int64
}

// placesOf lists the ranges of a folder by kind. The newest file of the raft log ends with zeros that nothing was written to yet; they
// are left out, and so is the space between the records of raft/acked.
func placesOf(t *testing.T, dir string) map[string][]place {
	t.Helper()
	kinds := make(map[string][]place)
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil || len(text) == 0 { // locks, and the markers of pebble, which are names only
			return err
		}
		kind := kindOf(path)
		switch end := int64(len(bytes.TrimRight(text, "\x00"))); kind {
		case "raft/acked":
			kinds[kind] = append(kinds[kind], place{path, 0, 20}, place{path, 512, 532})
		case "raft/*.wal":
			kinds[kind] = append(kinds[kind], place{path, 0, end})
		default:
			kinds[kind] = append(kinds[kind], place{path, 0, int64(len(text))})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The newest file of the raft log is a kind of its own, since its end may be torn; so is its last batch of bytes.
	logs := kinds["raft/*.wal"]
	slices.SortFunc(logs, func(a, b place) int { return strings.Compare(a.path, b.path) })
	newest := len(logs) - 1
	for newest > 0 && logs[newest].to == 0 {
		newest--
	}
	kinds["raft/*.wal, newest"] = logs[newest:][:1]
	kinds["raft/*.wal, last bytes"] = []place{{logs[newest].path, max(0, logs[newest].to-120), logs[newest].to}}
	kinds["raft/*.wal"] = logs[:newest]
	return kinds
}

// pick returns a random bit of some ranges: byte and mask.
func pick(rng *rand.Rand, places []place) (path string, at int64, mask byte) {
	total := int64(0)
	for _, p := range places {
		total += p.to - p.from
	}
	n := rng.Int64N(total)
	for _, p := range places {
		if size := p.to - p.from; n < size {
			return p.path, p.from + n, 1 << rng.IntN(8)
		} else {
			n -= size
		}
	}
	panic("unreachable")
}

// verdict is how a flip ended.
type verdict int

const (
	right verdict = iota
	refusedBoot
	refusedRead
	verdicts
)

func TestDamage(t *testing.T) {
	places := damagePlaces
	if text := os.Getenv("QUEEN_DAMAGE_PLACES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		places = n
	}
	places = min(places, rounds.Of(places, 2))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-32s %7s %12s %16s %16s\n", "kind", "places", "right bytes", "refused at boot", "refused at read")
	folders := buildFolders(t)
	folders["no state"] = withoutState(t, folders["killed"])
	for _, end := range []string{"closed", "killed", "no state"} {
		f := folders[end]
		if v, err := tryDamaged(t.TempDir(), f, "FORMAT", 0, 0); v != right || err != nil {
			t.Fatalf("%s, undamaged: %v", end, err)
		}
		kinds := placesOf(t, f.dir)
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			if strings.Contains(kind, "unknown") {
				t.Errorf("a kind of file that the test does not know: %s", kind)
			}
			if end == "no state" && !strings.HasPrefix(kind, snapshotsDir) {
				continue // as in the folder that it was made of
			}
			var count [verdicts]int
			var mu sync.Mutex
			var work errgroup.Group
			work.SetLimit(8)
			for range places {
				path, at, mask := pick(rng, kinds[kind])
				work.Go(func() error {
					v, err := tryDamaged(t.TempDir(), f, path, at, mask)
					if err != nil {
						t.Errorf("%s, %s, byte %d, mask %#x: %v", end, path, at, mask, err)
					}
					mu.Lock()
					defer mu.Unlock()
					count[v]++
					return nil
				})
			}
			if err := work.Wait(); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&table, "%-32s %7d %12d %16d %16d\n", end+": "+kind, places, count[right], count[refusedBoot], count[refusedRead])
		}
	}
	t.Log(table.String())
}

// tryDamaged opens a copy of a folder with one byte changed, and reads everything. A nil error means: right, or named.
func tryDamaged(dir string, f folder, path string, at int64, mask byte) (v verdict, err error) {
	defer os.RemoveAll(dir)
	if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(f.dir))); err != nil {
		return right, err
	}
	name := filepath.Join(dir, path)
	text, err := os.ReadFile(name)
	if err != nil {
		return right, err
	}
	text[at] ^= mask
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return right, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var fatal firstError
	var lines lockedBuffer
	b, err := New(damageOptions(dir, zerolog.New(&lines), fatal.set))
	if err != nil {
		return right, err
	}
	if err := b.Open(ctx); err != nil {
		if strings.Contains(err.Error(), "\n") {
			return refusedBoot, fmt.Errorf("a refusal of more than one line: %w", err)
		}
		return refusedBoot, named(err, path)
	}
	err = readBack(ctx, b, f.want)
	err = errors.Join(err, b.Close(), fatal.get())
	var wrong *wrongError
	switch {
	case errors.As(err, &wrong):
		return right, err
	case err != nil:
		return refusedRead, named(err, path)
	case path == "raft/acked" && mask != 0 && !strings.Contains(lines.String(), path),
		summedInSnapshot(path) && !strings.Contains(lines.String(), path):
		return right, errors.New("the damage is not in the log")
	}
	return right, nil
}

// summedInSnapshot says whether a start finds any change of the file, also when nothing needs it.
func summedInSnapshot(path string) bool {
	kind := strings.TrimPrefix(kindOf(path), "snapshots/")
	return strings.HasPrefix(path, snapshotsDir) && (kind == "SNAPSHOT" || kind == "FORMAT" || strings.HasPrefix(kind, "state/") && kind != "state/*.sst")
}

// withoutState is a folder that only a snapshot can put right.
func withoutState(t *testing.T, f folder) folder {
	t.Helper()
	without := folder{filepath.Join(t.TempDir(), "without"), f.want}
	if err := errors.Join(os.CopyFS(without.dir, os.DirFS(f.dir)), os.RemoveAll(filepath.Join(without.dir, stateDir))); err != nil {
		t.Fatal(err)
	}
	return without
}

// named checks that a refusal names the damaged file, or an entry of the raft log, or, for the files in which
// pebble lists its others, their folder: what fails is then a file that such a list names.
func named(err error, path string) error {
	text, base := err.Error(), filepath.Base(path)
	if _, file, linked := strings.Cut(base, "-"); linked && strings.HasPrefix(path, snapshotsDir) && strings.HasSuffix(base, ".seg") {
		base = file // laid out in the folder of its queue
	}
	listed := strings.HasPrefix(base, "MANIFEST") || strings.HasPrefix(base, "OPTIONS")
	switch {
	case strings.Contains(text, base),
		strings.HasPrefix(path, "raft/") && strings.Contains(text, "entry "),
		listed && strings.Contains(text, filepath.Dir(path)+":"):
		return nil
	}
	return fmt.Errorf("a refusal that does not name the file: %w", err)
}

// wrongError is what must not be: other content than what was stored, without an error.
type wrongError struct{ what string }

func (w *wrongError) Error() string { return "WRONG: " + w.what }

func wrong(format string, args ...any) error { return &wrongError{fmt.Sprintf(format, args...)} }

// readBack reads everything in each way that there is. An error of one of them hides nothing that another finds wrong.
func readBack(ctx context.Context, b *Broker, want expected) error {
	return errors.Join(readRecords(ctx, b, want.pushes), readDocuments(b, want.docs), pushAgain(ctx, b, want.pushes))
}

func readRecords(ctx context.Context, b *Broker, want map[uint64]acked) error {
	kept, err := readAll(ctx, b)
	if err != nil {
		if errors.Is(err, stages.ErrDamaged) {
			return err
		}
		return wrong("records: %v", err)
	}
	if len(kept) != len(want) {
		return wrong("%d pushes are kept of %d", len(kept), len(want))
	}
	for first, a := range want {
		if kept[first] != a {
			return wrong("push answered as %+v is kept as %+v", a, kept[first])
		}
	}
	return nil
}

func readDocuments(b *Broker, want map[string]string) error {
	tenant, err := tenantID(stages.DefaultTenant)
	if err != nil {
		return err
	}
	return b.State().Read(func(r *state.Reader) error {
		for key, value := range want {
			doc, found, err := r.Document(tenant, sinkNamespace, key)
			if err != nil {
				return err
			}
			if !found || string(doc.Value) != value {
				return wrong("document %s is %q (%v), want %q", key, doc.Value, found, value)
			}
		}
		rows, more, err := r.Documents(tenant, sinkNamespace, "", 1000)
		if err == nil && (more || len(rows) != len(want)) {
			return wrong("%d documents are listed, more %v, want %d", len(rows), more, len(want))
		}
		return err
	})
}

// pushAgain pushes all records once more: each is a duplicate, at its offset. A new one goes behind them.
func pushAgain(ctx context.Context, b *Broker, want map[uint64]acked) error {
	next := make(map[string]int64)
	for _, first := range slices.Sorted(maps.Keys(want)) {
		a := want[first]
		next[a.queue+a.partition] = max(next[a.queue+a.partition], a.base+int64(a.count))
	}
	var work errgroup.Group
	for _, a := range want {
		work.Go(func() error {
			r, err := push(ctx, b, a.queue, a.partition, a.first, a.count, 10)
			if err != nil {
				return err
			}
			got := r.Appends[0]
			if got.Base != -1 || len(got.Dups) != a.count {
				return wrong("a repeated push of %+v is answered %+v", a, got)
			}
			for i, d := range got.Dups {
				if d.Index != i || d.Offset != a.base+int64(i) || d.ID != message(a.first+uint64(i), 10).ID {
					return wrong("a repeated push of %+v has duplicate %+v at %d", a, d, i)
				}
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	r, err := push(ctx, b, "q1", "p1", 77_000_000, 1, 10)
	if err == nil && r.Appends[0].Base != next["q1p1"] {
		return wrong("a new record is at offset %d, want %d", r.Appends[0].Base, next["q1p1"])
	}
	return err
}

// firstError keeps the first error it is told.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (f *firstError) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *firstError) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// lockedBuffer is a log that is written to from many goroutines.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
