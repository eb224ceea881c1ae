package rows

import (
	"queen/internal/jsontext"
	"queen/stages"
)

// A payload that nobody could open is a JSON string of the stored bytes in every format, what of them is not UTF-8 as U+FFFD (contract S9).

// PayloadLen is how many bytes of text the payload of a record is in an object, before a format changes what it has to; 0 = there is none.
func PayloadLen(rec *stages.Record) int {
	if rec.Sealed {
		return jsontext.LossyLen(rec.Payload)
	}
	return len(rec.Payload)
}

// AppendSealed appends the text of a payload that nobody could open.
func AppendSealed(dst []byte, rec *stages.Record) []byte {
	return jsontext.AppendLossy(dst, rec.Payload)
}
