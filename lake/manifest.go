package lake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"queen/stages"
)

// Manifest is what a manifest says (docs/formats.md 7.3).
type Manifest struct {
	Sink        string         `json:"sink"`
	Tenant      string         `json:"tenant"`
	Queue       string         `json:"queue"`
	K           uint64         `json:"k"`
	Start       stages.Micros  `json:"tStart"`
	End         stages.Micros  `json:"tEnd"`
	Format      string         `json:"format"`
	Compression string         `json:"compression"`
	Layout      string         `json:"layout"`
	Objects     []DataObject   `json:"objects"`
	Records     int64          `json:"records"`
	Bytes       int64          `json:"bytes"`
	Partitions  int            `json:"partitions"`
	MinTS       *stages.Micros `json:"minTs"`
	MaxTS       *stages.Micros `json:"maxTs"`
	Lost        []LostRange    `json:"lost"`
	Writer      string         `json:"writer"`
	CommittedAt string         `json:"committedAt"`
}

// DataObject is one entry of a manifest's objects.
type DataObject struct {
	Key     string `json:"key"`
	Bytes   int64  `json:"bytes"`
	Records int64  `json:"records"`
	SHA256  string `json:"sha256"`
	// All three of an object of a per-partition window; all nil in a merged one.
	Partition *string `json:"partition"`
	First     *int64  `json:"firstOffset"`
	Last      *int64  `json:"lastOffset"`
}

// LostRange names records that retention took before the sink read them; both ends are included.
type LostRange struct {
	Partition string `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
}

// parseManifest reads a manifest strictly: it must be, byte for byte, what its own values are written as.
func parseManifest(text []byte) (Manifest, error) {
	var m Manifest
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return m, fmt.Errorf("is not a manifest: %w", err)
	}
	if m.Objects == nil || m.Lost == nil {
		return m, errors.New("is not a manifest: objects and lost are lists, never missing or null")
	}
	for i, o := range m.Objects {
		if (o.Partition == nil) != (o.First == nil) || (o.First == nil) != (o.Last == nil) {
			return m, fmt.Errorf("is not a manifest: object %d has some of partition, firstOffset and lastOffset", i)
		}
	}
	want := m.bytes()
	if !bytes.Equal(want, text) {
		at := 0
		for at < min(len(want), len(text)) && want[at] == text[at] {
			at++
		}
		return m, fmt.Errorf("is not written as a manifest is: byte %d begins %.30q, not %.30q", at, text[at:], want[at:])
	}
	return m, nil
}

// bytes writes the manifest as the sink does: compact, fields in order.
func (m *Manifest) bytes() []byte {
	var b []byte
	text := func(name, value string) { b = quote(append(b, `,"`+name+`":`...), value) }
	whole := func(name string, value int64) { b = fmt.Appendf(b, `,"%s":%d`, name, value) }
	text("sink", m.Sink)
	b[0] = '{'
	text("tenant", m.Tenant)
	text("queue", m.Queue)
	b = fmt.Appendf(b, `,"k":%d`, m.K)
	whole("tStart", int64(m.Start))
	whole("tEnd", int64(m.End))
	text("format", m.Format)
	text("compression", m.Compression)
	text("layout", m.Layout)
	b = append(b, `,"objects":[`...)
	for i, o := range m.Objects {
		if i > 0 {
			b = append(b, ',')
		}
		b = quote(append(b, `{"key":`...), o.Key)
		b = fmt.Appendf(b, `,"bytes":%d,"records":%d,"sha256":`, o.Bytes, o.Records)
		b = quote(b, o.SHA256)
		if o.Partition != nil {
			b = quote(append(b, `,"partition":`...), *o.Partition)
			b = fmt.Appendf(b, `,"firstOffset":%d,"lastOffset":%d`, *o.First, *o.Last)
		}
		b = append(b, '}')
	}
	b = append(b, ']')
	whole("records", m.Records)
	whole("bytes", m.Bytes)
	whole("partitions", int64(m.Partitions))
	if m.MinTS != nil {
		whole("minTs", int64(*m.MinTS))
	}
	if m.MaxTS != nil {
		whole("maxTs", int64(*m.MaxTS))
	}
	b = append(b, `,"lost":[`...)
	for i, l := range m.Lost {
		if i > 0 {
			b = append(b, ',')
		}
		b = quote(append(b, `{"partition":`...), l.Partition)
		b = fmt.Appendf(b, `,"from":%d,"to":%d}`, l.From, l.To)
	}
	b = append(b, ']')
	text("writer", m.Writer)
	text("committedAt", m.CommittedAt)
	return append(b, '}')
}

// check compares a manifest with its key and with itself, and says all that is wrong.
func (m *Manifest) check(at parsed) []string {
	var bad []string
	want := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Sprintf(format, args...))
		}
	}
	want(stages.Esc(m.Tenant) == at.tenant && stages.Esc(m.Queue) == at.queue, "names tenant %q, queue %q", m.Tenant, m.Queue)
	want(m.K == at.k, "names window %d", m.K)
	want(m.Start < m.End, "tStart %d is not before tEnd %d", m.Start, m.End)
	want(m.Sink != "", "names no sink")
	want(m.Format == "jsonl" || m.Format == "parquet", "format is %q", m.Format)
	want(m.Layout == "merged" || m.Layout == "per-partition", "layout is %q", m.Layout)
	want(m.ext() != "", "compression is %q", m.Compression)
	want(m.Writer == m.writer(), "writer is %q, not %q", m.Writer, m.writer())
	_, err := parseISO(m.CommittedAt)
	want(err == nil, "committedAt %v", err)
	want(len(m.Objects) == 1 || m.Layout != "merged", "lists %s; a merged window has one", count(len(m.Objects), "object"))
	want(len(m.Objects) == m.Partitions || m.Layout != "per-partition", "lists %s for %s", count(len(m.Objects), "object"), count(m.Partitions, "partition"))
	var records, bytes int64
	for i, o := range m.Objects {
		want((o.Partition == nil) == (m.Layout == "merged"), "object %d does not name its partition and offsets as a %s window does", i, m.Layout)
		if o.Partition != nil {
			want(0 <= *o.First && *o.First <= *o.Last, "object %d has offsets %d to %d", i, *o.First, *o.Last)
			want(o.Records > 0, "object %d of partition %q has no record", i, *o.Partition)
			if i > 0 && m.Objects[i-1].Partition != nil {
				want(*m.Objects[i-1].Partition < *o.Partition, "object %d of partition %q stands behind that of %q", i, *o.Partition, *m.Objects[i-1].Partition)
			}
		}
		records += o.Records
		bytes += o.Bytes
		want(len(o.SHA256) == 64 && strings.Trim(o.SHA256, "0123456789abcdef") == "", "sha256 is %q", o.SHA256)
	}
	want(records == m.Records && bytes == m.Bytes, "sums are %d records, %d bytes, its objects have %d, %d", m.Records, m.Bytes, records, bytes)
	want((m.MinTS == nil) == (m.Records == 0) && (m.MaxTS == nil) == (m.Records == 0), "minTs and maxTs do not fit %d records", m.Records)
	for _, l := range m.Lost {
		want(l.From >= 0 && l.From <= l.To, "lost range %d to %d of %q", l.From, l.To, l.Partition)
	}
	return bad
}

// writer is what wrote objects of this format.
func (m *Manifest) writer() string {
	switch {
	case m.Format == "parquet":
		return "queen-s3/2.0.0 parquet/18 " + m.Compression
	case m.Compression == "none":
		return "queen-s3/2.0.0 " + m.Format
	}
	return "queen-s3/2.0.0 " + m.Format + "+" + m.Compression
}

// key is the one key that an object of the window can have under a prefix; hour says that the path has hour=, which depends on the alignment.
func (m *Manifest) key(prefix string, o DataObject, hour bool) string {
	at := m.Start
	if at == stages.Beginning {
		if at = m.End; m.MinTS != nil {
			at = *m.MinTS
		}
	}
	part := ""
	if o.Partition != nil {
		part = "-p-" + partOf(*o.Partition, *o.First, *o.Last)
	}
	return fmt.Sprintf("%s/tenant=%s/queue=%s/dt=%s/w-%010d-%016d-%016d%s.%s", prefix, stages.Esc(m.Tenant), stages.Esc(m.Queue),
		strings.Replace(dayOf(at, hour), "/", "/hour=", 1), m.K, max(m.Start, 0), max(m.End, 0), part, m.ext())
}

// ext is empty for a compression that the format does not have.
func (m *Manifest) ext() string {
	if m.Format == "parquet" {
		return map[string]string{"zstd": "parquet", "snappy": "parquet"}[m.Compression]
	}
	return map[string]string{"zstd": "jsonl.zst", "gzip": "jsonl.gz", "none": "jsonl"}[m.Compression]
}
