package upload

import (
	"context"
	"errors"
	"net/http"

	"queen/stages"
)

// Identity is whose windows a manifest speaks of.
type Identity struct{ Sink, Tenant, Queue string }

// maxManifest bounds what is read of a manifest in bytes; most of a large one is `lost`.
const maxManifest = 256 << 20

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
	text, found, err := c.Get(ctx, key, maxManifest)
	if err != nil || !found {
		return nil, false, hidden(err)
	}
	m, err := ParseManifest(text)
	if err != nil || !m.matches(id, in) {
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
	text, found, err := c.Get(ctx, key, maxManifest)
	if err != nil || !found || own == nil {
		return key, found, hidden(err)
	}
	m, err := ParseManifest(text)
	return key, err != nil || !m.concerns(id, *own), nil
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
