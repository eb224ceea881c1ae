package encode

import (
	"encoding/hex"
	"errors"
	"io"
	"strconv"

	"queen/encode/codec"
	"queen/encode/jsonl"
	"queen/internal/jsontext"
	"queen/stages"
)

// CheckpointType is the media type of a checkpoint.
const CheckpointType = "application/zstd"

// Checkpoint writes where the window behind window k begins in each partition: compact JSON in one zstd frame (docs/formats.md 7.5). positions are
// sorted by name. Like a format's, its bytes are a pure function of what it is given. What was written is no checkpoint unless it returned nil.
func (r Registry) Checkpoint(w io.Writer, k uint64, end stages.Micros, positions []stages.Position) error {
	z, err := r.zstd(w)
	if err != nil {
		return err
	}
	text := append(make([]byte, 0, 2*checkpointPiece), `{"k":`...)
	text = strconv.AppendUint(text, k, 10)
	text = append(text, `,"tEnd":`...)
	text = strconv.AppendInt(text, int64(end), 10)
	text = append(text, `,"positions":[`...)
	for i, p := range positions {
		if i > 0 {
			text = append(text, ',')
		}
		text = appendPosition(text, p)
		if len(text) < checkpointPiece {
			continue
		}
		if _, err := z.Write(text); err != nil {
			z.Abort()
			return err
		}
		text = text[:0]
	}
	if _, err := z.Write(append(text, "]}"...)); err != nil {
		z.Abort()
		return err
	}
	return z.Close()
}

// checkpointPiece is about how many bytes are handed to the compressor at once.
const checkpointPiece = 32 << 10

// zstd starts an object of the codec of a checkpoint, with the encoders that data objects use.
func (r Registry) zstd(w io.Writer) (codec.Writer, error) {
	for _, f := range r {
		if lines, ok := f.(jsonl.Format); ok && lines.Compression() == "zstd" {
			return lines.Codec().Writer(w)
		}
	}
	return nil, errors.New("checkpoint: the registry has no zstd")
}

func appendPosition(b []byte, p stages.Position) []byte {
	b = append(b, `["`...)
	b = append(jsontext.AppendEscaped(b, p.Name), `",`...)
	b = strconv.AppendInt(b, p.Offset, 10)
	if p.ID == [16]byte{} {
		return append(b, ']')
	}
	b = append(b, `,"`...)
	for i, part := range [][]byte{p.ID[:4], p.ID[4:6], p.ID[6:8], p.ID[8:10], p.ID[10:]} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, part)
	}
	return append(b, `"]`...)
}
