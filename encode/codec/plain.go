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
func (plain) Memory() int64       { return 0 }

func (plain) Writer(w io.Writer) (Writer, error) {
	return &through{gate{w: w}}, nil
}

func (plain) Reader(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(r), nil }

// through is the Writer of an object that is stored as it is.
type through struct{ gate }

var _ Writer = (*through)(nil)

func (*through) Close() error { return nil }
func (t *through) Abort()     { t.shut.Store(true) }
