package lake

import (
	"context"
	"io"
	"iter"

	"queen/upload"
)

// Bucket is a lake in an S3 bucket. It needs the right to list, which the sink itself does not.
type Bucket struct{ Client *upload.Client }

var _ Store = Bucket{}

// List implements Store.
func (b Bucket) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for o, err := range b.Client.List(ctx, prefix, "") {
			if !yield(Object(o), err) {
				return
			}
		}
	}
}

// Open implements Store.
func (b Bucket) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	return b.Client.Open(ctx, key)
}
