//go:build store

package upload

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// realStore is a client of a store that runs: its address and keys are in the environment. test/e2e starts one and runs this file's tests.
func realStore(t *testing.T, change func(*ClientOptions)) *Client {
	t.Helper()
	o := ClientOptions{Endpoint: os.Getenv("STORE_ENDPOINT"), Region: "us-east-1", Bucket: os.Getenv("STORE_BUCKET"), AccessKey: os.Getenv("STORE_ACCESS_KEY"),
		SecretKey: Secret(os.Getenv("STORE_SECRET_KEY")), PathStyle: true, Attempts: 1}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// hostileKeys are as hostile as a prefix and an escaped name can be, and more.
func hostileKeys() []string {
	return []string{"plain", "a b", "a+b", "a%20b", "a%2Fb", "50%", "a=b", "a:b", "a~b", "a&b=c;d", "a,b", "a@b$c", "!*'()", "a#b?c", `a"b<c>d`, "a|b^c`d",
		"{json}", "[0]", "ключ", "注文", "🛒", "e\u0301", "\u00e9", "é%C3%A9", "..a", "a..", "...", "queue=..", "tenant=../x", "tenant=x/queue=_queen/w",
		strings.Repeat("s", 255), strings.Repeat("d/", 400) + "k"}
}

// P14: each key is signed as it is sent and comes back as itself: by PUT, GET, HEAD and in a listing, in the order of bytes.
func TestP14RealStoreTakesEveryKey(t *testing.T) {
	c := realStore(t, nil)
	prefix := "names/"
	for i, key := range hostileKeys() {
		data := []byte(strings.Repeat(key, i+1))
		if err := c.Put(t.Context(), prefix+key, "text/plain", data); err != nil {
			t.Errorf("%q: %v", key, err)
			continue
		}
		got, found, err := c.Get(t.Context(), prefix+key, 1<<20)
		if err != nil || !found || !bytes.Equal(got, data) {
			t.Errorf("%q: %d bytes, found %v, %v", key, len(got), found, err)
		}
		if size, found, err := c.Head(t.Context(), prefix+key); err != nil || !found || size != int64(len(data)) {
			t.Errorf("%q: HEAD %d %v %v", key, size, found, err)
		}
	}
	var listed, want []string
	for o, err := range c.List(t.Context(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, o.Key)
	}
	for _, key := range hostileKeys() {
		want = append(want, prefix+key)
	}
	slices.Sort(want)
	slices.Sort(listed)
	if !slices.Equal(listed, want) {
		t.Errorf("listed %.2000q, want %.2000q", listed, want)
	}
}

// Keys that no setting and no name leads to, because stores resolve them: the signature fits all the same, so what they answer is about the key.
func TestRealStoreAndResolvedKeys(t *testing.T) {
	c := realStore(t, nil)
	for _, key := range []string{"x/../y", "x//y", "./z", "..", "a/./b", "/lead"} {
		err := c.Put(t.Context(), key, "text/plain", []byte("x"))
		if e, ok := errors.AsType[*Error](err); ok && (e.Code == "SignatureDoesNotMatch" || e.Status == 0 || e.Status == 403) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// B8: what is wrong is said in words by a store that runs, too.
func TestRealStoreFaultsAreSaid(t *testing.T) {
	for words, change := range map[string]func(*ClientOptions){
		"there is no bucket \"other\"":          func(o *ClientOptions) { o.Bucket = "other" },
		"the secret key is wrong":               func(o *ClientOptions) { o.SecretKey = "wrong" },
		"the store does not know this access":   func(o *ClientOptions) { o.AccessKey = "nobody" },
		"the bucket is not in region eu-west-9": func(o *ClientOptions) { o.Region = "eu-west-9" },
		"can be reached from here":              func(o *ClientOptions) { o.Endpoint = "http://127.0.0.1:1" },
	} {
		c := realStore(t, change)
		if err := c.Put(t.Context(), "k", "text/plain", []byte("x")); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("put: %v, want %q", err, words)
		}
		if err := c.Probe(t.Context(), "queen"); err == nil {
			t.Errorf("the probe is content, want %q", words)
		} else if !strings.Contains(err.Error(), words) {
			t.Errorf("probe: %v, want %q", err, words)
		}
	}
	long := realStore(t, nil)
	if err := long.Put(t.Context(), strings.Repeat("s", 256), "text/plain", []byte("x")); err == nil || !strings.Contains(err.Error(), "use a shorter prefix or queue name") {
		t.Errorf("a long segment: %v", err)
	}
	if err := long.Probe(t.Context(), "queen"); err != nil {
		t.Errorf("probe: %v", err)
	}
}

// A window in parts, with each encryption setting; what is completed twice, given up, or not there.
func TestRealStoreWindows(t *testing.T) {
	for i, sse := range []string{"", "AES256", "aws:kms"} {
		c := realStore(t, func(o *ClientOptions) { o.SSE, o.Attempts = sse, 6 })
		job := testJob()
		job.Intent.Prefix = "windows" + string(rune('a'+i))
		data := pattern(23 << 20)
		s := NewStage(StageOptions{Client: c, Sink: "default", Tenant: testTenant, Threshold: 5 << 20, Part: MinPart, Describe: describe})
		for range 2 { // the second time over the first
			up, err := send(t.Context(), s, job, data)
			if err != nil || up == nil {
				t.Fatalf("sse %q: %v", sse, err)
			}
		}
		key, err := DataKey(job.Intent, Names{Tenant: testTenant, Queue: "orders", Ext: "jsonl.zst"})
		if err != nil {
			t.Fatal(err)
		}
		if got, found, err := c.Get(t.Context(), key, 64<<20); err != nil || !found || !bytes.Equal(got, data) {
			t.Errorf("sse %q: %d bytes, %v, %v", sse, len(got), found, err)
		}
		id, err := c.create(t.Context(), key, "text/plain")
		if err != nil {
			t.Fatal(err)
		}
		c.tryAbort(t.Context(), key, id)
		_, err = c.part(t.Context(), key, id, 1, [][]byte{[]byte("x")}, sha([]byte("x")))
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != "NoSuchUpload" {
			t.Errorf("a part of an upload that was given up: %v", err)
		}
		if _, found, err := c.Get(t.Context(), "not-there", 10); found || err != nil {
			t.Errorf("absent: %v %v", found, err)
		}
	}
}
