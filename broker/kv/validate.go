package kv

import (
	"strings"

	"queen/stages"
)

// Validate returns why a batch may not become a command, nil when it may. Values are taken to be compact JSON.
func Validate(ops []Op) error {
	if err := validate(ops); err != nil {
		return err
	}
	return nil
}

func validate(ops []Op) *Error {
	if len(ops) > MaxOps {
		return refuse(TooManyOps, "%d operations, at most %d", len(ops), MaxOps)
	}
	type place struct{ ns, key string }
	written := make(map[place]int)
	keys := 0
	for i := range ops {
		op := &ops[i]
		if err := validateOp(op); err != nil {
			return err.at(i)
		}
		if keys += len(op.Keys); keys > MaxKeys {
			return refuse(TooManyKeys, "more than %d keys", MaxKeys).at(i)
		}
		if !op.Kind.Writes() {
			continue
		}
		at := place{op.NS, op.Key}
		if first, twice := written[at]; twice {
			return refuse(DuplicateKey, "operation %d writes the same key", first).at(i)
		}
		written[at] = i
	}
	return nil
}

func validateOp(op *Op) *Error {
	if op.Kind < Get || op.Kind > Check {
		return refuse(UnknownOp, "unknown operation %d", op.Kind)
	}
	if !validNamespace(op.NS) {
		return refuse(BadNamespace, "the namespace has to match ^[a-z0-9][a-z0-9._-]{0,63}$")
	}
	if err := validateKeys(op); err != nil {
		return err
	}
	if err := validateExpect(op); err != nil {
		return err
	}
	if op.Kind.Expires() {
		if err := validateExpiry(op); err != nil {
			return err
		}
	}
	if op.Kind == Put || op.Kind == PutIfAbsent {
		if len(op.Value) > MaxValue {
			return &Error{Status: 413, Code: CodeTooLarge, Reason: ValueTooLarge,
				Detail: "the value is larger than 65536 bytes of compact JSON"}
		}
		if len(op.Value) == 0 {
			return refuse(BadBody, "value is missing")
		}
	}
	if op.Kind == Incr && op.Min != nil && op.Max != nil && *op.Min > *op.Max {
		return refuse(BadBody, "min is above max")
	}
	return nil
}

func validateKeys(op *Op) *Error {
	switch op.Kind {
	case GetMany:
		for _, key := range op.Keys {
			if err := validateKey(key); err != nil {
				return err
			}
		}
		return nil
	case GetPrefix:
		if op.Key == "" {
			return refuse(PrefixRequired, "prefix is missing or empty")
		}
		if op.Limit < 1 || op.Limit > MaxLimit {
			return refuse(BadBody, "limit is not 1 to %d", MaxLimit)
		}
	}
	return validateKey(op.Key)
}

func validateKey(key string) *Error {
	switch {
	case key == "":
		return refuse(BadKey, "the key is missing or empty")
	case len(key) > MaxKey:
		return refuse(BadKey, "the key has %d bytes, at most %d", len(key), MaxKey)
	case strings.IndexByte(key, 0) >= 0:
		return refuse(BadKey, "the key holds a NUL byte")
	}
	return nil
}

func validateExpect(op *Op) *Error {
	switch {
	case op.Kind == Check && op.Expect == nil:
		return refuse(BadExpect, "check needs expect")
	case op.Expect == nil, op.Kind == Put, op.Kind == Delete, op.Kind == Check:
		return nil
	}
	return refuse(BadExpect, "%v takes no expect", op.Kind)
}

func validateExpiry(op *Op) *Error {
	switch {
	case op.Forever && op.TTL != 0:
		return refuse(BadTTL, "ttlSeconds and forever exclude each other")
	case op.Forever:
		return nil
	case op.TTL == 0:
		return refuse(ExpiryNotGiven, "give ttlSeconds or forever:true")
	case op.TTL < 0 || op.TTL > MaxTTL*stages.Micros(1_000_000):
		return refuse(BadTTL, "ttlSeconds is not 1 to %d", MaxTTL)
	}
	return nil
}

// validNamespace reports whether a name matches ^[a-z0-9][a-z0-9._-]{0,63}$.
func validNamespace(ns string) bool {
	if ns == "" || len(ns) > MaxNamespace {
		return false
	}
	for i := range len(ns) {
		c := ns[i]
		word := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !word && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}
