package kv

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"queen/stages"
)

// ParseBatch reads the HTTP form of a batch: {"operations":[...]} or the bare list. The error is always an *Error.
func ParseBatch(body []byte) ([]Op, error) {
	list, fault := operations(body)
	if fault != nil {
		return nil, fault
	}
	if len(list) > MaxOps {
		return nil, refuse(TooManyOps, "%d operations, at most %d", len(list), MaxOps)
	}
	ops := make([]Op, len(list))
	for i, raw := range list {
		if fault := parseOp(raw, &ops[i]); fault != nil {
			return nil, fault.at(i)
		}
	}
	if fault := validate(ops); fault != nil {
		return nil, fault
	}
	return ops, nil
}

// operations returns the list of operations of a body.
func operations(body []byte) ([]json.RawMessage, *Error) {
	if at := invalidUTF8(body); at >= 0 {
		return nil, refuse(BadBody, "byte %d: not UTF-8", at)
	}
	if !json.Valid(body) {
		var syntax *json.SyntaxError
		err := json.Unmarshal(body, new(any))
		if errors.As(err, &syntax) {
			return nil, refuse(BadBody, "byte %d: %v", syntax.Offset, err)
		}
		return nil, refuse(BadBody, "not JSON")
	}
	body = bytes.TrimLeft(body, " \t\r\n")
	if body[0] == '{' {
		var outer map[string]json.RawMessage
		if err := json.Unmarshal(body, &outer); err != nil {
			return nil, refuse(BadBody, "not JSON: %v", err)
		}
		body = outer["operations"]
	}
	var list []json.RawMessage
	if len(body) == 0 || body[0] != '[' || json.Unmarshal(body, &list) != nil {
		return nil, refuse(BadBody, `a body is {"operations":[...]} or a list of operations`)
	}
	return list, nil
}

// invalidUTF8 returns the place of the first byte that is not UTF-8, -1 when there is none.
func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		if b[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// fields is one operation on its way in. The first fault sticks. A member that is null counts as not given, except value.
type fields struct {
	m     map[string]json.RawMessage
	fault *Error
}

func parseOp(raw json.RawMessage, op *Op) *Error {
	f := fields{}
	if err := json.Unmarshal(raw, &f.m); err != nil || f.m == nil {
		return refuse(BadBody, "an operation is a JSON object")
	}
	for _, name := range []string{"tenant", "tenantId", "tenant_id"} {
		if _, given := f.m[name]; given {
			return refuse(TenantNotAnInput, "%s can't be named in an operation", name)
		}
	}
	var name string
	f.read("op", UnknownOp, "a string", &name)
	kind, ok := KindOf(name)
	if !ok {
		return refuse(UnknownOp, "unknown operation %q", name)
	}
	op.Kind = kind
	f.read("ns", BadNamespace, "a string", &op.NS)
	switch kind {
	case GetMany:
		f.read("keys", BadBody, "a list of strings", &op.Keys)
		if f.fault == nil && f.missing("keys") {
			return refuse(BadBody, "keys is missing")
		}
	case GetPrefix:
		f.read("prefix", PrefixRequired, "a string", &op.Key)
		f.read("after", BadBody, "a string", &op.After)
		f.read("keysOnly", BadBody, "a boolean", &op.KeysOnly)
		f.limit(op)
	default:
		f.read("key", BadKey, "a string", &op.Key)
	}
	f.write(op)
	if f.fault == nil {
		f.storeKeys(op)
	}
	return f.fault
}

// write reads what operations other than reads have.
func (f *fields) write(op *Op) {
	if op.Kind == Get || op.Kind.Multi() {
		return
	}
	f.read("required", BadBody, "a boolean", &op.Required)
	f.read("expect", BadExpect, "an integer from 0", &op.Expect)
	if op.Kind.Expires() {
		f.expiry(op)
	}
	switch op.Kind {
	case Put, PutIfAbsent:
		f.value(op)
	case Incr:
		f.read("delta", BadBody, "an integer", &op.Delta)
		f.read("min", BadBody, "an integer", &op.Min)
		f.read("max", BadBody, "an integer", &op.Max)
		if f.missing("delta") {
			f.fail(refuse(BadBody, "delta is missing"))
		}
	}
}

// read decodes a member into a pointer; a member that is not what it has to be is refused with the reason.
func (f *fields) read(name, reason, what string, into any) {
	if f.missing(name) {
		return
	}
	switch raw := f.m[name]; {
	case json.Unmarshal(raw, into) != nil:
		f.fail(refuse(reason, "%s is not %s", name, what))
	case halfPair(raw): // the decoder makes U+FFFD of each: two names would become one
		f.fail(refuse(reason, "%s holds half a surrogate pair", name))
	}
}

// halfPair says whether JSON text holds an escape for half of a surrogate pair, which has no UTF-8 form.
func halfPair(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++ // what is escaped
		first := escaped(raw[i-1:])
		if !utf16.IsSurrogate(first) {
			continue
		}
		if utf16.DecodeRune(first, escaped(raw[i+5:])) == utf8.RuneError {
			return true
		}
		i += 10
	}
	return false
}

// escaped returns the code unit of the escape \\uXXXX at the front of valid JSON text, -1 when there is none.
func escaped(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

func (f *fields) missing(name string) bool {
	raw, given := f.m[name]
	return !given || string(raw) == "null"
}

func (f *fields) fail(e *Error) {
	if f.fault == nil {
		f.fault = e
	}
}

// limit reads the limit of a getPrefix, which is clamped and not refused.
func (f *fields) limit(op *Op) {
	limit := int64(DefaultLimit)
	f.read("limit", BadBody, "an integer", &limit)
	op.Limit = int(min(max(limit, 1), MaxLimit))
}

// expiry reads ttlSeconds and forever.
func (f *fields) expiry(op *Op) {
	f.read("forever", BadTTL, "a boolean", &op.Forever)
	if f.missing("ttlSeconds") {
		return
	}
	var seconds int64
	f.read("ttlSeconds", BadTTL, "an integer", &seconds)
	if f.fault == nil && (seconds < 1 || seconds > MaxTTL) {
		f.fail(refuse(BadTTL, "ttlSeconds is not 1 to %d", int64(MaxTTL)))
		return
	}
	op.TTL = stages.Micros(seconds) * 1_000_000
}

// value keeps the producer's text without the space between tokens.
func (f *fields) value(op *Op) {
	raw, given := f.m["value"]
	if !given {
		f.fail(refuse(BadBody, "value is missing"))
		return
	}
	var text bytes.Buffer
	if err := json.Compact(&text, raw); err != nil {
		f.fail(refuse(BadBody, "value: %v", err))
		return
	}
	op.Value = text.Bytes()
}

// storeKeys checks the bound on tenant, namespace and key together.
func (f *fields) storeKeys(op *Op) {
	const tenantText = 36
	longest := len(op.Key)
	for _, key := range op.Keys {
		longest = max(longest, len(key))
	}
	if n := tenantText + len(op.NS) + longest; n > MaxStoreKey && longest <= MaxKey {
		f.fail(refuse(BadKey, "tenant, namespace and key have %d bytes together, at most %d", n, MaxStoreKey))
	}
}
