package upload

import (
	"strconv"

	"queen/internal/jsontext"
	"queen/stages"
)

// Manifest says what a window consists of (docs/formats.md 7.3). It is a pure function of the intent and of the bytes that
// were sent, so a redo writes the same manifest.
type Manifest struct {
	Sink        string        `json:"sink"`
	Tenant      string        `json:"tenant"`
	Queue       string        `json:"queue"`
	K           uint64        `json:"k"`
	Start       stages.Micros `json:"tStart"`
	End         stages.Micros `json:"tEnd"`
	Format      string        `json:"format"`
	Compression string        `json:"compression"`
	Layout      string        `json:"layout"`
	Objects     []Object      `json:"objects"` // in the order of their partitions
	Records     int64         `json:"records"`
	Bytes       int64         `json:"bytes"`
	Partitions  int           `json:"partitions"`
	// MinTS and MaxTS are nil in a window without a record.
	MinTS       *stages.Micros `json:"minTs"`
	MaxTS       *stages.Micros `json:"maxTs"`
	Lost        []Lost         `json:"lost"`
	Writer      string         `json:"writer"`
	CommittedAt string         `json:"committedAt"` // the intent's `at`
}

// Object is one data object of a window.
type Object struct {
	Key     string `json:"key"`
	Bytes   int64  `json:"bytes"` // stored, after compression
	Records int64  `json:"records"`
	SHA256  string `json:"sha256"` // lower-case hex of the stored bytes
	// Of says which of several objects of the window it is: partition, firstOffset, lastOffset. nil = its only one: the three are left out.
	Of *stages.Object `json:"-"`
}

// Lost is a range of offsets, both ends included, that retention removed before the sink read it.
type Lost struct {
	Partition string `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
}

// Append writes the manifest as compact JSON, its fields in the order of docs/formats.md 7.3, without a newline.
func (m *Manifest) Append(dst []byte) []byte {
	dst = m.appendHead(dst)
	for i, o := range m.Objects {
		dst = o.append(dst, i == 0)
	}
	return m.appendTail(dst)
}

// appendHead writes what stands before the objects.
func (m *Manifest) appendHead(dst []byte) []byte {
	dst = strField(dst, `{"sink":`, m.Sink)
	dst = strField(dst, `,"tenant":`, m.Tenant)
	dst = strField(dst, `,"queue":`, m.Queue)
	dst = append(dst, `,"k":`...)
	dst = strconv.AppendUint(dst, m.K, 10)
	dst = intField(dst, `,"tStart":`, int64(m.Start))
	dst = intField(dst, `,"tEnd":`, int64(m.End))
	dst = strField(dst, `,"format":`, m.Format)
	dst = strField(dst, `,"compression":`, m.Compression)
	dst = strField(dst, `,"layout":`, m.Layout)
	return append(dst, `,"objects":[`...)
}

// append writes one entry of objects.
func (o *Object) append(dst []byte, first bool) []byte {
	if !first {
		dst = append(dst, ',')
	}
	dst = strField(dst, `{"key":`, o.Key)
	dst = intField(dst, `,"bytes":`, o.Bytes)
	dst = intField(dst, `,"records":`, o.Records)
	dst = strField(dst, `,"sha256":`, o.SHA256)
	if of := o.Of; of != nil {
		dst = strField(dst, `,"partition":`, of.Partition)
		dst = intField(dst, `,"firstOffset":`, of.First)
		dst = intField(dst, `,"lastOffset":`, of.Last)
	}
	return append(dst, '}')
}

// appendTail writes what stands behind the objects.
func (m *Manifest) appendTail(dst []byte) []byte {
	dst = intField(dst, `],"records":`, m.Records)
	dst = intField(dst, `,"bytes":`, m.Bytes)
	dst = intField(dst, `,"partitions":`, int64(m.Partitions))
	if m.MinTS != nil && m.MaxTS != nil {
		dst = intField(dst, `,"minTs":`, int64(*m.MinTS))
		dst = intField(dst, `,"maxTs":`, int64(*m.MaxTS))
	}
	dst = append(dst, `,"lost":[`...)
	for i, l := range m.Lost {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strField(dst, `{"partition":`, l.Partition)
		dst = intField(dst, `,"from":`, l.From)
		dst = intField(dst, `,"to":`, l.To)
		dst = append(dst, '}')
	}
	dst = strField(dst, `],"writer":`, m.Writer)
	dst = strField(dst, `,"committedAt":`, m.CommittedAt)
	return append(dst, '}')
}

func strField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	return appendString(dst, value)
}

func intField(dst []byte, name string, value int64) []byte {
	dst = append(dst, name...)
	return strconv.AppendInt(dst, value, 10)
}

// appendString writes s as a JSON string with the escapes of docs/formats.md 7.2 and no other.
func appendString(dst []byte, s string) []byte {
	return append(jsontext.AppendEscaped(append(dst, '"'), s), '"')
}
