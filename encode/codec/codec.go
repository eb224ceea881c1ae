// Package codec holds the compressors of data objects. Each writes exactly one frame or member for an object of any size,
// by one streaming path, and the same bytes for the same input whatever the sizes of the writes, the number of cores or the
// node: every option is a constant here and is named by Encoder, together with the library's version.
//
// It is not the place for compression of anything that a node reads back for itself. encode/registry.go says which format
// uses which codec.
package codec

import (
	"fmt"
	"io"
)

// libVersion is the version of the compression library that go.mod requires. It is part of every encoder id, because a
// library may write other bytes from one version to the next; a test compares it with the build.
const libVersion = "v1.20.4"

// Codec is one way to compress an object.
type Codec interface {
	Name() string        // as in settings, intents and manifests: zstd, gzip, none
	Suffix() string      // what follows the format in a key's extension: ".zst", ".gz" or nothing
	ContentType() string // of a compressed object; "" when the format decides
	Level() int          // the level as recorded in an intent
	Encoder() string     // library, version and every option that shapes bytes
	Memory() int64       // what one object's Writer holds at most, bytes; it is fullest when w blocks and the data does not compress
	// Writer starts an object. Nothing else may write to w until Close or Abort has returned.
	Writer(w io.Writer) (Writer, error)
	// Reader decodes one object strictly: bytes behind its one frame or member are an error.
	Reader(r io.Reader) (io.ReadCloser, error)
}

// Writer compresses one object. Its goroutines have ended when Close or Abort returned.
type Writer interface {
	io.Writer
	Close() error // ends the frame
	Abort()       // writes nothing more and frees what it holds
}

// List returns all codecs, the default first. The codecs of one list keep encoders for the next object (spare.go), so who writes many keeps the list.
// They keep to the pace, which may be nil.
func List(pace *Pace) []Codec {
	return []Codec{zstdCodec{&spare{}, pace}, gzipCodec{&spare{}}, plain{}}
}

// Find returns the codec of this name.
func Find(name string) (Codec, error) {
	for _, c := range List(nil) {
		if c.Name() == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("compression %q: not known to this version", name)
}
