package broker

import (
	"context"
	"fmt"
	"time"

	"queen/broker/kv"
	"queen/broker/state"
	"queen/stages"
)

// applied is the sink's rows as this node has applied them.
type applied struct {
	state  *state.State
	tenant [16]byte
	bad    error
}

var _ stages.Applied = (*applied)(nil)

// Applied shows the namespace queen-s3 of one tenant as this node has applied it. The broker must be open.
func (b *Broker) Applied(tenant string) stages.Applied {
	id, err := tenantID(tenant)
	return &applied{state: b.state, tenant: id, bad: err}
}

// rowsAtOnce is how many rows are looked up under one lock.
const rowsAtOnce = 256

// Rows returns the live rows under keys.
func (a *applied) Rows(ctx context.Context, keys []string) ([]stages.LiveRow, error) {
	if a.bad != nil {
		return nil, a.bad
	}
	var out []stages.LiveRow
	for len(keys) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		some := keys[:min(len(keys), rowsAtOnce)]
		keys = keys[len(some):]
		err := a.state.Read(func(r *state.Reader) error {
			for _, key := range some {
				doc, ok, err := r.Document(a.tenant, sinkNamespace, key)
				if err != nil {
					return err
				}
				if ok {
					out = append(out, live(doc, r.Safe()))
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("applied rows: %w", err)
		}
	}
	return out, nil
}

// Prefix returns all live rows whose keys begin with prefix.
func (a *applied) Prefix(_ context.Context, prefix string) ([]stages.LiveRow, error) {
	if a.bad != nil {
		return nil, a.bad
	}
	var out []stages.LiveRow
	err := a.state.Read(func(r *state.Reader) error {
		docs, more, err := r.Documents(a.tenant, sinkNamespace, prefix, kv.MaxLimit)
		if err == nil && more {
			err = fmt.Errorf("over %d rows begin with %q", kv.MaxLimit, prefix)
		}
		for _, doc := range docs {
			out = append(out, live(doc, r.Safe()))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("applied rows: %w", err)
	}
	return out, nil
}

func live(doc kv.Row, now stages.Micros) stages.LiveRow {
	left := time.Duration(-1)
	if doc.Expires != kv.Never {
		left = time.Duration(max(0, doc.Expires-now)) * time.Microsecond
	}
	return stages.LiveRow{Row: row(doc), Left: left}
}
