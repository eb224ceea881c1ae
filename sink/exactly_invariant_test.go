package sink

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"queen/commit"
	"queen/encode"
	"queen/stages"
	"queen/upload"
)

// exactly is the audit that the tests of the invariants end with. It reads the bucket as any reader of the lake does, by its keys, and asks:
//
//   - is every record that was pushed in one object, once, byte for byte, and nothing else there;
//   - does every manifest give the hash of what is under its keys, and does every object stand in a manifest;
//   - does the pointer name a manifest that is there, and so for every window below it;
//   - was no data object and no manifest ever sent twice with different bytes.
//
// Call it when everything that was pushed should have been committed. Nothing may have been trimmed.
func (w *world) exactly(queue string) {
	w.t.Helper()
	w.report(append(w.contentFaults(queue), w.sentFaults()...))
}

// contentFaults is all of the audit but its last question.
func (w *world) contentFaults(queue string) []string {
	keys := w.s3.Keys()
	return slices.Concat(w.recordFaults(queue, keys), w.manifestFaults(queue, keys), w.pointerFaults(queue))
}

func (w *world) report(faults []string) {
	w.t.Helper()
	for _, fault := range faults {
		w.t.Error(fault)
	}
}

// few keeps a list of faults readable.
func few(faults []string, what string) []string {
	slices.Sort(faults)
	if n := len(faults); n > 3 {
		return append(faults[:3:3], fmt.Sprintf("and %d more %s", n-3, what))
	}
	return faults
}

// pointerFaults are windows at or below the pointer that have no manifest.
func (w *world) pointerFaults(queue string) []string {
	row := w.mem.kv.Get(commit.NewKeys("default", stages.Esc(queue)).Committed())
	if row.Version == 0 {
		return nil
	}
	p, err := stages.ParsePointer(row.Value)
	if err != nil {
		return []string{err.Error()}
	}
	var faults []string
	if _, ok := w.s3.Object(p.Manifest); !ok {
		faults = append(faults, fmt.Sprintf("window %d is committed and its manifest %s is not in the bucket", p.K, p.Manifest))
	}
	have := strings.Join(w.s3.Keys(), "\n")
	for k := uint64(1); k < p.K; k++ {
		if !strings.Contains(have, fmt.Sprintf("/queue=%s/windows/%010d.json", stages.Esc(queue), k)) {
			faults = append(faults, fmt.Sprintf("the pointer is at window %d and window %d has no manifest", p.K, k))
		}
	}
	return few(faults, "windows")
}

// manifestFaults are manifests that do not say what is under their keys, and objects that stand in none.
func (w *world) manifestFaults(queue string, keys []string) []string {
	var faults []string
	named := map[string]bool{}
	objects := w.objects()
	for _, key := range keys {
		if !strings.Contains(key, "/_queen/") || !strings.Contains(key, "/queue="+stages.Esc(queue)+"/windows/") {
			continue
		}
		text, _ := w.s3.Object(key)
		m, err := upload.ParseManifest(text)
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", key, err))
			continue
		}
		for _, o := range m.Objects {
			named[o.Key] = true
			if objects[o.Key] != o.SHA256 {
				faults = append(faults, fmt.Sprintf("window %d: its manifest says sha256 %.8s, the object has %.8s", m.K, o.SHA256, objects[o.Key]))
			}
		}
	}
	for _, key := range keys {
		if isData(key, queue) && !named[key] {
			faults = append(faults, key+" stands in no manifest")
		}
	}
	return few(faults, "objects")
}

func isData(key, queue string) bool {
	return !strings.Contains(key, "/_queen/") && strings.Contains(key, "/queue="+stages.Esc(queue)+"/")
}

// recordFaults are records that are lost, doubled or not what was pushed.
func (w *world) recordFaults(queue string, keys []string) []string {
	var faults []string
	found := map[string][]string{} // payloads by partition and offset
	for _, key := range keys {
		if !isData(key, queue) {
			continue
		}
		data, _ := w.s3.Object(key)
		kind := map[string][2]string{"zst": {"jsonl", "zstd"}, "gz": {"jsonl", "gzip"}, "jsonl": {"jsonl", "none"}, "parquet": {"parquet", "zstd"}}[key[strings.LastIndexByte(key, '.')+1:]]
		format, err := encode.Lookup(kind[0], kind[1])
		if err != nil {
			return []string{err.Error()}
		}
		for row, err := range format.Decode(bytes.NewReader(data)) {
			if err != nil {
				faults = append(faults, fmt.Sprintf("%s cannot be read: %v", key, err))
				break
			}
			id := fmt.Sprintf("%s %06d", row.Partition, row.Offset)
			found[id] = append(found[id], fmt.Sprintf("%s %s %s", row.TxID, row.TS.ISO(), row.Payload))
		}
	}
	w.mem.mu.Lock()
	defer w.mem.mu.Unlock()
	q := w.mem.queue(queue)
	pushed := 0
	for _, a := range q.appends {
		for _, r := range a.records {
			pushed++
			id := fmt.Sprintf("%s %06d", q.names[a.h.Partition], r.Offset)
			switch got := found[id]; {
			case len(got) == 0:
				faults = append(faults, fmt.Sprintf("lost: record %s, stamped %s, is in no object", id, a.h.TS.ISO()))
			case len(got) > 1:
				faults = append(faults, fmt.Sprintf("doubled: record %s, stamped %s, is in the bucket %d times", id, a.h.TS.ISO(), len(got)))
			case got[0] != fmt.Sprintf("%s %s %s", r.TxID, a.h.TS.ISO(), r.Payload):
				faults = append(faults, fmt.Sprintf("changed: record %s is %s", id, got[0]))
			}
			delete(found, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		faults = append(faults, fmt.Sprintf("record %s was never pushed", id))
	}
	return few(faults, fmt.Sprintf("of %d records", pushed))
}

// sentFaults are keys that were sent with more than one content. The client signs the hash of every body it puts.
func (w *world) sentFaults() []string {
	sent := map[string]map[string]bool{}
	for _, r := range w.s3.Requests() {
		if r.Op != "put" {
			continue
		}
		if sent[r.Key] == nil {
			sent[r.Key] = map[string]bool{}
		}
		sent[r.Key][r.Header.Get("X-Amz-Content-Sha256")] = true
	}
	var faults []string
	for key, sums := range sent {
		if len(sums) > 1 {
			faults = append(faults, fmt.Sprintf("%s was put with %d contents: %.8s", key, len(sums), slices.SortedFunc(maps.Keys(sums), cmp.Compare[string])))
		}
	}
	return few(faults, "keys")
}
