package pagecodec

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/compress"
)

func noise(n int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	out := make([]byte, n)
	_, _ = r.Read(out)
	return out
}

func ours(t *testing.T) *codec {
	t.Helper()
	c, err := compress.GetCodec(compress.Codecs.Zstd)
	if err != nil {
		t.Fatal(err)
	}
	z, ok := c.(*codec)
	if !ok {
		t.Fatalf("arrow-go uses %T", c)
	}
	return z
}

func TestRoundTrip(t *testing.T) {
	z := ours(t)
	for _, data := range [][]byte{nil, []byte("a"), bytes.Repeat([]byte("queen "), 400_000), noise(300), noise(5 << 20)} {
		packed := z.Encode(make([]byte, 0, z.CompressBound(int64(len(data)))), data)
		if int64(len(packed)) > z.CompressBound(int64(len(data))) {
			t.Errorf("%d bytes became %d, the bound is %d", len(data), len(packed), z.CompressBound(int64(len(data))))
		}
		got, err := z.DecodeWithError(make([]byte, len(data)), packed)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes came back as %d, %v", len(data), len(got), err)
		}
		if again := z.EncodeLevel(nil, data, 19); !bytes.Equal(again, packed) {
			t.Errorf("%d bytes: another level, another encoder or no room gives other bytes", len(data))
		}
	}
}

// A frame that holds more than its page says is an error, and not an allocation.
func TestBomb(t *testing.T) {
	z := ours(t)
	bomb := z.Encode(nil, make([]byte, 256<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if got, err := z.DecodeWithError(make([]byte, 1000), bomb); err == nil {
		t.Errorf("%d bytes were unpacked into 1,000", len(got))
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("%d bytes were allocated", took)
	}
}

// What an encoder holds is known.
func TestMemory(t *testing.T) {
	z := &codec{}
	data, out := noise(8<<20), make([]byte, 9<<20)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	z.Encode(out, data)
	runtime.ReadMemStats(&after)
	if took := int64(after.TotalAlloc - before.TotalAlloc); took > Memory || took < Memory/2 {
		t.Errorf("an encoder took %d bytes, %d are promised", took, Memory)
	}
}
