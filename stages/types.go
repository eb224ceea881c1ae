// Package stages holds the words that every stage of the sink shares (this file) and the small runtime that joins stages
// into a pipeline (pipe.go).
//
// It imports nothing of ours. The broker and the sink never import each other: they meet in package node through the four
// interfaces below (Log, KV, Queues, and the wall clock Now), so the sink is tested without a broker and the broker without
// a sink. Read this file first; then sink/queue.go, which is the pipeline from top to bottom.
package stages

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"
)

// Micros is a moment on the broker's log clock, in microseconds since the Unix epoch, UTC. No wall clock ever becomes a
// Micros inside the sink: window bounds come from stamps and safe times only (contract S5).
type Micros int64

// Beginning stands for "before every stamp": where a queue starts under `earliest`. Arithmetic on it saturates.
const Beginning = Micros(math.MinInt64)

// DefaultTenant is the tenant of a broker that runs without tenancy.
const DefaultTenant = "00000000-0000-0000-0000-000000000001"

// QueueID and PartitionID are counters of the replicated state and are never reused. A PartitionID names one incarnation:
// a partition deleted and created again under its name has another id.
type (
	QueueID     uint64
	PartitionID uint64
)

// Ref is where this node keeps the frame of one append. It is node-local: Gen is the generation of the store, new at each
// boot, restore and rewrite, and a read through an old one fails with ErrStaleRef.
type Ref struct {
	Gen uint32 // generation of the segment store
	Seg uint32 // number of the segment file of the queue
	Off uint32 // bytes from the start of the file to the frame
	Len uint32 // bytes of the whole frame
}

// Header describes one append (the records that one push put into one partition) without its body.
type Header struct {
	TS        Micros      // stamp of the push, the same in all its partitions
	Partition PartitionID // incarnation it went to
	Base      int64       // offset of its first record
	Count     int32       // records, at least 1; their offsets are Base .. Base+Count-1
	Weight    int32       // sum of the records' weights, bytes (see RecordWeight)
	Flags     uint32      // FlagLineBreaks and so on
	Ref       Ref
}

// Flags of a Header.
const (
	FlagLineBreaks uint32 = 1 << 0 // at least one payload of the append holds a raw CR or LF between its tokens
	FlagSealed     uint32 = 1 << 1 // payloads are stored as encryption envelopes
)

// Mark is what a filling window remembers of an append: 16 bytes, whatever the append holds.
type Mark struct {
	TS     Micros
	Weight int64
}

// Record is one message. Its slices are valid only until the function they were handed to returns.
type Record struct {
	Offset  int64
	TxID    []byte // transaction id as text; the message id where the producer sent none
	Payload []byte // the producer's own text, byte for byte; empty means "no payload"
	Sealed  bool   // nobody here could open it: Payload is what is stored, the envelope and not the producer's text (contract S9)
}

// RecordWeight is what one record counts towards TARGET_MB, MEMORY_MB and bufferedBytes: 64 + transaction id + partition
// name + payload text, in bytes, a missing payload counting as 4 (contract S5; "uncompressed records").
func RecordWeight(txID, partition, payload int) int {
	if payload == 0 {
		payload = 4
	}
	return 64 + txID + partition + payload
}

// Body is the body of one append as a reader sees it: its header and its records in offset order.
type Body interface {
	Header() Header
	// Records yields every record of the append. An undecodable body ends the sequence with an error that wraps ErrDamaged.
	Records() iter.Seq2[Record, error]
}

// Range names records of one partition that are in no object because retention took them first; both ends are included.
type Range struct {
	Partition string
	From, To  int64
}

// Append is one append of a Listing: where its frame lies, and what must be found there. A window holds millions of them, so it
// holds no header: whoever reads the frame has one.
type Append struct {
	Part uint32 // place of its partition in the listing's Parts
	Seg  uint32 // number of the segment file of the queue
	Off  uint32 // bytes from the start of the file to the frame
	Len  uint32 // bytes of the whole frame
	Sum  uint32 // CRC32C of queue, partition, stamp, base, count, weight, flags and length, which the frame's header must repeat
}

// AppendBytes is what one append of a listing costs in memory, bytes: the Append, and 4 more while the listing is made or sorted.
const AppendBytes = 20 + 4

// Part is a partition of a Listing: one incarnation, and its name.
type Part struct {
	ID   PartitionID
	Name string
}

// PartBytes is what one partition of a listing costs at most in memory, bytes: the Part, and 48 more while the listing is made (what finds partitions
// by their ids, when those lie far apart) or sorted. The bytes of its name are not among them: they are the broker's, Name refers to them.
const PartBytes = 24 + 48

// Listing is the content of window K as one view of this node's applied state shows it, a view in which the intent of K is
// the open one (design invariant 2). All stamps obey Start <= TS < End. Within a queue, stamp order is the order of places, (Seg, Off):
// that of Appends, until they are sorted.
//
// K = 0 is no window but a few appends picked out of the log.
type Listing struct {
	K            uint64
	Start, End   Micros // [position, intent.tEnd)
	Queue        QueueID
	Gen          uint32 // generation of the segment store, see Ref
	Appends      []Append
	Parts        []Part // each incarnation that has an append, once
	Records      int64  // in all appends
	Weight       int64  // of all appends, bytes
	MinTS, MaxTS Micros // lowest and highest stamp; meaningless when there is no append
	Lost         []Range
}

// Reason says which rule closed a window.
type Reason string

// The closing rules, in the order in which they are tried.
const (
	Size     Reason = "size"
	Boundary Reason = "boundary"
	Age      Reason = "age"
	Pressure Reason = "pressure"
	Drain    Reason = "drain"
	Redo     Reason = "redo" // the end was decided earlier: the intent says where
)

// Window is one cut: the records with Start <= ts < End.
type Window struct {
	K       uint64
	Start   Micros // position of the queue when the window was cut: tEnd of k-1, or where the queue starts
	Shown   Micros // tStart in keys and manifest: Start, or the last boundary stepped over, or the floored first stamp
	End     Micros
	Weight  int64 // bytes, as seen while it filled; 0 in a redo
	Appends int64 // as seen while it filled; 0 in a redo
	Why     Reason
}

// Batch is what the source hands to the window stage: appends in stamp order, and the ceiling below which it has read
// everything. An empty batch with a higher ceiling is how time passes for a window.
type Batch struct {
	Marks   []Mark
	Ceiling Micros // safe time minus guard: everything below it has been handed on
}

// Intent is the row that fixes window k before anything is uploaded: bounds, and every value that shapes bytes or keys
// (contract B1). Its JSON form is the row itself (docs/formats.md section 8).
type Intent struct {
	K           uint64  `json:"k"`
	Start       Micros  `json:"tStart"` // as shown in keys and manifest (Window.Shown)
	End         Micros  `json:"tEnd"`
	From        *Micros `json:"from,omitempty"` // position the window was cut from; nil = the beginning
	At          string  `json:"at"`             // wall clock of the intent, ISO with six digits: the manifest's committedAt
	Format      string  `json:"format"`         // jsonl
	Compression string  `json:"compression"`    // effective codec: zstd, gzip, none
	Level       int     `json:"level"`
	Layout      string  `json:"layout"` // merged, per-partition
	Align       string  `json:"align"`  // hour, day, none
	Prefix      string  `json:"prefix"`
	Bucket      string  `json:"bucket"`   // recorded only: a redo goes where the settings now point
	Endpoint    string  `json:"endpoint"` // recorded only
	Writer      string  `json:"writer"`   // as in the manifest
	Encoder     string  `json:"encoder"`  // library, version and options: the same encoder writes the same bytes
	// Key is the fingerprint of the encryption key that the queue's payloads are sealed with (QueueInfo.Key); "" = none is.
	Key string `json:"key,omitempty"`
	// NotBefore is set when an intent is rewritten for another encoder: nothing is sent under it until the safe time is there, so that
	// what the first encoder's owner still has under way lands first. 0 = never rewritten.
	NotBefore Micros `json:"notBefore,omitempty"`
	// Unknown says what of the row this binary does not know, as part of a sentence; "" = nothing. Such a window is left to a node that
	// does know it.
	Unknown string `json:"-"`
}

// Job is one window on its way to the bucket, from the moment its intent is applied here.
type Job struct {
	Queue    QueueInfo
	Intent   Intent
	Redo     bool      // the intent was found, not written, by this run
	Listing  Listing   // empty when Finished is set; its Parts are sorted by name
	Sorted   []Append  // Listing.Appends in the order of the object: partition name bytes, then stamp; used up by encoding
	Finished *Uploaded // an earlier life uploaded all of it: only the pointer is left to move
}

// Object names one of the data objects of a window whose layout makes several.
type Object struct {
	Partition   string
	First, Last int64 // lowest and highest offset in it
}

// Chunk is a piece of the encoded objects of a job, in order: all chunks of one object, then those of the next. It belongs to its receiver, who
// releases it once nothing reads Data any more.
type Chunk struct {
	Job    *Job
	Object *Object // which object it is of; nil = the only one of the window (or, with End and without Data, none: the window holds nothing)
	Data   []byte
	Buffer *Buffer // what Data lies in; nil = in memory that is nobody's to give back
	Cut    bool    // the last chunk of its object, and another object follows; Stats is set
	End    bool    // the last chunk of the job, and of its object; Stats is set
	Stats  Stats   // of the object
}

// ChunkBytes is the size in bytes of every chunk of an object but its last, which may be shorter.
const ChunkBytes = 1 << 20

// Stats is what an encoder counted while it wrote.
type Stats struct {
	Records      int64
	Partitions   int    // distinct names
	MinTS, MaxTS Micros // meaningless when Records is 0
}

// Uploaded is a window whose objects and manifest are in the bucket.
type Uploaded struct {
	Job      *Job
	Manifest string // object key
	Records  int64
	Bytes    int64 // stored, after compression
	Lost     []Range
}

// Position is where a partition is read on from.
type Position struct {
	Name   string
	Offset int64
	ID     [16]byte // of the incarnation, as users see it: a UUID
}

// PositionBytes is what a Position costs in memory, bytes. Those of its name are not among them: they are the broker's.
const PositionBytes = 16 + 8 + 16

// QueueInfo is what the sink must know of a queue.
type QueueInfo struct {
	ID         QueueID
	Name       string
	Partitions int // how many there were at the moment of asking
	// Key is the fingerprint of the encryption key that its sealed payloads are sealed with; "" = it holds none. Once set it stays.
	Key string
}

// Log is this node's applied state as a reader sees it. It takes no lease and moves no cursor. It is bound to one tenant.
type Log interface {
	// Safe returns this node's safe time: whatever it has not applied yet will be stamped above it. It never goes back.
	Safe() Micros
	// Moved returns the queues with an append stamped at or after since, and the safe time that was taken before looking.
	Moved(ctx context.Context, since Micros) (queues []QueueID, safe Micros, err error)
	// Headers yields the appends with from <= TS < before in stamp order. Bodies are not touched.
	Headers(ctx context.Context, queue QueueID, from, before Micros) iter.Seq2[Header, error]
	// Listing lists window k of a queue from one view in which the intent of (sink, queue, k) is the open one; it fails with
	// ErrNoIntent when this node has not applied that intent, or has applied its pointer.
	Listing(ctx context.Context, queue QueueID, sink string, k uint64) (Listing, error)
	// Positions returns the partitions of a queue that had a record stamped below at, sorted by name (as bytes), each with the offset of its first
	// record stamped at or above it: of the one that is there, or comes next. Whoever asks, and whenever, gets the same, as long as retention has
	// taken nothing that is stamped at or above it, and the safe time has reached it.
	Positions(ctx context.Context, queue QueueID, at Micros) ([]Position, error)
	// Bodies calls into once for each append, in the order given; list is the listing that they are of. It never skips one: a listing
	// of another generation is an error (ErrStaleRef), and so is a frame that is damaged, or is not the one that was listed, or holds
	// other records than its header says (ErrDamaged). A Body is good until into returns.
	Bodies(ctx context.Context, list *Listing, appends []Append, into func(i int, body Body) error) error
}

// Queues finds queues of one tenant by name, in this node's applied state.
type Queues interface {
	Find(name string) (QueueInfo, bool)
	// List returns all queues of the tenant in creation order.
	List() []QueueInfo
}

// OpKind is the kind of one KV operation.
type OpKind string

// The KV operations that the sink uses, spelled as on the wire.
const (
	OpGet         OpKind = "get"
	OpGetMany     OpKind = "getMany"
	OpGetPrefix   OpKind = "getPrefix"
	OpPut         OpKind = "put"
	OpPutIfAbsent OpKind = "putIfAbsent"
	OpDelete      OpKind = "delete"
)

// Op is one operation of a KV batch in the namespace queen-s3 of the sink's tenant.
type Op struct {
	Kind     OpKind
	Key      string   // getPrefix: the prefix
	Keys     []string // getMany
	Value    []byte   // put, putIfAbsent: JSON text
	TTL      time.Duration
	Forever  bool    // put, putIfAbsent: exactly one of TTL (whole seconds) and Forever
	Expect   *uint64 // put, delete: only if the live row has this version; 0 = only if there is none
	Required bool    // if this operation loses, the whole batch writes nothing
	Limit    int     // getPrefix: 1..1000
	After    string  // getPrefix: only keys above this one; "" = from the first
}

// Row is a live KV row.
type Row struct {
	Key     string
	Value   []byte
	Version uint64
}

// Result answers the Op at the same index.
type Result struct {
	Applied bool   // writes
	Reason  string // why a write was not applied: exists, absent, version
	Row     Row    // get; writes: the row as it is now (Version 0 = there is none)
	Found   bool   // get
	Rows    []Row  // getMany, getPrefix
	More    bool   // getPrefix: truncated
}

// Lost says that a required operation lost and the batch wrote nothing. Where several lost, Index is one of them: read all
// rows and decide from what they say.
type Lost struct {
	Index   int
	Reason  string
	Version uint64
	Value   []byte
}

// KV is the replicated document store, in the namespace queen-s3 of one tenant. Batches are atomic and reads in them are
// linearizable.
type KV interface {
	// Batch runs ops as one log entry. Exactly one of results, lost and err is set. An err that wraps ErrUnclear means that the
	// batch may or may not have happened; any other err means that it has not.
	Batch(ctx context.Context, ops []Op) (results []Result, lost *Lost, err error)
}

// LiveRow is a live KV row as this node has applied it.
type LiveRow struct {
	Row
	Left time.Duration // led time until it runs out; negative = not known, or never
}

// Applied reads KV rows, of the same namespace and tenant as a KV, in this node's applied state. It costs no log entry and waits for nobody; the
// node may be behind, so what it shows decides nothing but when to ask the log (contract S7). Rows that ran out are not there. What it returns is
// the caller's.
type Applied interface {
	// Rows returns the live rows under keys, in any order; who has none is left out.
	Rows(ctx context.Context, keys []string) ([]LiveRow, error)
	// Prefix returns all live rows whose keys begin with prefix, in byte order.
	Prefix(ctx context.Context, prefix string) ([]LiveRow, error)
}

// Now returns the wall clock. The sink uses it for what people read (committedAt, sinceMs, checkedAt) and for its own lease
// deadline through the monotonic part; never for a window.
type Now func() time.Time

// Errors that callers branch on.
var (
	ErrUnclear  = errors.New("outcome unknown")              // a write may or may not have happened: read the rows back
	ErrStaleRef = errors.New("stale reference")              // the store was replaced or rewritten: list the window again
	ErrDamaged  = errors.New("damaged data")                 // stored bytes do not match their checksum or description
	ErrNoIntent = errors.New("intent not open on this node") // not applied here yet, or already committed
)
