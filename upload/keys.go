package upload

import (
	"fmt"
	"strings"

	"queen/stages"
)

// Limits of the S3 protocol and of the file systems below many of its gateways, in bytes.
const (
	maxKey     = 1024
	maxSegment = 255
)

// worstExt is the longest extension of a data object that this or a later version writes.
const worstExt = "jsonl.zst"

// DataKey is the key of the window's data object (docs/formats.md 7.1). It depends on the intent and the names alone, never on
// the time of day. ext is the format's extension without its dot.
func DataKey(in stages.Intent, tenant, queue, ext string) (string, error) {
	start := max(in.Start, 0)
	iso := start.ISO()
	var b strings.Builder
	fmt.Fprintf(&b, "%s/tenant=%s/queue=%s/dt=%s/", in.Prefix, stages.Esc(tenant), stages.Esc(queue), iso[:len("2006-01-02")])
	switch in.Align {
	case "day":
	case "hour", "none":
		fmt.Fprintf(&b, "hour=%s/", iso[len("2006-01-02T"):len("2006-01-02T15")])
	default:
		return "", fmt.Errorf("window %d: alignment %q is not known to this version of queen: the one that began the window, or a newer one, has to finish it", in.K, in.Align)
	}
	if in.Layout != "merged" {
		return "", fmt.Errorf("window %d: layout %q is not known to this version of queen: the one that began the window, or a newer one, has to finish it", in.K, in.Layout)
	}
	fmt.Fprintf(&b, "w-%010d-%016d-%016d.%s", in.K, start, max(in.End, 0), ext)
	return b.String(), nil
}

// ManifestKey is the key of the manifest of window k.
func ManifestKey(prefix, tenant, queue string, k uint64) string {
	return fmt.Sprintf("%s/_queen/tenant=%s/queue=%s/windows/%010d.json", prefix, stages.Esc(tenant), stages.Esc(queue), k)
}

// KeyError says why no store would take the keys of a queue.
type KeyError struct {
	Queue string
	Text  string
}

func (e *KeyError) Error() string { return fmt.Sprintf("queue %q: %s", e.Queue, e.Text) }

// CheckNames computes the longest keys that the sink can ever write for a queue and returns a *KeyError with a sentence when a
// store would refuse one (contract B9): over 1024 bytes in all, or a segment between slashes over 255.
func CheckNames(prefix, tenant, queue string) error {
	in := stages.Intent{K: 1<<64 - 1, Start: 1<<63 - 1, End: 1<<63 - 1, Prefix: prefix, Align: "hour", Layout: "merged"}
	data, err := DataKey(in, tenant, queue, worstExt)
	if err != nil {
		return err
	}
	for _, key := range []string{data, ManifestKey(prefix, tenant, queue, in.K)} {
		for segment := range strings.SplitSeq(key, "/") {
			if len(segment) <= maxSegment {
				continue
			}
			if name, _, ok := strings.Cut(segment, "="); ok {
				return &KeyError{Queue: queue, Text: fmt.Sprintf("its name is too long for a bucket: the segment %s= of its object keys would have "+
					"%d bytes after percent-encoding, stores take %d; mirror a queue with a shorter name", name, len(segment), maxSegment)}
			}
			return &KeyError{Queue: queue, Text: fmt.Sprintf("QUEEN_S3_PREFIX has a segment of %d bytes, stores take %d; use a shorter one",
				len(segment), maxSegment)}
		}
		if len(key) > maxKey {
			return &KeyError{Queue: queue, Text: fmt.Sprintf(
				"its name is too long for a bucket: its object keys would have up to %d bytes, stores take %d; use a shorter prefix or name",
				len(key), maxKey)}
		}
	}
	return nil
}
