package lake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"queen/stages"
)

// Align is what the lake's windows may not cross.
type Align string

// By default the path decides: with hour= a window stays inside its hour, without inside its day. A lake that was written with
// alignment none has hour= too, so it must be said.
const (
	AlignByPath Align = ""
	AlignNone   Align = "none"
)

// Options of an audit or a listing.
type Options struct {
	Prefix string // root of the keys, without outer slashes
	Queue  string // only this queue; empty = all
	Align  Align
	Log    Log // nil: the records are not compared with the log
}

// maxManifest bounds what is read of a manifest: one that is larger is a fault, not an allocation.
const maxManifest = 512 << 20

// Verify audits a lake and hands every fault to report, each once. The error is about reading the store itself; faults are not
// errors.
//
// In order, for each queue (contract S2, S8, B12): every key is one that the sink writes; windows count from 1 without a gap
// and tile; each manifest parses strictly, fits its key and its sums; its objects are those of its layout, are there, have the sizes and the hashes that it
// names; every line has the one envelope; lines are in order, inside the window and the path; offsets continue where the window
// before ended, except over `lost`; nothing lies there that no manifest names; checkpoints read, and are of their windows. With a log, every record equals the log's, and
// what the log holds below the last end is in the lake. Records of a queue that was deleted and made again since are in the lake alone, and are counted.
func Verify(ctx context.Context, store Store, o Options, report func(Fault)) (Summary, error) {
	a := &audit{store: store, options: o, report: report}
	queues, err := a.list(ctx)
	if err != nil {
		return a.summary, err
	}
	for _, q := range queues {
		if err := a.queue(ctx, q); err != nil {
			return a.summary, err
		}
	}
	return a.summary, nil
}

type audit struct {
	store   Store
	options Options
	report  func(Fault)
	summary Summary
}

// queueKeys is what was listed of one queue.
type queueKeys struct {
	tenant, queue string // percent-encoded
	manifests     map[uint64]string
	data          map[string]Object
	points        map[uint64]Object // checkpoints
}

func (q *queueKeys) String() string { return "tenant=" + q.tenant + "/queue=" + q.queue }

func (a *audit) fault(where, format string, args ...any) {
	a.summary.Faults++
	a.report(Fault{Where: where, What: fmt.Sprintf(format, args...)})
}

func (a *audit) list(ctx context.Context) ([]*queueKeys, error) {
	prefix := a.options.Prefix + "/"
	found := map[string]*queueKeys{}
	for object, err := range a.store.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		p := parseKey(prefix, object.Key)
		if p.kind == unknownKey {
			a.fault(object.Key, "is not a key of a lake: something else than queen wrote it, give it another prefix")
			continue
		}
		if a.options.Queue != "" && p.queue != stages.Esc(a.options.Queue) {
			continue
		}
		q := found[p.tenant+"/"+p.queue]
		if q == nil {
			q = &queueKeys{tenant: p.tenant, queue: p.queue, manifests: map[uint64]string{}, data: map[string]Object{}, points: map[uint64]Object{}}
			found[p.tenant+"/"+p.queue] = q
		}
		switch p.kind {
		case dataKey:
			q.data[object.Key] = object
		case manifestKey:
			if want := fmt.Sprintf("/%010d.json", p.k); !strings.HasSuffix(object.Key, want) {
				a.fault(object.Key, "is not how window %d is written", p.k)
			}
			q.manifests[p.k] = object.Key
		case checkpointKey:
			if want := fmt.Sprintf("/%010d.json.zst", p.k); !strings.HasSuffix(object.Key, want) {
				a.fault(object.Key, "is not how the checkpoint of window %d is written", p.k)
			}
			q.points[p.k] = object
		}
	}
	names := slices.Sorted(maps.Keys(found))
	out := make([]*queueKeys, len(names))
	for i, name := range names {
		out[i] = found[name]
	}
	return out, nil
}

// place is how far a partition has been read.
type place struct {
	next int64 // offset that comes next
	ts   stages.Micros
	// first is what the lake holds of it first, for the comparison with the log.
	first int64
}

// history is what the windows of a queue that were read so far say together.
type history struct {
	end, begin stages.Micros // end of the last window; start of the first
	places     map[string]*place
	// lost is what manifests say of a partition and no record has come behind yet: it stands in the window of its first record, which may hold nothing else.
	lost    map[string][]LostRange
	compare *comparison // nil without a log
}

func (a *audit) queue(ctx context.Context, q *queueKeys) error {
	a.summary.Queues++
	h := &history{end: stages.Beginning, places: map[string]*place{}, lost: map[string][]LostRange{}}
	if a.options.Log != nil {
		h.compare = &comparison{log: a.options.Log, queue: unescapeName(q.queue)}
		var err error
		if h.compare.born, err = h.compare.log.Born(ctx, h.compare.queue); err != nil {
			return err
		}
	}
	named := map[string]bool{}
	next := uint64(1)
	for _, k := range slices.Sorted(maps.Keys(q.manifests)) {
		if k != next {
			a.fault(q.String(), "windows %d to %d have no manifest: somebody removed them, and what they held is not part of the lake", next, k-1)
		}
		next = k + 1
		if err := a.window(ctx, q, k, h, named); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(q.data)) {
		if !named[key] {
			a.fault(key, "is named by no manifest (while the sink runs, an upload may be under way: look again when it is idle)")
		}
	}
	for _, k := range slices.Sorted(maps.Keys(q.points)) {
		if _, ok := q.manifests[k]; !ok {
			a.fault(q.points[k].Key, "is a checkpoint of a window that has no manifest")
		}
	}
	return a.rest(ctx, q, h)
}

// window reads one manifest and its objects.
func (a *audit) window(ctx context.Context, q *queueKeys, k uint64, h *history, named map[string]bool) error {
	a.summary.Windows++
	key := q.manifests[k]
	text, err := a.read(ctx, key)
	if err != nil {
		return err
	}
	m, err := parseManifest(text)
	if err != nil {
		a.fault(key, "%v", err)
	}
	for _, o := range m.Objects {
		named[o.Key] = true
	}
	if err != nil {
		return nil
	}
	for _, bad := range m.check(parsed{tenant: q.tenant, queue: q.queue, k: k}) {
		a.fault(key, "%s", bad)
	}
	if m.Start < h.end {
		a.fault(key, "begins at %d, before window %d ends at %d", m.Start, k-1, h.end)
	}
	if h.end == stages.Beginning {
		h.begin = m.Start
	}
	h.end = max(h.end, m.End)
	for _, l := range m.Lost {
		a.summary.Lost += l.To - l.From + 1
		h.lost[l.Partition] = append(h.lost[l.Partition], l)
	}
	if err := a.objects(ctx, q, key, &m, h); err != nil {
		return err
	}
	if point, ok := q.points[k]; ok {
		return a.checkpoint(ctx, point.Key, k, m.End)
	}
	return nil
}

// objects checks every object of a window, and what they hold together.
func (a *audit) objects(ctx context.Context, q *queueKeys, key string, m *Manifest, h *history) error {
	sum, whole := reader{manifest: m}, true
	for _, o := range m.Objects {
		r, err := a.object(ctx, q, m, o, h)
		if err != nil {
			return err
		}
		if r == nil {
			whole = false
			continue
		}
		sum.add(r)
	}
	if !whole {
		return nil
	}
	if sum.partitions != m.Partitions {
		a.fault(key, "has %s, its manifest says %d", count(sum.partitions, "partition"), m.Partitions)
	}
	if sum.any && (m.MinTS == nil || m.MaxTS == nil || *m.MinTS != sum.minTS || *m.MaxTS != sum.maxTS) {
		a.fault(key, "has stamps from %d to %d, its manifest says otherwise", sum.minTS, sum.maxTS)
	}
	return nil
}

func (a *audit) read(ctx context.Context, key string) ([]byte, error) {
	body, err := a.store.Open(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxManifest))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return text, nil
}

// object checks where a data object lies, and then what is in it. The reader is nil when it could not be read.
func (a *audit) object(ctx context.Context, q *queueKeys, m *Manifest, o DataObject, h *history) (*reader, error) {
	found, ok := q.data[o.Key]
	if !ok {
		a.fault(o.Key, "is named by the manifest of window %d and is not there", m.K)
		return nil, nil
	}
	a.summary.Objects++
	at := parseKey(a.options.Prefix+"/", o.Key)
	if want := m.key(a.options.Prefix, o, at.hour); o.Key != want {
		a.fault(o.Key, "is not the key of window %d, which is %s", m.K, want)
	}
	if limit := dayEnd(m.Start, at.hour); m.End > limit && a.options.Align == AlignByPath {
		a.fault(o.Key, "ends at %s, outside its path (a lake written with QUEEN_S3_ALIGN=none needs --align none)", iso(m.End))
	}
	if found.Size != o.Bytes {
		a.fault(o.Key, "has %d bytes, its manifest says %d", found.Size, o.Bytes)
	}
	r := &reader{audit: a, manifest: m, object: o, key: o.Key, history: h, limit: maxLineFaults}
	s, err := r.read(ctx)
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, errLog) || errors.Is(err, errStore) {
			return nil, err
		}
		a.fault(o.Key, "cannot be read: %v", err)
		return nil, nil
	}
	r.finish(s)
	return r, nil
}
