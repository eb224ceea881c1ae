package upload

import "context"

// sheet is the manifest of a window, written while its objects are: a window of 100,000 partitions has tens of megabytes of them.
type sheet struct {
	side  *Sidecar
	text  []byte // scratch: what is written next
	first bool   // no object has been written
}

// newSheet starts the manifest m under its key. It sends nothing.
func newSheet(o StageOptions, key string, m *Manifest) *sheet {
	return &sheet{side: NewSidecar(o, key, "application/json"), first: true, text: m.appendHead(nil)}
}

// object writes an entry.
func (s *sheet) object(ctx context.Context, o Object) error {
	s.text = o.append(s.text, s.first)
	s.first = false
	return s.write(ctx)
}

// finish writes what stands behind the objects and sends all that is left. When it returns nil, the store has the manifest.
func (s *sheet) finish(ctx context.Context, m *Manifest) error {
	s.text = m.appendTail(s.text)
	if err := s.write(ctx); err != nil {
		return err
	}
	return s.side.Finish(ctx)
}

func (s *sheet) write(ctx context.Context) error {
	err := s.side.Write(ctx, s.text)
	s.text = s.text[:0]
	return err
}

// abort gives the manifest up if it is not finished.
func (s *sheet) abort(ctx context.Context) { s.side.Abort(ctx) }
