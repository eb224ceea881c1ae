package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"queen/stages"
)

// Identity is whose windows a manifest speaks of.
type Identity struct{ Sink, Tenant, Queue string }

// Finished looks for the manifest of an intent's window. It is found when a manifest is there and says what the intent says: the
// same window, bounds, format, compression, layout, writer and `at`, of the same sink, tenant and queue. Then all of the window is in
// the bucket and only the pointer is left to move; the result's Job is nil.
//
// Absent, unreadable and different are all found=false: the window is uploaded again, to the same keys. So is a refused look
// (403 AccessDenied): a store hides with it what it may not list. Any other failure is an error, because not having looked is not
// the same as absent; it is an *Error whose Retryable says whether to look again.
//
// `at` is compared because an intent that is rewritten for another encoder gets a new one, and the manifest of the first encoder
// must not speak for the objects of the second.
func (c *Client) Finished(ctx context.Context, id Identity, in stages.Intent) (*stages.Uploaded, bool, error) {
	key := ManifestKey(in.Prefix, id.Tenant, id.Queue, in.K)
	m, found, err := c.manifest(ctx, key)
	if err != nil || !found {
		return nil, false, hidden(err)
	}
	if m == nil || !m.matches(id, in) {
		return nil, false, nil // it is written anew, as the intent says
	}
	up := &stages.Uploaded{Manifest: key, Records: m.Records, Bytes: m.Bytes}
	for _, l := range m.Lost {
		up.Lost = append(up.Lost, stages.Range{Partition: l.Partition, From: l.From, To: l.To})
	}
	return up, true, nil
}

// OtherLife reports whether the place of the manifest of window k holds one that the life which counts now cannot have written: any, when it has
// no intent of that window (own is nil); else one of other bounds, of another sink, tenant or queue, or one that cannot be read. To write over it
// would take windows out of the lake. A store that hides what it may not list (403 AccessDenied) counts as absent; any other failure to look is an
// error.
func (c *Client) OtherLife(ctx context.Context, id Identity, prefix string, k uint64, own *stages.Intent) (key string, other bool, err error) {
	key = ManifestKey(prefix, id.Tenant, id.Queue, k)
	m, found, err := c.manifest(ctx, key)
	if err != nil || !found || own == nil {
		return key, found, hidden(err)
	}
	return key, m == nil || !m.concerns(id, *own), nil
}

// manifest reads a manifest but for its objects, which are only looked at: there may be very many. It is nil when what is there is no manifest.
func (c *Client) manifest(ctx context.Context, key string) (m *Manifest, found bool, err error) {
	found, err = c.stream(ctx, key, func(body io.Reader) {
		if m, err = readManifest(body, func(Object) {}); err != nil {
			m = nil
		}
	})
	return m, found, err
}

// stream reads an object with fn. When the answer breaks, all of it is asked for again and fn reads anew. An object that is not there is
// found=false and no error.
func (c *Client) stream(ctx context.Context, key string, fn func(body io.Reader)) (found bool, err error) {
	err = c.retry(ctx, OpGet, key, func(ctx context.Context) error {
		out, err := c.api.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(c.o.Bucket), Key: aws.String(key)})
		if err != nil {
			return err
		}
		defer out.Body.Close()
		body := &noted{r: out.Body}
		if fn(body); body.err != nil {
			return &shortAnswer{http.StatusOK, fmt.Errorf("its body ended early: %w", body.err)}
		}
		return nil
	})
	if absent(err) {
		return false, nil
	}
	return err == nil, err
}

// noted notes how a reader failed.
type noted struct {
	r   io.Reader
	err error // other than the end
}

func (r *noted) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// hidden is err without the answer of a store that hides what it may not list.
func hidden(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Status == http.StatusForbidden && e.Code == "AccessDenied" {
		return nil
	}
	return err
}

// concerns says whether a manifest speaks of the window of an intent, in whatever form it was written.
func (m *Manifest) concerns(id Identity, in stages.Intent) bool {
	return m.Sink == id.Sink && m.Tenant == id.Tenant && m.Queue == id.Queue && m.K == in.K && m.Start == in.Start && m.End == in.End
}

func (m *Manifest) matches(id Identity, in stages.Intent) bool {
	return m.concerns(id, in) &&
		m.Format == in.Format && m.Compression == in.Compression && m.Layout == in.Layout &&
		m.Writer == in.Writer && m.CommittedAt == in.At
}
