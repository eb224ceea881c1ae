package measure

import (
	"slices"
	"strings"
	"testing"
)

func TestField(t *testing.T) {
	const line = "2026-01-02T03:04:05.000Z INFO queen-s3: window committed queue=backlog k=3 records=12345 bytes=99 t_end=x lag_seconds=1.5 lost=0"
	for key, want := range map[string]int64{"k": 3, "records": 12345, "bytes": 99, "lost": 0} {
		if got, ok := field(line, key); !ok || got != want {
			t.Errorf("%s is %d, %v", key, got, ok)
		}
	}
	for _, key := range []string{"ecords", "queue", "lag_seconds", "none"} {
		if got, ok := field(line, key); ok {
			t.Errorf("%s is %d", key, got)
		}
	}
}

func TestSettings(t *testing.T) {
	s := sinkOn(&store{url: "http://h:1"}, "x")
	changed := with(s, "QUEEN_S3_SINK", "y", "QUEEN_S3_TARGET_MB", "5")
	if s["QUEEN_S3_SINK"] != "x" || changed["QUEEN_S3_SINK"] != "y" || changed["QUEEN_S3_START"] != "earliest" {
		t.Errorf("%v %v", s, changed)
	}
	text := shown(changed)
	if !strings.HasSuffix(text, " QUEEN_S3_TARGET_MB=5 queen") || strings.Contains(text, "SECRET") || strings.Contains(text, "ENDPOINT") {
		t.Error(text)
	}
}

// What a broker of the caller's environment is told must not reach the one that is measured.
func TestEnviron(t *testing.T) {
	t.Setenv("QUEEN_S3_TARGET_MB", "1")
	t.Setenv("PORT", "1")
	t.Setenv("GOGC", "5")
	t.Setenv("GOMEMLIMIT", "1GiB")
	t.Setenv("SOMETHING", "else")
	got := environ(map[string]string{"QUEEN_RAFT_DIR": "d"})
	if slices.Contains(got, "QUEEN_S3_TARGET_MB=1") || slices.Contains(got, "PORT=1") || slices.Contains(got, "GOGC=5") || slices.Contains(got, "GOMEMLIMIT=1GiB") || !slices.Contains(got, "SOMETHING=else") ||
		!slices.Contains(got, "QUEEN_RAFT_DIR=d") {
		t.Errorf("%v", got)
	}
}

func TestTargets(t *testing.T) {
	for perAppend, want := range map[int]float64{1: 0.85, 9: 0.85, 10: 0.92, 99: 0.92, 100: 0.95, 1000: 0.95} {
		if got := backfillTarget("jsonl", perAppend); got != want {
			t.Errorf("appends of %d: %v", perAppend, got)
		}
	}
	for perAppend, want := range map[int]float64{1: 0.80, 9: 0.80, 10: 0.85, 99: 0.85, 100: 0.90} {
		if got := backfillTarget("parquet", perAppend); got != want {
			t.Errorf("Parquet, appends of %d: %v", perAppend, got)
		}
	}
}
