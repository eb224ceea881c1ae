package lake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"queen/internal/parquetfile"
)

// readParquet copies one data object to a temporary file, since the footer that says where everything is stands at its end, and hands each row to row,
// counted from 1.
func readParquet(ctx context.Context, store Store, key string, m *Manifest, row func(n int64, row Row) error) (seen, error) {
	body, err := store.Open(ctx, key)
	if err != nil {
		return seen{}, fmt.Errorf("%w: %w", errStore, err)
	}
	defer body.Close()
	stored := &meter{from: body, sum: sha256.New()}
	object, err := parquetfile.Spool(stored)
	if err != nil { // the store's, or that of this machine's disk: no fault of the lake
		return seen{}, fmt.Errorf("%w: read %s: %w", errStore, key, err)
	}
	defer object.Close()
	s := seen{bytes: stored.n, sum: hex.EncodeToString(stored.sum.Sum(nil))}
	f, err := parquetfile.Open(object, object.Size, m.Compression)
	if err != nil {
		return s, err
	}
	if f.Tenant != m.Tenant || f.Queue != m.Queue {
		return s, fmt.Errorf("its footer names tenant %q, queue %q", f.Tenant, f.Queue)
	}
	for r, err := range f.Rows() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return s, err
		}
		s.records++
		if err := row(s.records, Row{Partition: r.Partition, Offset: r.Offset, TxID: r.TxID, TS: r.TS, Payload: r.Payload}); err != nil {
			return s, err
		}
	}
	return s, nil
}

// appendLine appends a record as the JSON line that it would be.
func appendLine(dst []byte, row Row) []byte {
	dst = quote(append(dst, `{"partition":`...), row.Partition)
	dst = fmt.Appendf(dst, `,"offset":%d,"transactionId":`, row.Offset)
	dst = quote(dst, row.TxID)
	dst = fmt.Appendf(dst, `,"ts":"%s","payload":`, iso(row.TS))
	dst = append(dst, flat(row.Payload)...)
	return append(dst, "}\n"...)
}
