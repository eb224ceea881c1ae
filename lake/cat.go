package lake

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Cat writes the records of every committed window, queue by queue and in window order, as the JSON lines that the objects hold. It is what
// `zstd -dc` and its like print for one object, for a whole lake and whatever its compression; a row of a Parquet file is printed as the line that
// it would be. An object that is damaged, or is not the one
// that its manifest names, is an error: what came before it has been written.
func Cat(ctx context.Context, store Store, o Options, to io.Writer) (Summary, error) {
	a := &audit{store: store, options: o, report: func(Fault) {}}
	queues, err := a.list(ctx)
	if err != nil {
		return a.summary, err
	}
	out := bufio.NewWriterSize(to, 1<<16)
	for _, q := range queues {
		a.summary.Queues++
		for _, k := range slices.Sorted(maps.Keys(q.manifests)) {
			if err := a.cat(ctx, q.manifests[k], out); err != nil {
				return a.summary, errors.Join(err, out.Flush())
			}
		}
	}
	return a.summary, out.Flush()
}

// catObject writes the lines of one object.
func (a *audit) catObject(ctx context.Context, key string, m *Manifest, out *bufio.Writer) (seen, error) {
	if m.Format == "parquet" {
		var line []byte
		return readParquet(ctx, a.store, key, m, func(_ int64, row Row) error {
			line = appendLine(line[:0], row)
			_, err := out.Write(line)
			return err
		})
	}
	return readObject(ctx, a.store, key, m.Compression, func(_ int64, line []byte) error {
		_, err := out.Write(line)
		return errors.Join(err, out.WriteByte('\n'))
	})
}

// cat writes the lines of one window.
func (a *audit) cat(ctx context.Context, key string, out *bufio.Writer) error {
	text, err := a.read(ctx, key)
	if err != nil {
		return err
	}
	m, err := parseManifest(text)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	a.summary.Windows++
	for _, o := range m.Objects {
		s, err := a.catObject(ctx, o.Key, &m, out)
		if err == nil && s.sum != o.SHA256 {
			err = fmt.Errorf("sha256 is %s, its manifest says %s", s.sum, o.SHA256)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.Key, err)
		}
		a.summary.Objects++
		a.summary.Records += s.records
		a.summary.Bytes += s.bytes
	}
	return nil
}
