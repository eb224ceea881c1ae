package upload

import (
	"crypto/sha256"
	"encoding/hex"
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

// A partition name that takes more than maxPartition bytes in a key is cut to keptPartition bytes and told apart by a hash (contract S8), so that
// no producer can make a key that a store refuses.
const (
	maxPartition  = 120
	keptPartition = 100
)

// Names is what beside its intent decides the key of a data object.
type Names struct {
	Tenant, Queue string
	Ext           string         // extension of the format, without its dot
	Object        *stages.Object // which of the window's objects; nil = its only one
	// First is the lowest stamp of the window. It counts only where the intent starts before every stamp; Beginning = there is no record.
	First stages.Micros
}

// DataKey is the key of a data object of a window (docs/formats.md 7.1). It depends on the intent and the names alone, never on
// the time of day.
func DataKey(in stages.Intent, n Names) (string, error) {
	stem, err := dataStem(in, n)
	if err != nil {
		return "", err
	}
	if (in.Layout == "merged") != (n.Object == nil) {
		return "", fmt.Errorf("window %d: what was encoded is no object of layout %q: a mistake of this program", in.K, in.Layout)
	}
	if o := n.Object; o != nil {
		stem += fmt.Sprintf("-p-%s-%012d-%012d", escPartition(o.Partition), o.First, o.Last)
	}
	return stem + "." + n.Ext, nil
}

// DataPattern is a glob that matches the keys of all data objects of a window, and of no other. It fails where DataKey would whatever the names.
func DataPattern(in stages.Intent, tenant, queue string) (string, error) {
	stem, err := dataStem(in, Names{Tenant: tenant, Queue: queue, First: stages.Beginning})
	if in.Layout == "per-partition" {
		return stem + "-p-*", err
	}
	return stem + ".*", err
}

// dataStem is what the keys of all data objects of a window begin with.
func dataStem(in stages.Intent, n Names) (string, error) {
	if in.Layout != "merged" && in.Layout != "per-partition" {
		return "", fmt.Errorf("window %d: layout %q is not known to this version of queen: the one that began the window, or a newer one, has to finish it", in.K, in.Layout)
	}
	at := in.Start
	if at == stages.Beginning { // no cutter of ours shows such a start
		if at = n.First; at == stages.Beginning {
			at = in.End
		}
	}
	iso := max(at, 0).ISO()
	var b strings.Builder
	fmt.Fprintf(&b, "%s/tenant=%s/queue=%s/dt=%s/", in.Prefix, stages.Esc(n.Tenant), stages.Esc(n.Queue), iso[:len("2006-01-02")])
	switch in.Align {
	case "day":
	case "hour", "none":
		fmt.Fprintf(&b, "hour=%s/", iso[len("2006-01-02T"):len("2006-01-02T15")])
	default:
		return "", fmt.Errorf("window %d: alignment %q is not known to this version of queen: the one that began the window, or a newer one, has to finish it", in.K, in.Align)
	}
	fmt.Fprintf(&b, "w-%010d-%016d-%016d", in.K, max(in.Start, 0), max(in.End, 0))
	return b.String(), nil
}

// escPartition is a partition name as it stands in a key.
func escPartition(name string) string {
	esc := stages.Esc(name)
	if len(esc) <= maxPartition {
		return esc
	}
	sum := sha256.Sum256([]byte(esc))
	return esc[:keptPartition] + "~" + hex.EncodeToString(sum[:8]) // no escaped name holds a ~
}

// ManifestKey is the key of the manifest of window k.
func ManifestKey(prefix, tenant, queue string, k uint64) string {
	return fmt.Sprintf("%s/_queen/tenant=%s/queue=%s/windows/%010d.json", prefix, stages.Esc(tenant), stages.Esc(queue), k)
}

// CheckpointKey is the key of the checkpoint of window k.
func CheckpointKey(prefix, tenant, queue string, k uint64) string {
	return fmt.Sprintf("%s/_queen/tenant=%s/queue=%s/checkpoint/%010d.json.zst", prefix, stages.Esc(tenant), stages.Esc(queue), k)
}

// KeyError says why no store would take the keys of a queue.
type KeyError struct {
	Queue string
	Text  string
}

func (e *KeyError) Error() string { return fmt.Sprintf("queue %q: %s", e.Queue, e.Text) }

// CheckNames computes the longest keys that the sink can ever write for a queue and returns a *KeyError with a sentence when a
// store would refuse one (contract B9): over 1024 bytes in all, or a segment between slashes over 255. Whatever partitions come later, their names
// make no key longer.
func CheckNames(prefix, tenant, queue, layout string) error {
	in := stages.Intent{K: 1<<64 - 1, Start: 1<<63 - 1, End: 1<<63 - 1, Prefix: prefix, Align: "hour", Layout: layout}
	names := Names{Tenant: tenant, Queue: queue, Ext: worstExt}
	if layout == "per-partition" {
		names.Object = &stages.Object{Partition: strings.Repeat("p", maxPartition), First: 1<<63 - 1, Last: 1<<63 - 1}
	}
	data, err := DataKey(in, names)
	if err != nil {
		return err
	}
	for _, key := range []string{data, ManifestKey(prefix, tenant, queue, in.K), CheckpointKey(prefix, tenant, queue, in.K)} {
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
