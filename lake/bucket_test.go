package lake

import (
	"strings"
	"testing"

	"queen/internal/fakes3"
	"queen/upload"
)

// bucket serves a lake by a fake store, which first answers by these rules.
func bucket(t *testing.T, m mem, rules ...fakes3.Rule) Bucket {
	t.Helper()
	server := fakes3.New(fakes3.Options{Bucket: "lake", Secret: "s"})
	t.Cleanup(server.Close)
	for key, data := range m {
		server.Put(key, data)
	}
	server.Script(rules...)
	client, err := upload.New(upload.ClientOptions{Endpoint: server.Endpoint(), Region: "us-east-1", Bucket: "lake", AccessKey: "k", SecretKey: "s",
		PathStyle: true, Dial: server.Dial, Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return Bucket{client}
}

func TestBucket(t *testing.T) {
	m := whole(t)
	s, faults := verify(t, bucket(t, m), Options{})
	if len(faults) > 0 || s.Records != 7 || s.Windows != 3 {
		t.Errorf("%s %q", s, faults)
	}
	delete(m, key2)
	if _, faults := verify(t, bucket(t, m), Options{}); len(faults) != 1 || !strings.Contains(faults[0], "is not there") {
		t.Errorf("%q", faults)
	}
}

// A store that does not answer is an error, never a fault of the lake, and never a clean lake.
func TestBucketRefuses(t *testing.T) {
	for name, rule := range map[string]fakes3.Rule{
		"no bucket":       {Op: "list", Status: 404, Code: "NoSuchBucket"},
		"not allowed":     {Op: "list", Status: 403, Code: "AccessDenied"},
		"manifest denied": {Op: "get", Key: "0000000002.json", Status: 403, Code: "AccessDenied"},
		"object denied":   {Op: "get", Key: "*.jsonl.gz", Status: 403, Code: "AccessDenied"},
	} {
		_, err := Verify(t.Context(), bucket(t, whole(t), rule), Options{Prefix: "queen"}, func(f Fault) { t.Log(f) })
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
