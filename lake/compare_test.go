package lake

import (
	"context"
	"strings"
	"testing"

	"queen/stages"
)

// longLog is a log with partitions of the same length. It counts the records that it gives out.
type longLog struct {
	rows  int64
	given int64
	pages int
}

const longPayload = 100

func (l *longLog) Partitions(context.Context, string) ([]string, bool, error) { return nil, true, nil }
func (l *longLog) Born(context.Context, string) (stages.Micros, error)        { return stages.Beginning, nil }
func (l *longLog) Fetch(_ context.Context, _, partition string, offset, most int64) (page []Row, low, high int64, err error) {
	for size := int64(0); offset < l.rows && (size == 0 || size+longPayload <= most); offset++ {
		page = append(page, longRow(partition, offset))
		size += longPayload
	}
	l.given += int64(len(page))
	l.pages++
	return page, 0, l.rows, nil
}

func longRow(partition string, offset int64) Row {
	return Row{Partition: partition, Offset: offset, Payload: []byte(strings.Repeat("1", longPayload))}
}

// TestCompareReadsInProportion: many small windows over long partitions, and few large ones, cost about as many reads and records of the log as the
// lake has, not its windows times its length.
func TestCompareReadsInProportion(t *testing.T) {
	const partitions = 4
	for _, c := range []struct{ windows, each int64 }{{500, 100}, {2, 25_000}} {
		log := &longLog{rows: c.windows * c.each}
		cmp := &comparison{log: log, queue: "q"}
		a := &audit{}
		r := &reader{audit: a, manifest: &Manifest{Format: "jsonl"}, limit: 10}
		for w := range c.windows {
			for p := range partitions {
				for i := range c.each {
					if err := cmp.row(t.Context(), r, i, longRow(string(rune('a'+p)), w*c.each+i)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		all := partitions * log.rows
		if a.summary.Compared != all || r.limit != 10 {
			t.Errorf("%d of %d records compared, room for %d faults", a.summary.Compared, all, r.limit)
		}
		if visits := int(c.windows) * partitions; log.given > 6*all || log.pages > 8*visits {
			t.Errorf("%d windows of %d: %d records read for %d, %d pages for %d visits", c.windows, c.each, log.given, all, log.pages, visits)
		}
	}
}
