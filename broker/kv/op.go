package kv

import (
	"math"

	"queen/stages"
)

// Kind is the kind of an operation; the numbers are those of docs/formats.md section 2.
type Kind uint8

// The operations.
const (
	Get         Kind = 1
	GetMany     Kind = 2
	GetPrefix   Kind = 3
	Put         Kind = 4
	PutIfAbsent Kind = 5
	Delete      Kind = 6
	Incr        Kind = 7
	Check       Kind = 8
)

// Never is the expiry of a document that does not expire, on the led clock.
const Never = stages.Micros(math.MaxInt64)

// Op is one operation of a batch. Fields that do not belong to its kind are zero.
type Op struct {
	Kind     Kind
	NS       string
	Key      string        // getPrefix: the prefix; getMany: empty
	Keys     []string      // getMany
	Value    []byte        // put, putIfAbsent: compact JSON
	TTL      stages.Micros // put, putIfAbsent, incr: life on the led clock, > 0; 0 with Forever
	Forever  bool
	Expect   *uint64 // put, delete, check: the version to find; 0 = there must be no live document
	Required bool    // writes and check: when it loses, the batch writes nothing
	Limit    int     // getPrefix: most rows
	After    *string // getPrefix: only keys above this one
	KeysOnly bool    // getPrefix: rows without values
	Delta    int64   // incr
	Min, Max *int64  // incr: bounds of the new value, both allowed
}

// String returns the name of the kind as it is on the wire of the HTTP interface.
func (k Kind) String() string {
	if k < Get || k > Check {
		return "unknown"
	}
	return kindNames()[k]
}

func kindNames() [9]string {
	return [9]string{"", "get", "getMany", "getPrefix", "put", "putIfAbsent", "delete", "incr", "check"}
}

// KindOf returns the kind with this name.
func KindOf(name string) (Kind, bool) {
	for i, n := range kindNames() {
		if i > 0 && n == name {
			return Kind(i), true
		}
	}
	return 0, false
}

// Writes reports whether operations of this kind can change a document.
func (k Kind) Writes() bool { return k >= Put && k <= Incr }

// Multi reports whether operations of this kind read several documents.
func (k Kind) Multi() bool { return k == GetMany || k == GetPrefix }

// Expires reports whether operations of this kind carry an expiry.
func (k Kind) Expires() bool { return k == Put || k == PutIfAbsent || k == Incr }

// Reasons why a write or check was not applied, as on the wire.
const (
	ReasonExists  = "exists"  // there is a live document, and there must be none
	ReasonAbsent  = "absent"  // there is none, and there must be one
	ReasonVersion = "version" // the live document has another version
	ReasonLimit   = "limit"   // incr: the sum is out of bounds
	ReasonType    = "type"    // incr: the live value is not an integer
)

// Row is a live document as a reader sees it.
type Row struct {
	Key     string
	Value   []byte // compact JSON; nil when only keys were asked for
	Version uint64
	Expires stages.Micros // when it will expire if no time is lost, on the log clock; Never = it does not
	Updated stages.Micros // stamp of the command that wrote it
}

// Result answers the operation at the same place.
type Result struct {
	Kind Kind
	Key  string // single-key operations

	// Writes and check: the winner's own value and version, or the current ones of who won (nil and 0 = no live document). An
	// applied delete shows what it removed.
	Applied bool
	Reason  string // set when not applied
	Value   []byte
	Version uint64

	Found bool // get
	Row   Row  // get, when found

	Rows      []Row    // getMany, getPrefix: in byte order of their keys
	Missing   []string // getMany: keys without a live document, in byte order
	Truncated bool     // getMany, getPrefix: there is more than was returned
}

// NextAfter is the cursor of the page after a getPrefix result that is truncated.
func (r Result) NextAfter() (after string, ok bool) {
	if r.Kind != GetPrefix || !r.Truncated || len(r.Rows) == 0 {
		return "", false
	}
	return r.Rows[len(r.Rows)-1].Key, true
}

// Lost says that a required operation lost and the batch wrote nothing.
type Lost struct {
	FailedIndex int
	Reason      string
	Version     uint64 // of the live document; 0 = there is none
	Value       []byte // of the live document; nil = there is none
}

// Outcome is what a batch did: one result per operation, or Lost.
type Outcome struct {
	Results []Result
	Lost    *Lost
}
