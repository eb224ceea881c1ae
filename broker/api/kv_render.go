package api

import (
	"strconv"

	"queen/broker/kv"
	"queen/internal/jsontext"
)

// appendResult appends the answer to one operation. Values are spliced.
func appendResult(b []byte, index int, r *kv.Result) []byte {
	b = appendInt(append(b, `{"index":`...), int64(index))
	b = member(append(b, ','), "op", r.Kind.String())
	switch r.Kind {
	case kv.Get:
		b = appendGet(b, r)
	case kv.GetMany, kv.GetPrefix:
		b = appendRows(b, r)
	default:
		b = appendBool(append(b, `,"applied":`...), r.Applied)
		if !r.Applied {
			b = member(append(b, ','), "reason", r.Reason)
		}
		b = member(append(b, ','), "key", r.Key)
		b = appendValue(append(b, `,"value":`...), r.Value)
		b = strconv.AppendUint(append(b, `,"version":`...), r.Version, 10)
	}
	return append(b, '}')
}

func appendGet(b []byte, r *kv.Result) []byte {
	b = appendBool(append(b, `,"found":`...), r.Found)
	b = append(b, ',')
	if !r.Found {
		return member(b, "key", r.Key)
	}
	return appendRow(b, &r.Row)
}

func appendRows(b []byte, r *kv.Result) []byte {
	b = append(b, `,"rows":[`...)
	for i := range r.Rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendRow(append(b, '{'), &r.Rows[i]), '}')
	}
	b = append(b, ']')
	if r.Kind == kv.GetMany {
		b = append(b, `,"missing":[`...)
		for i, key := range r.Missing {
			if i > 0 {
				b = append(b, ',')
			}
			b = jsontext.AppendQuoted(b, key)
		}
		b = append(b, ']')
	}
	b = appendBool(append(b, `,"truncated":`...), r.Truncated)
	if r.Kind == kv.GetPrefix {
		b = append(b, `,"nextAfter":`...)
		if after, ok := r.NextAfter(); ok {
			b = jsontext.AppendQuoted(b, after)
		} else {
			b = append(b, "null"...)
		}
	}
	return b
}

// appendRow appends the members of a row, without its braces. A row that was asked for without its value has none.
func appendRow(b []byte, row *kv.Row) []byte {
	b = member(b, "key", row.Key)
	if row.Value != nil {
		b = append(append(b, `,"value":`...), row.Value...)
	}
	b = strconv.AppendUint(append(b, `,"version":`...), row.Version, 10)
	b = append(b, `,"expiresAt":`...)
	if row.Expires == kv.Never {
		b = append(b, "null"...)
	} else {
		b = appendISOPG(b, row.Expires)
	}
	return appendISOPG(append(b, `,"updatedAt":`...), row.Updated)
}

// appendLost appends the answer of a call that wrote nothing because a required operation lost.
func appendLost(b []byte, l *kv.Lost) []byte {
	b = appendInt(append(b, `{"ok":false,"reason":"kv_precondition","failedIndex":`...), int64(l.FailedIndex))
	b = member(append(b, ','), "kvReason", l.Reason)
	b = strconv.AppendUint(append(b, `,"version":`...), l.Version, 10)
	return append(appendValue(append(b, `,"value":`...), l.Value), '}')
}

func appendValue(b, value []byte) []byte {
	if value == nil {
		return append(b, "null"...)
	}
	return append(b, value...)
}

func appendBool(b []byte, v bool) []byte { return strconv.AppendBool(b, v) }
