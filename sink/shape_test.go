package sink

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shape is what each field of the block `s3` holds, by its name within its object: a word of kinds, "|null" where it may be null.
type shape map[string]string

var stamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)

// isKind says whether a value is of a kind. Numbers come as encoding/json reads them.
func isKind(kind string, v any) bool {
	kind, nullable := strings.CutSuffix(kind, "|null")
	if v == nil {
		return nullable
	}
	text, isText := v.(string)
	number, isNumber := v.(json.Number)
	switch kind {
	case "text":
		return isText
	case "short": // at most 512 characters
		return isText && len([]rune(text)) <= 512
	case "stamp":
		return isText && stamp.MatchString(text)
	case "int":
		_, err := number.Int64()
		return isNumber && err == nil
	case "float":
		_, err := number.Float64()
		return isNumber && err == nil
	case "bool":
		_, ok := v.(bool)
		return ok
	case "object":
		_, ok := v.(map[string]any)
		return ok
	case "list":
		_, ok := v.([]any)
		return ok
	}
	return isText && slices.Contains(strings.Split(kind, "/"), text)
}

// shapes are those of the contract (S12).
func shapes() (block, sink, bucket, placement, memory, row shape) {
	block = shape{"mode": "in-process", "phase": "starting/running/stopped", "threads": "int", "controlPlane": "object", "sinks": "list"}
	sink = shape{"tenant": "text", "source": "env/cp", "cluster": "text|null", "phase": "starting/running/backoff/stopped/error", "error": "short|null",
		"restarts": "int", "lastExit": "short|null", "uptimeMs": "int", "backoffMs": "int", "ok": "bool", "sink": "text", "instance": "text",
		"version": "2.0.0", "running": "bool", "bucket": "object", "format": "jsonl/parquet", "compression": "zstd/gzip/none/snappy",
		"layout": "merged/per-partition", "align": "hour/day/none", "health": "object", "placement": "object", "memory": "object", "queues": "list"}
	bucket = shape{"reachable": "bool|null", "error": "text|null", "checkedAt": "stamp|null", "name": "text", "endpoint": "text", "region": "text", "prefix": "text"}
	placement = shape{"nodes": "int", "queues": "int", "share": "int", "held": "int", "givingBack": "text|null"}
	memory = shape{"bufferedBytes": "int", "limitBytes": "int"}
	row = shape{"name": "text", "ownedHere": "bool", "heldBy": "text|null",
		"state": "claiming/held/restoring/filling/intent/upload/commit/drained/fenced/failed/missing/crashed/released", "k": "int", "tEnd": "stamp|null",
		"completeThrough": "stamp|null", "safeTime": "stamp|null", "lagSeconds": "float|null", "redo": "bool", "bufferedBytes": "int", "partitions": "int",
		"windowsCommitted": "int", "records": "int", "bytes": "int", "recordsLost": "int", "lastError": "object|null"}
	return block, sink, bucket, placement, memory, row
}

// checkReport checks a whole block: the names of its fields, what they hold, and what goes together.
func checkReport(t *testing.T, status any) {
	t.Helper()
	text, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	if err := dec.Decode(&all); err != nil {
		t.Fatal(err)
	}
	block, sink, bucket, placement, memory, row := shapes()
	checkShape(t, "s3", block, all)
	checkShape(t, "controlPlane", shape{"error": "text|null"}, all["controlPlane"])
	for _, each := range all["sinks"].([]any) {
		s := each.(map[string]any)
		checkShape(t, "sink", sink, s)
		checkShape(t, "bucket", bucket, s["bucket"])
		checkShape(t, "placement", placement, s["placement"])
		checkShape(t, "memory", memory, s["memory"])
		health := s["health"].(map[string]any)
		if health["ok"] == true {
			checkShape(t, "health", shape{"ok": "bool", "queues": "int"}, health)
		} else {
			checkShape(t, "health", shape{"ok": "bool", "queue": "text", "staleMs": "int", "limitMs": "int"}, health)
		}
		reachable := s["bucket"].(map[string]any)["reachable"]
		if want := health["ok"] == true && reachable != false; s["ok"] != want {
			t.Errorf("ok is %v: health %v, reachable %v", s["ok"], health["ok"], reachable)
		}
		if s["running"] != true && fmt.Sprint(s["uptimeMs"]) != "0" {
			t.Errorf("uptimeMs is %v while it does not run", s["uptimeMs"])
		}
		var names []string
		for _, q := range s["queues"].([]any) {
			checkRow(t, row, q.(map[string]any))
			names = append(names, q.(map[string]any)["name"].(string))
		}
		if !slices.IsSorted(names) {
			t.Errorf("queues are not sorted: %q", names)
		}
	}
}

func checkShape(t *testing.T, what string, want shape, got any) {
	t.Helper()
	fields, ok := got.(map[string]any)
	if !ok {
		t.Fatalf("%s is %v", what, got)
	}
	if d := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(fields))); d != "" {
		t.Errorf("fields of %s, -want +got:\n%s", what, d)
	}
	for name, kind := range want {
		if !isKind(kind, fields[name]) {
			t.Errorf("%s.%s is %#v, want %s", what, name, fields[name], kind)
		}
	}
}

// checkRow checks a queue's row, and what goes together in it.
func checkRow(t *testing.T, want shape, row map[string]any) {
	t.Helper()
	checkShape(t, "queue", want, row)
	state := row["state"].(string)
	says := func(bad bool, what string) {
		if bad {
			t.Errorf("%s: %v", what, row)
		}
	}
	zero := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return fmt.Sprint(row[n]) != "0" })
	}
	says((fmt.Sprint(row["k"]) == "0") != (row["tEnd"] == nil) && row["tEnd"] == nil, "a window and no end of it")
	says((row["lagSeconds"] == nil) != (row["completeThrough"] == nil), "lag without what it is counted from")
	says(state == stateHeld && row["heldBy"] == nil, "held by nobody")
	says(slices.Contains([]string{stateFilling, stateIntent, stateUpload, stateCommit, stateRestoring}, state) && (row["ownedHere"] != true || row["heldBy"] != nil), "runs and is not owned")
	if slices.Contains([]string{stateHeld, stateMissing, stateFenced, stateDrained, stateReleased}, state) {
		gone := row["completeThrough"] == nil && row["safeTime"] == nil && row["lagSeconds"] == nil && row["redo"] == false
		says(!gone || !zero("bufferedBytes", "partitions"), "does not run here, and has figures of a queue that does")
		says(row["ownedHere"] != false, "does not run here and is owned")
	}
	if e := row["lastError"]; e != nil {
		checkShape(t, "lastError", shape{"at": "stamp", "message": "text"}, e)
	}
	says(slices.Contains([]string{stateFailed, stateCrashed, stateFenced}, state) && row["lastError"] == nil, "stopped without a reason")
}
