package kv

import (
	"bytes"
	"testing"

	"queen/internal/hostile"
	"queen/stages"
)

// FuzzDocumentRow: a document row that is read is, written again, the same bytes, and what is shown of it lives as long as it does.
func FuzzDocumentRow(f *testing.F) {
	row := document{version: 7, expires: 9, updated: 11, text: []byte(`{"n":42.00}`)}.append(nil)
	f.Add(row, int64(8), int64(3))
	f.Add(document{version: 1, expires: Never, text: []byte(`1`)}.append(nil), int64(1)<<62, int64(0))
	f.Add(row[:rowHeader], int64(0), int64(0))
	f.Add(append([]byte{2}, row[1:]...), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, row []byte, now, led int64) {
		var d document
		var err error
		hostile.Bounded(t, len(row), 2, func() { d, err = decodeDocument(row) })
		if err != nil {
			return
		}
		if again := d.append(nil); !bytes.Equal(again, row) {
			t.Errorf("%x is read, and written as %x", row, again)
		}
		at := stages.Micros(led)
		if now < 0 || led < 0 || !d.live(at) {
			return
		}
		if shown := d.shown("k", stages.Micros(now), at); shown.Version != d.version || (shown.Expires == Never) != (d.expires == Never) || shown.Expires < stages.Micros(now) {
			t.Errorf("%+v at %d, led %d, is shown as %+v", d, now, led, shown)
		}
	})
}
