package codec

import "io"

// plain stores an object as it is.
type plain struct{}

var _ Codec = plain{}

func (plain) Name() string        { return "none" }
func (plain) Suffix() string      { return "" }
func (plain) ContentType() string { return "" }
func (plain) Level() int          { return 0 }
func (plain) Encoder() string     { return "plain" }

func (plain) Writer(w io.Writer) (Writer, error) {
	g := &gate{w: w}
	return gated{WriteCloser: nopCloser{g}, gate: g}, nil
}

func (plain) Reader(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(r), nil }

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
