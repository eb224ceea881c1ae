package lake

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
)

// List prints one line an object: number and bounds of its window, records, bytes and its key. A window without an object has a line, too, and so has a checkpoint. The summary
// counts them. Only manifests are read.
func List(ctx context.Context, store Store, o Options, to io.Writer) (Summary, error) {
	a := &audit{store: store, options: o, report: func(Fault) {}}
	queues, err := a.list(ctx)
	if err != nil {
		return a.summary, err
	}
	for _, q := range queues {
		a.summary.Queues++
		fmt.Fprintf(to, "%s\n", q)
		for _, k := range slices.Sorted(maps.Keys(q.manifests)) {
			if err := a.show(ctx, q.manifests[k], k, to); err != nil {
				return a.summary, err
			}
			if point, ok := q.points[k]; ok {
				a.summary.Checkpoints++
				fmt.Fprintf(to, "  %10d  checkpoint  %d bytes  %s\n", k, point.Size, point.Key)
			}
		}
	}
	return a.summary, nil
}

func (a *audit) show(ctx context.Context, key string, k uint64, to io.Writer) error {
	text, err := a.read(ctx, key)
	if err != nil {
		return err
	}
	m, err := parseManifest(text)
	if err != nil {
		a.summary.Faults++
		_, err = fmt.Fprintf(to, "  %10d  %s %v\n", k, key, err)
		return err
	}
	a.summary.Windows++
	a.summary.Records += m.Records
	a.summary.Bytes += m.Bytes
	for _, l := range m.Lost {
		a.summary.Lost += l.To - l.From + 1
	}
	if len(m.Objects) == 0 {
		_, err := fmt.Fprintf(to, "  %10d  %s  %s  %9d records  %12d bytes\n", m.K, iso(m.Start), iso(m.End), 0, 0)
		return err
	}
	for _, o := range m.Objects {
		a.summary.Objects++
		if _, err := fmt.Fprintf(to, "  %10d  %s  %s  %9d records  %12d bytes  %s\n", m.K, iso(m.Start), iso(m.End), o.Records, o.Bytes, o.Key); err != nil {
			return err
		}
	}
	return nil
}
