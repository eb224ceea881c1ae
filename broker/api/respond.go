package api

import (
	"net/http"
	"strconv"
	"time"

	"queen/stages"
)

// writeJSON writes a whole answer. A client that has gone away is no error of the broker: the server notices it by itself.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}

// appendISO6 appends a stamp as "2026-10-02T10:00:00.123456Z", quoted.
func appendISO6(b []byte, t stages.Micros) []byte {
	b = append(b, '"')
	b = time.UnixMicro(int64(t)).UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	return append(b, '"')
}

// appendISOPG appends a stamp as "2026-10-02T10:00:00.1234+00:00", quoted: the fraction has no trailing zeros and is left out when
// it is zero.
func appendISOPG(b []byte, t stages.Micros) []byte {
	b = append(b, '"')
	b = time.UnixMicro(int64(t)).UTC().AppendFormat(b, "2006-01-02T15:04:05.999999")
	return append(b, `+00:00"`...)
}

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }
