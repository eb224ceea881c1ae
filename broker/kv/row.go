package kv

import (
	"encoding/binary"
	"fmt"
	"time"

	"queen/stages"
)

// Table bytes of the state rows that this package owns (docs/formats.md section 5).
const (
	tableDocument = 'K'
	tableExpiry   = 'X'

	rowVersion = 1
	rowHeader  = 1 + 8 + 8 + 8
)

// document is a stored document. Its text aliases what it was decoded from.
type document struct {
	version uint64
	expires stages.Micros // led clock
	updated stages.Micros // log clock
	text    []byte
}

// documentKey returns the key of a document row.
func documentKey(tenant [16]byte, ns, key string) []byte {
	b := make([]byte, 0, 1+16+1+len(ns)+len(key))
	b = append(b, tableDocument)
	b = append(b, tenant[:]...)
	b = append(b, byte(len(ns)))
	b = append(b, ns...)
	return append(b, key...)
}

// expiryKey returns the key of the expiry row of a document.
func expiryKey(expires stages.Micros, docKey []byte) []byte {
	b := make([]byte, 0, 8+len(docKey))
	b = append(b, tableExpiry)
	b = binary.BigEndian.AppendUint64(b, uint64(expires))
	return append(b, docKey[1:]...)
}

func (d document) append(dst []byte) []byte {
	dst = append(dst, rowVersion)
	dst = binary.BigEndian.AppendUint64(dst, d.version)
	dst = binary.BigEndian.AppendUint64(dst, uint64(d.expires))
	dst = binary.BigEndian.AppendUint64(dst, uint64(d.updated))
	return append(dst, d.text...)
}

func decodeDocument(row []byte) (document, error) {
	if len(row) <= rowHeader {
		return document{}, fmt.Errorf("document row of %d bytes", len(row))
	}
	if row[0] != rowVersion {
		return document{}, fmt.Errorf("document row version %d is unknown", row[0])
	}
	return document{
		version: binary.BigEndian.Uint64(row[1:]),
		expires: stages.Micros(binary.BigEndian.Uint64(row[9:])),
		updated: stages.Micros(binary.BigEndian.Uint64(row[17:])),
		text:    row[rowHeader:],
	}, nil
}

// live reports whether the document exists at this time of the led clock: at exactly its expiry it is gone.
func (d document) live(led stages.Micros) bool { return d.expires > led }

// shown returns the document as readers see it. The expiry is on the log clock: now plus the led time that is left.
func (d document) shown(key string, now, led stages.Micros) Row {
	row := Row{Key: key, Value: d.text, Version: d.version, Expires: Never, Updated: d.updated}
	if d.expires != Never {
		row.Expires = saturate(now, d.expires-led)
	}
	return row
}

// saturate adds a positive span to a moment and stays below Never.
func saturate(at, span stages.Micros) stages.Micros {
	if span >= Never-at {
		return Never - 1
	}
	return at + span
}

// FormatTime writes a moment as documents show it: ISO with the offset +00:00 and a fraction without trailing zeros, which is
// left out when it is zero.
func FormatTime(at stages.Micros) string {
	return time.UnixMicro(int64(at)).UTC().Format("2006-01-02T15:04:05.999999+00:00")
}
