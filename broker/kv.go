package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"queen/broker/command"
	"queen/broker/kv"
	"queen/broker/state"
	"queen/stages"
)

// sinkNamespace is the KV namespace that the sink's rows are in.
const sinkNamespace = state.SinkNamespace

// documents is the sink's KV: each batch is one command of the log, also when it only reads.
type documents struct {
	propose func(context.Context, command.Kind, []byte) (any, error)
	tenant  [16]byte
	bad     error
}

var _ stages.KV = (*documents)(nil)

// Batch runs ops as one log entry.
func (d *documents) Batch(ctx context.Context, ops []stages.Op) ([]stages.Result, *stages.Lost, error) {
	if d.bad != nil {
		return nil, nil, d.bad
	}
	batch, err := operations(ops)
	if err != nil {
		return nil, nil, err
	}
	answer, err := d.propose(ctx, command.KindKV, command.KV{Tenant: d.tenant, Ops: batch}.Append(nil))
	if err != nil {
		return nil, nil, fmt.Errorf("kv batch: %w", err)
	}
	out, ok := answer.(*kv.Outcome)
	if !ok || out.Lost == nil && len(out.Results) != len(ops) {
		return nil, nil, fmt.Errorf("kv batch: %w: the state answered %T", stages.ErrUnclear, answer)
	}
	if l := out.Lost; l != nil {
		return nil, &stages.Lost{Index: l.FailedIndex, Reason: l.Reason, Version: l.Version, Value: l.Value}, nil
	}
	results := make([]stages.Result, len(ops))
	for i, r := range out.Results {
		results[i] = result(ops[i], r)
	}
	return results, nil, nil
}

// operations writes the sink's operations as those of the store, and checks them: what is in the log must apply.
func operations(ops []stages.Op) ([]kv.Op, error) {
	out := make([]kv.Op, len(ops))
	for i, op := range ops {
		kind, known := kv.KindOf(string(op.Kind))
		if !known {
			return nil, fmt.Errorf("kv batch: operation %d: unknown kind %q", i, op.Kind)
		}
		o := kv.Op{Kind: kind, NS: sinkNamespace, Key: op.Key, Keys: op.Keys, Expect: op.Expect, Required: op.Required, Limit: op.Limit, Forever: op.Forever}
		if op.After != "" {
			o.After = &op.After
		}
		if op.TTL != 0 {
			if op.TTL < 0 || op.TTL%time.Second != 0 {
				return nil, fmt.Errorf("kv batch: operation %d: a life of %s, must be whole seconds", i, op.TTL)
			}
			o.TTL = stages.Micros(op.TTL / time.Microsecond)
		}
		if kind == kv.Put || kind == kv.PutIfAbsent {
			var text bytes.Buffer
			text.Grow(len(op.Value))
			if err := json.Compact(&text, op.Value); err != nil {
				return nil, fmt.Errorf("kv batch: value of operation %d: %w", i, err)
			}
			o.Value = text.Bytes()
		}
		out[i] = o
	}
	if err := kv.Validate(out); err != nil {
		return nil, fmt.Errorf("kv batch: %w", err)
	}
	return out, nil
}

func result(op stages.Op, r kv.Result) stages.Result {
	out := stages.Result{Applied: r.Applied, Reason: r.Reason, Found: r.Found, More: r.Truncated}
	switch op.Kind {
	case stages.OpGet:
		if r.Found {
			out.Row = row(r.Row)
		}
	case stages.OpGetMany, stages.OpGetPrefix:
		for _, one := range r.Rows {
			out.Rows = append(out.Rows, row(one))
		}
	case stages.OpDelete:
		if !r.Applied { // an applied delete shows what is gone
			out.Row = stages.Row{Key: op.Key, Value: r.Value, Version: r.Version}
		}
	default:
		out.Row = stages.Row{Key: op.Key, Value: r.Value, Version: r.Version}
	}
	return out
}

func row(r kv.Row) stages.Row { return stages.Row{Key: r.Key, Value: r.Value, Version: r.Version} }
