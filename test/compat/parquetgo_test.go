package compat

import (
	"errors"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
)

// goRow is a record as parquet-go reads it, a library that shares no code with the writer's.
type goRow struct {
	Partition string    `parquet:"partition"`
	Offset    int64     `parquet:"offset"`
	TxID      string    `parquet:"transaction_id"`
	TS        time.Time `parquet:"ts,timestamp(microsecond)"`
	Payload   *string   `parquet:"payload,optional"`
}

// readGo reads every object of a lake of Parquet files with parquet-go and compares all cells with what they must hold.
func readGo(t *testing.T, lake string, want map[string][]row) {
	t.Helper()
	for _, queue := range slices.Sorted(maps.Keys(want)) {
		names, err := filepath.Glob(filepath.Join(lake, "queen", "tenant=*", "queue=*", "dt=*", "hour=*", "*.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		var got []row
		for _, name := range names {
			if strings.Contains(name, "/queue="+strings.ReplaceAll(url.PathEscape(queue), "+", "%2B")+"/") {
				got = append(got, readGoFile(t, name, queue)...)
			}
		}
		if sorted(got); len(got) != len(want[queue]) {
			t.Fatalf("parquet-go reads %d records of %q, %d were pushed", len(got), queue, len(want[queue]))
		}
		all := slices.Clone(want[queue])
		for i, w := range sorted(all) {
			if got[i] != w {
				t.Errorf("parquet-go reads %.300v of %q, not %.300v", got[i], queue, w)
			}
		}
	}
}

func sorted(rows []row) []row {
	slices.SortFunc(rows, func(a, b row) int {
		if c := strings.Compare(a.Partition, b.Partition); c != 0 {
			return c
		}
		return int(a.Offset - b.Offset)
	})
	return rows
}

func readGoFile(t *testing.T, name, queue string) (out []row) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	opened, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	m := opened.Metadata()
	if m.CreatedBy != "queen-s3" || m.Version != 1 || len(m.KeyValueMetadata) != 3 || m.KeyValueMetadata[0].Key != "queen.envelope" ||
		m.KeyValueMetadata[1].Value != queue || m.KeyValueMetadata[2].Key != "queen.tenant" {
		t.Errorf("%s: created by %q, version %d, pairs %v", name, m.CreatedBy, m.Version, m.KeyValueMetadata)
	}
	// parquet-go names the type of every plain integer.
	const schema = `message queen_record {
	required binary partition (STRING);
	required int64 offset (INT(64,true));
	required binary transaction_id (STRING);
	required int64 ts (TIMESTAMP(isAdjustedToUTC=true,unit=MICROS));
	optional binary payload (STRING);
}`
	if got := opened.Schema().String(); got != schema {
		t.Errorf("%s: schema\n%s", name, got)
	}
	r := parquet.NewGenericReader[goRow](f)
	defer r.Close()
	for batch := make([]goRow, 100); ; {
		n, err := r.Read(batch)
		for _, g := range batch[:n] {
			if g.Payload == nil {
				t.Errorf("%s: %q %d is NULL", name, g.Partition, g.Offset)
				continue
			}
			out = append(out, row{g.Partition, g.Offset, g.TxID, g.TS.UTC().Format("2006-01-02T15:04:05.000000Z"), *g.Payload})
		}
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}
