package committest

import (
	"fmt"
	"strings"

	"queen/stages"
)

// render shows a batch and its answer, one line per operation, keys by their last part.
func render(ops []stages.Op, results []stages.Result, lost *stages.Lost, err error) string {
	var b strings.Builder
	for i, op := range ops {
		if i > 0 {
			b.WriteString("\n   ")
		} else {
			b.WriteString("kv ")
		}
		b.WriteString(renderOp(op))
		if results != nil {
			b.WriteString(renderResult(op, results[i]))
		}
	}
	switch {
	case err != nil:
		fmt.Fprintf(&b, "\n   => error: %v", err)
	case lost != nil:
		fmt.Fprintf(&b, "\n   => lost at %d: %s, version %d", lost.Index, lost.Reason, lost.Version)
	}
	return b.String()
}

func short(key string) string { return key[strings.LastIndexByte(key, ':')+1:] }

func renderOp(op stages.Op) string {
	var b strings.Builder
	b.WriteString(string(op.Kind))
	if op.Kind == stages.OpGetMany {
		for _, k := range op.Keys {
			b.WriteString(" " + short(k))
		}
		return b.String()
	}
	b.WriteString(" " + short(op.Key))
	if op.Expect != nil {
		fmt.Fprintf(&b, " expect=%d", *op.Expect)
	}
	if op.Required {
		b.WriteString(" required")
	}
	if op.TTL > 0 {
		fmt.Fprintf(&b, " ttl=%s", op.TTL)
	}
	if len(op.Value) > 0 {
		b.WriteString(" " + string(op.Value))
	}
	return b.String()
}

func renderResult(op stages.Op, r stages.Result) string {
	switch op.Kind {
	case stages.OpGet:
		if !r.Found {
			return " -> none"
		}
		return fmt.Sprintf(" -> %s @%d", r.Row.Value, r.Row.Version)
	case stages.OpGetMany, stages.OpGetPrefix:
		var b strings.Builder
		b.WriteString(" ->")
		for _, row := range r.Rows {
			fmt.Fprintf(&b, " %s@%d", short(row.Key), row.Version)
		}
		if len(r.Rows) == 0 {
			b.WriteString(" none")
		}
		return b.String()
	}
	if r.Applied {
		return fmt.Sprintf(" -> @%d", r.Row.Version)
	}
	return fmt.Sprintf(" -> not applied: %s, now @%d", r.Reason, r.Row.Version)
}
