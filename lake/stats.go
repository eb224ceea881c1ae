package lake

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"queen/stages"
)

// queueStats is what the manifests of a queue add up to.
type queueStats struct {
	windows, gaps, objects int   // gaps: windows that have no manifest, or one that cannot be read
	records, bytes, lost   int64 // bytes: stored, after compression
	first, last            stages.Micros
	shapes                 map[shape][]string // the extensions of each, sorted
}

// shape is what decides how objects are read.
type shape struct {
	format string // jsonl, parquet
	hour   bool   // the path has hour=
}

// Stats prints one line a queue, with a header: windows, windows that are missing, records, stored bytes, lost records, the end of the last window, and how
// long before now that was. Only manifests are read.
func Stats(ctx context.Context, store Store, o Options, now time.Time, to io.Writer) (Summary, error) {
	a := &audit{store: store, options: o, report: func(Fault) {}}
	queues, err := a.list(ctx)
	if err != nil {
		return a.summary, err
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "windows\tgaps\trecords\tbytes\tlost\tlast window ended\tlag\t  queue\n")
	for _, q := range queues {
		s, err := a.stats(ctx, q)
		if err != nil {
			return a.summary, err
		}
		last, lag := "-", "-"
		if s.windows > 0 {
			last = iso(s.last)
			lag = max(0, now.Sub(time.UnixMicro(int64(s.last)))).Round(100 * time.Millisecond).String()
		}
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%s\t%s\t  %s\n", s.windows, s.gaps, s.records, s.bytes, s.lost, last, lag, q)
	}
	return a.summary, table.Flush()
}

// stats reads the manifests of a queue and counts them in the summary. A window that has none, or one that cannot be read, is a fault.
func (a *audit) stats(ctx context.Context, q *queueKeys) (queueStats, error) {
	a.summary.Queues++
	s := queueStats{shapes: map[shape][]string{}}
	next := uint64(1)
	for _, k := range slices.Sorted(maps.Keys(q.manifests)) {
		s.gaps += int(k - next)
		next = k + 1
		text, err := a.read(ctx, q.manifests[k])
		if err != nil {
			return s, err
		}
		m, err := parseManifest(text)
		if err != nil {
			s.gaps++
			continue
		}
		s.add(&m, a.options.Prefix)
	}
	a.summary.Windows += s.windows
	a.summary.Objects += s.objects
	a.summary.Records += s.records
	a.summary.Bytes += s.bytes
	a.summary.Lost += s.lost
	a.summary.Faults += s.gaps
	return s, nil
}

func (s *queueStats) add(m *Manifest, prefix string) {
	if s.windows == 0 {
		s.first = m.Start
	}
	s.windows++
	s.objects += len(m.Objects)
	s.records += m.Records
	s.bytes += m.Bytes
	s.last = max(s.last, m.End)
	for _, l := range m.Lost {
		s.lost += l.To - l.From + 1
	}
	for _, o := range m.Objects {
		p := parseKey(prefix+"/", o.Key)
		at := shape{m.Format, p.hour}
		if i, found := slices.BinarySearch(s.shapes[at], p.ext); !found {
			s.shapes[at] = slices.Insert(s.shapes[at], i, p.ext)
		}
	}
}
