package lake

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"queen/stages"
)

// kind is what a key says its object is.
type kind uint8

const (
	unknownKey kind = iota
	dataKey
	manifestKey
	checkpointKey
)

// parsed is a key taken apart.
type parsed struct {
	kind          kind
	tenant, queue string // as in the key, percent-encoded
	k             uint64
	start, end    stages.Micros // data
	part          string        // data, per-partition: what stands between -p- and .ext; "" when merged
	ext           string        // data
	hour          bool          // data: the path has hour=
	day           string        // data: YYYY-MM-DD, with /HH when hour is set
}

// Names are compared encoded; the patterns hold the whole alphabet of keys (docs/formats.md 7.1).
var (
	name         = `((?:[A-Za-z0-9._-]|%[0-9A-F]{2})+)`
	dataPattern  = regexp.MustCompile(`^tenant=` + name + `/queue=` + name + `/dt=(\d{4}-\d\d-\d\d)(?:/hour=(\d\d))?/w-(\d{10,20})-(\d{16})-(\d{16})(?:-p-([A-Za-z0-9._%-]*(?:~[0-9a-f]{16})?-\d{12,19}-\d{12,19}))?\.(jsonl|jsonl\.gz|jsonl\.zst|parquet)$`)
	sidePattern  = regexp.MustCompile(`^_queen/tenant=` + name + `/queue=` + name + `/windows/(\d{10,20})\.json$`)
	pointPattern = regexp.MustCompile(`^_queen/tenant=` + name + `/queue=` + name + `/checkpoint/(\d{10,20})\.json\.zst$`)
)

// parseKey reads a key below prefix (which ends in a slash). What is none of ours is of kind unknownKey; so is a name that is spelled in
// another way than ours, such as %41 for A: it would be a second queue of one name.
func parseKey(prefix, key string) parsed {
	p := split(strings.TrimPrefix(key, prefix))
	if stages.Esc(unescapeName(p.tenant)) != p.tenant || stages.Esc(unescapeName(p.queue)) != p.queue {
		return parsed{}
	}
	return p
}

// split takes a key without its prefix apart.
func split(rest string) parsed {
	if m := dataPattern.FindStringSubmatch(rest); m != nil {
		p := parsed{kind: dataKey, tenant: m[1], queue: m[2], day: m[3], hour: m[4] != "", part: m[8], ext: m[9]}
		if p.hour {
			p.day += "/" + m[4]
		}
		k, err := strconv.ParseUint(m[5], 10, 64)
		if err != nil {
			return parsed{} // more than any window has
		}
		p.k, p.start, p.end = k, micros(m[6]), micros(m[7])
		return p
	}
	if m := sidePattern.FindStringSubmatch(rest); m != nil {
		k, err := strconv.ParseUint(m[3], 10, 64)
		if err != nil {
			return parsed{}
		}
		return parsed{kind: manifestKey, tenant: m[1], queue: m[2], k: k}
	}
	if m := pointPattern.FindStringSubmatch(rest); m != nil {
		k, err := strconv.ParseUint(m[3], 10, 64)
		if err != nil {
			return parsed{}
		}
		return parsed{kind: checkpointKey, tenant: m[1], queue: m[2], k: k}
	}
	return parsed{}
}

// partOf is how a key names the object of a partition, after -p- (docs/formats.md 7.1).
func partOf(partition string, first, last int64) string {
	name := stages.Esc(partition)
	if len(name) > 120 {
		sum := sha256.Sum256([]byte(name))
		name = fmt.Sprintf("%s~%x", name[:100], sum[:8])
	}
	return fmt.Sprintf("%s-%012d-%012d", name, first, last)
}

func micros(digits string) stages.Micros {
	n, _ := strconv.ParseInt(digits, 10, 64)
	return stages.Micros(n)
}

// dayOf is what dt= and hour= of a window that starts at t must be.
func dayOf(t stages.Micros, hour bool) string {
	at := time.UnixMicro(int64(max(t, 0))).UTC()
	if hour {
		return at.Format("2006-01-02/15")
	}
	return at.Format("2006-01-02")
}

// dayEnd is where the hour or day of t ends.
func dayEnd(t stages.Micros, hour bool) stages.Micros {
	unit := stages.Micros(24 * time.Hour / time.Microsecond)
	if hour {
		unit = stages.Micros(time.Hour / time.Microsecond)
	}
	return t - t%unit + unit
}

// unescapeName undoes stages.Esc; the patterns above let nothing else through.
func unescapeName(text string) string {
	plain, err := url.PathUnescape(text)
	if err != nil {
		return text
	}
	return plain
}

const isoLayout = "2006-01-02T15:04:05.000000Z"

// iso renders a stamp as the lake does.
func iso(t stages.Micros) string { return time.UnixMicro(int64(t)).UTC().Format(isoLayout) }

// parseISO reads exactly the 27 bytes of a stamp.
func parseISO(text string) (stages.Micros, error) {
	at, err := time.Parse(isoLayout, text)
	if err != nil || at.Format(isoLayout) != text {
		return 0, fmt.Errorf("%q is not a stamp YYYY-MM-DDTHH:MM:SS.ffffffZ", text)
	}
	return stages.Micros(at.UnixMicro()), nil
}
