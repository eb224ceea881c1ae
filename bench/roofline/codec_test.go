package roofline

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/zstd"

	"queen/bench/records"
	"queen/encode/codec"
)

// What the benchmark calls bare is klauspost's zstd with the documented options and nothing else: the same bytes come out.
func TestBareIsTheLibrary(t *testing.T) {
	var lines []byte
	for i := range uint64(20_000) {
		lines = append(records.AppendPayload(lines, i, 300), '\n')
	}
	var want bytes.Buffer
	z, err := zstd.NewWriter(&want, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(2), zstd.WithConcurrentBlocks(true),
		zstd.WithWindowSize(512<<10), zstd.WithEncoderCRC(true), zstd.WithZeroFrames(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(lines); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	library, err := codec.Find("zstd")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	w, err := library.Writer(&got)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(lines); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%s writes %d bytes, the library %d: what is called bare is not the library any more", library.Encoder(), got.Len(), want.Len())
	}
	t.Logf("%d bytes of lines, %.2f times smaller", len(lines), float64(len(lines))/float64(want.Len()))
}
