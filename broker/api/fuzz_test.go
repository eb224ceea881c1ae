package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"queen/broker/command"
	"queen/broker/state"
	"queen/internal/hostile"
	"queen/stages"
)

// refusedWell: a refusal of a body is a 4xx, and the place it names lies in the body.
func refusedWell(t *testing.T, body []byte, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Status < 400 || e.Status > 499 || e.Text == "" || !utf8.ValidString(e.Text) {
		t.Fatalf("%q: %v", body, err)
	}
	if m := regexp.MustCompile(` at byte (\d+)$`).FindStringSubmatch(e.Text); m != nil {
		if n, err := strconv.Atoi(m[1]); err != nil || n > len(body) {
			t.Fatalf("%q: %s", body, e.Text)
		}
	}
}

// isJSON says what the standard library does of a body. Our limit of 10,000 levels is that of a value in the body, its limit that of the whole.
func isJSON(body []byte) bool {
	const levels = 10_000
	return utf8.Valid(body) && (json.Valid(body) || bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) > levels)
}

// plainEntries are what encoding/json makes of the entries of a read, where it can be compared with: names of members apart from their case
// are one to it, and so are a raw and an escaped one.
func plainEntries(body []byte) []struct{ Queue string } {
	var ref struct {
		Entries []struct{ Queue string }
	}
	lower := strings.ToLower(string(body))
	if lower != string(body) || strings.Contains(lower, `\`) || strings.Count(lower, `"entries"`) != 1 || json.Unmarshal(body, &ref) != nil ||
		strings.Count(lower, `"queue"`) != len(ref.Entries) {
		return nil
	}
	return ref.Entries
}

// FuzzReads: the bodies of fetch, fetch/offsets and partitions/changed. What is accepted is JSON and UTF-8, has as many entries with the same
// queues as encoding/json says, within the limits; what is refused has a 4xx and a place in the body. Parsing allocates a bounded
// multiple of the body.
func FuzzReads(f *testing.F) {
	for kind, bodies := range [][]string{
		{`{"entries":[{"queue":"q","partition":7,"offset":3,"maxBytes":0}],"maxWaitMs":99999999999999999999,"minBytes":-1}`, `{"entries":[{"queue":"q","offset":-1}]}`},
		{`{"entries":[{"queue":"q","timestamp":"2026-10-03T06:37:37.5019421+02:00"},{"queue":"q","timestamp":-1}]}`, `{"entries":[{"queue":"q","timestamp":1e3}]}`},
		{`{"entries":[{"queue":"q","since":"2026-10-03","after":"p|18446744073709551616","limit":0}]}`, `{"entries":[{"queue":"\ud800"}],"entries":[]}`},
	} {
		for _, body := range bodies {
			f.Add(byte(kind), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		var queues []string
		var err error
		hostile.Bounded(t, len(body), 256, func() { queues, err = parseRead(kind, body) })
		if err != nil {
			refusedWell(t, body, err)
			return
		}
		if !isJSON(body) || len(queues) > maxFetchEntries {
			t.Fatalf("accepted %q", body)
		}
		for i, e := range plainEntries(body) {
			if len(queues) <= i || queues[i] != e.Queue {
				t.Fatalf("%q: queues %q, encoding/json says %q", body, queues, e.Queue)
			}
		}
	})
}

func parseRead(kind byte, body []byte) (queues []string, err error) {
	switch kind % 3 {
	case 0:
		f, err := parseFetch(body)
		if err != nil {
			return nil, err
		}
		for _, e := range f.entries {
			if e.offset < 0 || e.maxBytes < 1 || e.maxBytes > maxMaxBytes || e.partition == "" || f.waitMs < 0 || f.waitMs > maxWaitMillis {
				return nil, fmt.Errorf("accepted with %+v of %+v", e, f)
			}
			queues = append(queues, e.queue)
		}
	case 1:
		entries, err := parseOffsets(body)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			queues = append(queues, e.queue)
		}
	case 2:
		entries, err := parseChanged(body)
		if err != nil {
			return nil, err
		}
		for i := range entries {
			entries[i].readCursor()
			queues = append(queues, entries[i].queue)
		}
	}
	return queues, nil
}

// FuzzConfigure: what is accepted is JSON and UTF-8, names a queue, and goes through the log unchanged with options that the state takes;
// what is refused has a 4xx and a place in the body.
func FuzzConfigure(f *testing.F) {
	for _, body := range []string{
		`{"queue":"q"}`, `{"queue":"shop.orders","namespace":null,"task":"t","mode":"replace","options":{"leaseTime":60,"retentionSinkHold":"lake","encryptionEnabled":false}}`,
		`{"queue":"q","maxQueueSize":9,"maxSize":null,"minPopWaitTime":-1}`, `{"queue":"q","options":{"namespace":null,"leaseTime":1e3}}`,
		`{"queue":"q","options":[]}`, `{"\u0071ueue":"\ud83d\ude00","options":{"ttl":9223372036854775808}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var cmd *command.Configure
		var err error
		hostile.Bounded(t, len(body), 512, func() { cmd, err = parseConfigure(body) })
		if err != nil {
			refusedWell(t, body, err)
			return
		}
		if !isJSON(body) || cmd.Queue == "" || !utf8.ValidString(cmd.Queue) {
			t.Fatalf("accepted %q as %+v", body, cmd)
		}
		encoded := cmd.Append(nil)
		back, err := command.DecodeConfigure(encoded)
		if err != nil || string(back.Append(nil)) != string(encoded) {
			t.Fatalf("%q became %+v, which is read back as %+v, %v", body, cmd, back, err)
		}
		specs := state.OptionSpecs()
		for _, o := range back.Options {
			if err := specs[o.Number-1].Check(o); err != nil {
				t.Fatalf("%q: the state refuses %+v: %v", body, o, err)
			}
		}
	})
}

// FuzzPaths: a name that is escaped as a client, or the lake, escapes it reaches the handler as it is, whatever it holds, and only as one
// segment; a path as it comes leads to one route or none, and its segments are decoded as the standard library does.
func FuzzPaths(f *testing.F) {
	for _, s := range [][2]string{
		{"a/b", "/api/v1/kv/ns/a%2Fb//c/"}, {"..", "/api/v1/kv/../.."}, {"50%", "/api/v1/kv/n/%zz"}, {"ключ+ ", "/%61pi/v1/push"},
		{"a%20b", "//api/v1/push"}, {"\x00?#", "/api/v1/resources/queues/%ff"}, {"", "/api/v1/resources/queues//"},
	} {
		f.Add(s[0], s[1])
	}
	routes := compile(Routes())
	const prefix = "/api/v1/resources/queues/"
	f.Fuzz(func(t *testing.T, name, path string) {
		for _, escaped := range []string{stages.Esc(name), url.PathEscape(name)} {
			route, params, _ := find(routes, "GET", prefix+escaped)
			if name == "" {
				continue
			}
			if route == nil || len(params) != 1 {
				t.Fatalf("%q, escaped %q, leads to no route: %q", name, escaped, params)
			}
			got, err := decode(params)
			if (err == nil) != utf8.ValidString(name) || err == nil && got[0] != name {
				t.Fatalf("%q, escaped %q, arrives as %q, %v", name, escaped, got, err)
			}
		}
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			route, params, allow := find(routes, method, path)
			if route != nil && len(allow) > 0 || route == nil && len(params) > 0 {
				t.Fatalf("%s %q: %v and %v %v", method, path, route, params, allow)
			}
			raw := append([]string{}, params...)
			decoded, err := decode(params)
			for i := range raw {
				want, werr := url.PathUnescape(raw[i])
				if err == nil && (werr != nil || decoded[i] != want || !utf8.ValidString(want)) {
					t.Fatalf("%s %q: segment %q became %q", method, path, raw[i], decoded[i])
				}
			}
		}
	})
}
