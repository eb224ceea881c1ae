package sink

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"queen/internal/exposition"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

func statusText(t *testing.T, s *Sink) string {
	t.Helper()
	text, err := json.MarshalIndent(s.Status(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

func metricsText(t *testing.T, s *Sink) string {
	t.Helper()
	return gathered(t, s.Registry())
}

// gathered is a scrape.
func gathered(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	var b strings.Builder
	if err := exposition.Write(&b, []prometheus.Gatherer{g}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
