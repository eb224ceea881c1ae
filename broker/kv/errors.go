package kv

import "fmt"

// Limits of a batch as the HTTP interface states them.
const (
	MaxValue     = 64 << 10 // bytes of compact JSON
	MaxKey       = 512      // bytes
	MaxNamespace = 64       // bytes
	MaxOps       = 256      // operations of a batch
	MaxKeys      = 1024     // keys of all getMany of a batch
	MaxLimit     = 1000     // rows of a getPrefix
	DefaultLimit = 100

	// MaxStoreKey bounds tenant (36 bytes of UUID text), namespace and key together, in batches that come in over HTTP.
	MaxStoreKey = 511

	// MaxTTL is the longest life that is not "forever", in seconds: a hundred years.
	MaxTTL = 100 * 366 * 24 * 3600
)

// Codes of refused batches (the member "error").
const (
	CodeBadRequest = "kv_bad_request"    // 400
	CodeTooLarge   = "payload_too_large" // 413
)

// Finer reasons of refused batches (the member "reason").
const (
	BadBody          = "kv_bad_body"
	BadNamespace     = "kv_bad_namespace"
	BadKey           = "kv_bad_key"
	ExpiryNotGiven   = "kv_expiry_not_specified"
	BadTTL           = "kv_bad_ttl"
	BadExpect        = "kv_bad_expect"
	UnknownOp        = "kv_unknown_op"
	PrefixRequired   = "kv_prefix_required"
	TooManyOps       = "kv_too_many_ops"
	TooManyKeys      = "kv_too_many_keys"
	DuplicateKey     = "kv_duplicate_key_in_call"
	TenantNotAnInput = "kv_tenant_not_an_input"
	NoQueryString    = "kv_no_query_string" // path forms only
	FieldInPath      = "kv_field_in_path"   // path forms only
	ValueTooLarge    = "kv_value_too_large"
)

// Error is a batch that was refused before it became a command. Nothing was stored.
type Error struct {
	Status int    // HTTP status
	Code   string // CodeBadRequest or CodeTooLarge
	Reason string // one of the finer reasons
	Detail string // one sentence
}

var _ error = (*Error)(nil)

func (e *Error) Error() string { return e.Reason + ": " + e.Detail }

// refuse returns a 400.
func refuse(reason, format string, args ...any) *Error {
	return &Error{Status: 400, Code: CodeBadRequest, Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// at says which operation an error is about.
func (e *Error) at(i int) *Error {
	if e != nil {
		e.Detail = fmt.Sprintf("operation %d: %s", i, e.Detail)
	}
	return e
}
