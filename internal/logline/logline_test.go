package logline

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func clock() time.Time {
	return time.Date(2026, 10, 3, 8, 37, 44, 741_900_000, time.FixedZone("", 7200))
}

func TestText(t *testing.T) {
	var out bytes.Buffer
	log := New(&out, false, clock)
	sink := Named(log, "queen-s3")
	sink.Info().Str("queue", "orders").Int("k", 1).Int64("records", 3).Float64("lag_seconds", 6.25).Bool("redo", false).Msg("window committed")
	sink.Warn().Str("queue", "a b").Str("why", `say "x"=1`).Str("empty", "").Msg("queue fenced")
	boot := Named(log, "boot")
	boot.Error().Msg("FATAL: QUEEN_S3_EMBEDDED=true: no")
	log.Info().Strs("list", []string{"a", "b"}).Err(errors.New("x\ny")).Msg("two\nlines")
	log.Info().Str("zählwerk", "größe").Msg("naïve")
	want := `2026-10-03T06:37:44.741Z INFO queen-s3: window committed queue=orders k=1 records=3 lag_seconds=6.25 redo=false
2026-10-03T06:37:44.741Z WARN queen-s3: queue fenced queue="a b" why="say \"x\"=1" empty=""
2026-10-03T06:37:44.741Z ERROR boot: FATAL: QUEEN_S3_EMBEDDED=true: no
2026-10-03T06:37:44.741Z INFO two\nlines list=["a","b"] error="x\ny"
2026-10-03T06:37:44.741Z INFO naïve zählwerk=größe
`
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	sink := Named(New(&out, true, clock), "queen-s3")
	sink.Info().Int("k", 7).Msg("window committed")
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"level": "info", "component": "queen-s3", "k": 7.0, "message": "window committed", "time": "2026-10-03T06:37:44.741Z"}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %v", key, got[key])
		}
	}
}

func TestNotAnEvent(t *testing.T) {
	var out bytes.Buffer
	w := &writer{to: &out}
	if _, err := w.Write([]byte("plain text\n")); err != nil || out.String() != "plain text\n" {
		t.Errorf("%q %v", out.String(), err)
	}
}

func FuzzOneLine(f *testing.F) {
	f.Add("queue", "orders", "message")
	f.Add("a\nb", "\xff", "\r\n")
	f.Fuzz(func(t *testing.T, key, val, msg string) {
		var out bytes.Buffer
		log := New(&out, false, clock)
		log.Info().Str("k", val).Str("q", key).Msg(msg)
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "\n") {
			t.Fatalf("not one line: %q", got)
		}
	})
}
