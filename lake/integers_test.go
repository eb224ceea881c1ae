package lake

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// beyond is a whole number that no float64 holds.
const beyond = 1<<53 + 1

// What `queen lake` prints is exact: an offset and a payload by cat, from lines and from Parquet; counts and bytes by ls and stats; and verify tells an offset above 2^53 from its neighbour.
func TestP60NoIntegerIsRounded(t *testing.T) {
	record := func(offset int64) string {
		return fmt.Sprintf(`{"partition":"p","offset":%d,"transactionId":"x","ts":"2026-10-03T06:37:37.501942Z","payload":{"n":%d}}`+"\n", offset, beyond)
	}
	lines := func(text string, lost int64) mem {
		m := mem{key1: packZstd(t, text)}
		m[sides+"0000000001.json"] = []byte(manifest(1, "1791007200000000", "1791009458377855", "zstd", key1, m[key1], strings.Count(text, "\n"), 1, "1791009457501942", "1791009457501942",
			fmt.Sprintf(`{"partition":"p","from":%d,"to":%d}`, lost, lost)))
		return m
	}
	if _, faults := verify(t, lines(record(beyond)+record(beyond+2), beyond+1), Options{}); len(faults) > 0 {
		t.Errorf("nothing is missing, and: %q", faults)
	}
	if _, faults := verify(t, lines(record(beyond)+record(beyond+2), beyond), Options{}); len(faults) != 1 || !strings.Contains(faults[0], fmt.Sprintf("%d to %d are neither", beyond+1, beyond+1)) {
		t.Errorf("%d is nowhere, and: %q", beyond+1, faults)
	}
	line := record(beyond)
	m := lines(line, beyond-1)
	side := sides + "0000000001.json"
	parquet := parquetLake(t, "zstd", packParquet(t, "zstd", "orders", []Row{{Partition: "p", Offset: beyond, TxID: "x", TS: 1791009457501942, Payload: fmt.Appendf(nil, `{"n":%d}`, beyond)}}))
	parquet[side] = []byte(strings.NewReplacer(`"records":4`, `"records":1`, `"partitions":3`, `"partitions":1`, `"maxTs":1791009457501943`, `"maxTs":1791009457501942`).Replace(string(parquet[side])))
	for format, store := range map[string]mem{"jsonl": m, "parquet": parquet} {
		var out strings.Builder
		if _, err := Cat(t.Context(), store, Options{Prefix: "queen"}, &out); err != nil || out.String() != line {
			t.Errorf("%s: cat: %v, got\n%swant\n%s", format, err, out.String(), line)
		}
	}
	large := mem{side: []byte(strings.NewReplacer(`"records":1,`, fmt.Sprintf(`"records":%d,`, beyond), fmt.Sprintf(`"bytes":%d,`, len(m[key1])), fmt.Sprintf(`"bytes":%d,`, beyond+2)).Replace(string(m[side])))}
	var ls, stats strings.Builder
	if _, err := List(t.Context(), large, Options{Prefix: "queen"}, &ls); err != nil || !strings.Contains(ls.String(), fmt.Sprintf("%d records  %d bytes", beyond, beyond+2)) {
		t.Errorf("ls: %v %s", err, ls.String())
	}
	want := fmt.Sprintf(" 1 0 %d %d 1 ", beyond, beyond+2)
	if _, err := Stats(t.Context(), large, Options{Prefix: "queen"}, time.UnixMicro(1791010801000000), &stats); err != nil || !strings.Contains(strings.Join(strings.Fields(stats.String()), " "), want) {
		t.Errorf("stats: want %s: %v %s", want, err, stats.String())
	}
}
