package parquet

import (
	"io"
	"iter"

	"queen/encode/rows"
	"queen/internal/parquetfile"
)

// Decode reads an object back, strictly. Its footer stands last, so the object is copied to a temporary file first. A Payload is the cell; NULL,
// which is "no payload", is read as no bytes.
func (f Format) Decode(r io.Reader) iter.Seq2[rows.Row, error] {
	return func(yield func(rows.Row, error) bool) {
		object, err := parquetfile.Spool(r)
		if err != nil {
			yield(rows.Row{}, err)
			return
		}
		defer object.Close()
		opened, err := parquetfile.Open(object, object.Size, f.name)
		if err != nil {
			yield(rows.Row{}, err)
			return
		}
		for row, err := range opened.Rows() {
			if !yield(rows.Row{Partition: row.Partition, Offset: row.Offset, TxID: row.TxID, TS: row.TS, Payload: row.Payload}, err) {
				return
			}
		}
	}
}
