package parquet

import (
	"slices"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"queen/encode/rows"
	"queen/stages"
)

// Where row groups and pages end. All of it shapes bytes, so it is constant, whatever memory a node has.
const (
	groupRows   = 100_000  // a row group ends with this many records,
	groupWeight = 16 << 20 // or before the one that takes its weight (stages.RecordWeight) above this, unless it is the only one
	pageRows    = 20_000   // a page ends with this many values,
	pageBytes   = 1 << 20  // or before the one that takes their PLAIN form above this, unless it is the only one
	// dictionaryBytes is how long the dictionary of the partition names of a group may be, PLAIN. A group of more has no dictionary at all: the
	// library would mix both in one chunk, and lists the encodings of such a chunk in the random order of a map.
	dictionaryBytes = 1 << 20
	statsBytes      = 1024 // a window with a partition name longer than this, or empty, has no statistics of the names
)

// What holds memory and shapes no bytes.
const (
	batchRows   = 1024                 // values handed to the library at a time
	heldTxIDs   = 4 << 20              // transaction ids of a group that are held, bytes; of a group with more, they are read once more
	spansBytes  = groupRows * (32 + 8) // a span for each append; a slice that grows has its last quarter twice
	pageSlack   = 64 << 10             // levels, and what a codec may add to what it cannot compress
	moreBuffers = 2                    // beside those of rows.Memory: a reader of its own has two, for the ids
	// dictionaryMemory is the library's dictionary at its worst: names so short that a group of different ones fills it.
	dictionaryMemory = 8 << 20
	footerMemory     = 2 << 20 // 4 KiB a row group, until the footer is written
	mostGroups       = 1<<15 - 1
)

// The columns, by their place in a row group.
const (
	partitionColumn = iota
	offsetColumn
	txIDColumn
	tsColumn
	payloadColumn
)

// message is the schema: message queen_record.
func message() (*schema.GroupNode, error) {
	text := schema.StringLogicalType{}
	fields := make(schema.FieldList, payloadColumn+1)
	for i, c := range []struct {
		name     string
		logical  schema.LogicalType
		physical parquet.Type
		repeated parquet.Repetition
	}{
		{"partition", text, parquet.Types.ByteArray, parquet.Repetitions.Required},
		{"offset", schema.NoLogicalType{}, parquet.Types.Int64, parquet.Repetitions.Required},
		{"transaction_id", text, parquet.Types.ByteArray, parquet.Repetitions.Required},
		{"ts", schema.NewTimestampLogicalType(true, schema.TimeUnitMicros), parquet.Types.Int64, parquet.Repetitions.Required},
		{"payload", text, parquet.Types.ByteArray, parquet.Repetitions.Optional},
	} {
		node, err := schema.NewPrimitiveNodeLogical(c.name, c.repeated, c.logical, c.physical, 0, -1)
		if err != nil {
			return nil, err
		}
		fields[i] = node
	}
	return schema.NewGroupNode("queen_record", parquet.Repetitions.Required, fields, -1)
}

// unbounded reports whether a partition of the window has the empty name, or one that is too long for statistics. The broker makes none. The
// library would leave the empty one out of the lowest and highest name of a row group, and readers would then skip the group that holds it.
func unbounded(r rows.Rows) bool {
	return slices.ContainsFunc(r.List.Parts, func(p stages.Part) bool { return p.Name == "" || len(p.Name) > statsBytes })
}

// properties are all that the library lets its user choose, so that none of its defaults decides over bytes. Pages are ended by us.
func (f Format) properties(r rows.Rows) *parquet.WriterProperties {
	return parquet.NewWriterProperties(
		parquet.WithCreatedBy("queen-s3"),
		parquet.WithVersion(parquet.V1_0),
		parquet.WithDataPageVersion(parquet.DataPageV1),
		parquet.WithDataPageSize(1<<40),
		parquet.WithDictionaryPageSizeLimit(2*dictionaryBytes),
		parquet.WithBatchSize(batchRows),
		parquet.WithCompression(f.codec),
		parquet.WithCompressionLevel(f.level),
		parquet.WithDictionaryDefault(false),
		parquet.WithDictionaryFor("partition", true),
		parquet.WithDictionaryCostFallbackFor("partition", false),
		parquet.WithEncoding(parquet.Encodings.Plain),
		parquet.WithEncodingFor("offset", parquet.Encodings.DeltaBinaryPacked),
		parquet.WithEncodingFor("ts", parquet.Encodings.DeltaBinaryPacked),
		parquet.WithStats(true),
		parquet.WithStatsFor("partition", !unbounded(r)),
		parquet.WithStatsFor("transaction_id", false),
		parquet.WithStatsFor("payload", false),
		parquet.WithMaxStatsSize(statsBytes),
		parquet.WithPageIndexEnabled(false),
		parquet.WithBloomFilterEnabled(false),
	)
}

// pairs are the footer's key and value pairs, in their order.
func pairs(r rows.Rows) (metadata.KeyValueMetadata, error) {
	kv := metadata.NewKeyValueMetadata()
	for _, pair := range [][2]string{{"queen.envelope", "1"}, {"queen.queue", r.Queue}, {"queen.tenant", r.Tenant}} {
		if err := kv.Append(pair[0], pair[1]); err != nil {
			return nil, err
		}
	}
	return kv, nil
}
