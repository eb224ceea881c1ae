package upload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	Objects     []Object      `json:"objects"` // in key order
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
}

// Lost is a range of offsets, both ends included, that retention removed before the sink read it.
type Lost struct {
	Partition string `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
}

// Append writes the manifest as compact JSON, its fields in the order of docs/formats.md 7.3, without a newline.
func (m *Manifest) Append(dst []byte) []byte {
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
	dst = append(dst, `,"objects":[`...)
	for i, o := range m.Objects {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strField(dst, `{"key":`, o.Key)
		dst = intField(dst, `,"bytes":`, o.Bytes)
		dst = intField(dst, `,"records":`, o.Records)
		dst = strField(dst, `,"sha256":`, o.SHA256)
		dst = append(dst, '}')
	}
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

// ParseManifest reads a manifest strictly: anything but the exact bytes that Append writes is an error.
func ParseManifest(text []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if !bytes.Equal(m.Append(nil), text) {
		return nil, errors.New("manifest: it is not in the form that queen writes, or it was cut short")
	}
	return m, nil
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
