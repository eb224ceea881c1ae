package upload

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"queen/internal/fakes3"
	"queen/stages"
)

const sentenceKey = "queen/k"

var update = flag.Bool("update", false, "write testdata/sentences.golden")

// TestSentences holds every sentence of this package that a person can see: in a row's lastError, in bucket.error, in a log line or from `queen
// lake`. testdata/sentences.golden is to be read as its readers do, at night; a literal of the source that is in no sentence fails the test.
func TestSentences(t *testing.T) {
	var b strings.Builder
	section := func(title string, lines []string) {
		fmt.Fprintf(&b, "# %s\n", title)
		for _, line := range lines {
			line = strings.ReplaceAll(line, "io: read/write on closed pipe", "unexpected EOF") // which of the two ends closed first
			fmt.Fprintf(&b, "%s\n", ports.ReplaceAllString(line, "127.0.0.1:PORT"))
		}
		b.WriteString("\n")
	}
	section("what a store says", saidByStores(t))
	section("answers that are none", brokenAnswers(t))
	section("no answer", silences(t))
	section("credentials", missingKeys(t))
	section("windows, names and manifests", ownWords(t))
	section("options", optionWords())
	got := b.String()
	const name = "testdata/sentences.golden"
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the sentences are not those of %s; look at the difference after -update:\n%s", name, got)
	}
	if strings.Contains(got, testSecret) || strings.Contains(got, "operation error S3") {
		t.Error("a sentence holds the secret, or the SDK's words")
	}
	complete(t, got)
}

var ports = regexp.MustCompile(`127\.0\.0\.1:\d+(->127\.0\.0\.1:\d+)?`)

// saidByStores are refusals with a document.
func saidByStores(t *testing.T) []string {
	var out []string
	id := http.Header{"X-Amz-Request-Id": {"4442587FB7D0A2F9"}}
	with := func(name, value string) http.Header {
		return http.Header{name: {value}, "X-Amz-Request-Id": {"4442587FB7D0A2F9"}}
	}
	synctest.Test(t, func(t *testing.T) {
		date := func(ahead time.Duration) string { return time.Now().Add(ahead).UTC().Format(http.TimeFormat) }
		for _, r := range []fakes3.Rule{
			{Status: 301, Code: "PermanentRedirect", Body: "The bucket you are attempting to access must be addressed using the specified endpoint.", Header: with("X-Amz-Bucket-Region", "eu-west-1")},
			{Status: 307, Code: "TemporaryRedirect", Body: "Please re-send this request to the specified temporary endpoint.", Header: id},
			{Status: 400, Code: "AuthorizationHeaderMalformed", Body: "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-west-1'", Header: id},
			{Status: 400, Code: "BadDigest", Body: "The Content-MD5 you specified did not match what we received.", Header: id},
			{Status: 400, Code: "ExpiredToken", Body: "The provided token has expired.", Header: id},
			{Status: 400, Code: "InvalidRequest", Body: "Missing required header for this request: x-amz-object-lock-mode", Header: id},
			{Status: 400, Code: "KeyTooLongError", Body: "Your key is too long", Header: id},
			{Status: 403, Code: "AccessDenied", Body: "Access Denied", Header: id},
			{Status: 403, Code: "AccessDenied", Body: "User is not authorized to perform: kms:GenerateDataKey on this resource", Header: id},
			{Status: 403, Code: "InvalidAccessKeyId", Body: "The AWS Access Key Id you provided does not exist in our records.", Header: id},
			{Status: 403, Code: "RequestTimeTooSkewed", Body: "The difference between the request time and the current time is too large.", Header: with("Date", date(time.Hour))},
			{Status: 403, Code: "RequestTimeTooSkewed", Body: "The difference between the request time and the current time is too large.", Header: with("Date", date(-time.Hour))},
			{Status: 403, Code: "RequestTimeTooSkewed", Body: "The difference between the request time and the current time is too large.", Header: with("Date", "yesterday")},
			{Status: 403, Code: "SignatureDoesNotMatch", Body: "The request signature we calculated does not match the signature you provided.", Header: id},
			{Status: 404, Code: "NoSuchBucket", Body: "The specified bucket does not exist", Header: id},
			{Status: 404, Code: "NotHere", Body: "nothing is here", Header: id},
			{Status: 409, Code: "OperationAborted", Body: "A conflicting conditional operation is currently in progress against this resource.", Header: id},
			{Status: 409, Code: "ObjectParentIsFile", Body: "Object parent already exists as a file", Header: id},
			{Status: 429, Code: "QpsLimitExceeded", Body: "Too many requests", Header: id},
			{Status: 400, Code: "KMS.NotFoundException", Body: "Invalid keyId 'key-1'", Header: id},
			{Status: 507, Code: "XMinioStorageFull", Body: "Storage backend has reached its minimum free drive threshold.", Header: id},
			{Status: 400, Code: "RequestTimeout", Body: "Your socket connection to the server was not read from or written to within the timeout period.", Header: id},
			{Status: 500, Code: "InternalError", Body: "We encountered an internal error. Please try again.", Header: id},
			{Status: 501, Code: "NotImplemented", Body: "A header you provided implies functionality that is not implemented.", Header: id},
			{Status: 503, Code: "SlowDown", Body: "Please reduce your request rate.", Header: id},
		} {
			b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.Attempts = 1 })
			b.s3.Script(r)
			out = append(out, b.Put(t.Context(), sentenceKey, "text/plain", []byte("x")).Error())
		}
		b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.Attempts = 1 })
		b.s3.Script(fakes3.Rule{Op: "list", Status: 403, Code: "AccessDenied"})
		for _, err := range b.List(t.Context(), "queen/", "") {
			out = append(out, err.Error())
		}
		_, err := b.part(t.Context(), sentenceKey, "gone", 1, [][]byte{[]byte("x")}, sha([]byte("x")))
		out = append(out, err.Error())
		b = newBucket(t, fakes3.Options{}, nil)
		b.s3.Script(fakes3.Rule{Op: "multipart_complete", Times: 1, Status: 500})
		out = append(out, b.complete(t.Context(), sentenceKey, "gone", []string{"x"}, 100).Error())
		b.s3.Script(fakes3.Rule{Op: "head", Status: 403}, fakes3.Rule{Op: "get", Status: 403, Code: "AccessDenied", Body: "Access Denied"})
		out = append(out, b.Probe(t.Context(), "queen").Error())
		b.s3.Script(fakes3.Rule{Op: "multipart_abort", Status: 403, Code: "AccessDenied"})
		out = append(out, b.failureOf(t, OpMultipartAbort).Error())
	})
	return out
}

// failureOf is what a client says of a refused request of one kind.
func (b *bucket) failureOf(t *testing.T, op Op) error {
	return b.retry(t.Context(), op, sentenceKey, func(ctx context.Context) error {
		_, err := b.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &b.o.Bucket, Key: aws.String(sentenceKey), UploadId: aws.String("id")})
		return err
	})
}

// brokenAnswers are those of something else than a store, or of one that is broken.
func brokenAnswers(t *testing.T) []string {
	var out []string
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			rule fakes3.Rule
			do   func(b *bucket) error
		}{
			{fakes3.Rule{Op: "put", Status: 200, Body: "<html>maintenance</html>"}, nil},
			{fakes3.Rule{Op: "put", Status: 400, Body: "Client sent an HTTP request to an HTTPS server."}, nil},
			{fakes3.Rule{Op: "put", Status: 403, Body: "<html>Forbidden by the firewall</html>"}, nil},
			{fakes3.Rule{Op: "put", Status: 404, Body: "404 page not found"}, nil},
			{fakes3.Rule{Op: "put", Status: 302, Body: "to the login page", Header: http.Header{"Location": {"/login"}}}, nil},
			{fakes3.Rule{Op: "put", Status: 407, Body: "proxy"}, nil},
			{fakes3.Rule{Op: "put", Status: 502, Body: "<html>Bad Gateway</html>"}, nil},
			{fakes3.Rule{Op: "put", Status: 599}, nil},
			{fakes3.Rule{Op: "multipart_create", Status: 200, Body: "<html>"}, creating},
			{fakes3.Rule{Op: "multipart_create", Status: 200}, creating},
			{fakes3.Rule{Op: "multipart_create", Status: 200, Body: "<a>" + strings.Repeat("x", maxDocument)}, creating},
			{fakes3.Rule{Op: "multipart_complete", Status: 200, Code: "InternalError", Body: "We encountered an internal error."}, completing},
			{fakes3.Rule{Op: "multipart_complete", Status: 200, Body: `<CompleteMultipartUploadResult><ETag>"` + strings.Repeat("0", 32) + `-9"</ETag></CompleteMultipartUploadResult>`}, completing},
			{fakes3.Rule{Op: "multipart_complete", Status: 200, Body: strings.Repeat(" ", 1000), Cut: fakes3.CutAnswer}, completing},
			{fakes3.Rule{Op: "get", Cut: fakes3.CutAnswer}, func(b *bucket) error {
				b.s3.Put("k", pattern(1000))
				_, _, err := b.Get(context.Background(), "k", 1<<20)
				return err
			}},
			{fakes3.Rule{Op: "none"}, func(b *bucket) error {
				b.s3.Put("k", pattern(1000))
				_, _, err := b.Get(context.Background(), "k", 10)
				return err
			}},
		} {
			b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.Attempts = 1 })
			b.s3.Script(c.rule)
			if c.do == nil {
				c.do = func(b *bucket) error { return b.Put(context.Background(), sentenceKey, "text/plain", []byte("x")) }
			}
			out = append(out, c.do(b).Error())
		}
	})
	return out
}

func creating(b *bucket) error {
	_, err := b.create(context.Background(), sentenceKey, "text/plain")
	return err
}

func completing(b *bucket) error {
	return b.complete(context.Background(), sentenceKey, "upload-1", []string{"x"}, 1)
}

// silences are requests without an answer. Those of the network are real.
func silences(t *testing.T) []string {
	var out []string
	put := func(c *Client) string {
		defer c.Close()
		return c.Put(t.Context(), sentenceKey, "text/plain", []byte("x")).Error()
	}
	client := func(endpoint string, dial func(context.Context, string, string) (net.Conn, error)) *Client {
		c, err := New(ClientOptions{Endpoint: endpoint, Region: "us-east-1", Bucket: "lake", AccessKey: "key", SecretKey: testSecret, PathStyle: true, Attempts: 1, Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	failing := func(err error) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) { return nil, err }
	}
	quiet := log.New(io.Discard, "", 0)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = quiet
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.Config.ErrorLog, old.TLS = quiet, &tls.Config{MaxVersion: tls.VersionTLS11}
	old.StartTLS()
	defer old.Close()
	out = append(out,
		put(client("https://"+secure.Listener.Addr().String(), nil)),
		put(client("https://"+plain.Listener.Addr().String(), nil)),
		put(client("https://"+old.Listener.Addr().String(), nil)),
		put(client("http://s3.test", failing(&net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}, Err: syscall.ECONNREFUSED}))),
		put(client("http://s3.test", failing(&net.DNSError{Err: "no such host", Name: "s3.test", IsNotFound: true}))),
		put(client("http://s3.test", failing(&net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}, Err: os.ErrDeadlineExceeded}))))
	odd, err := New(ClientOptions{Endpoint: "http://s3.test", Region: "us east", Bucket: "lake", AccessKey: "key", SecretKey: testSecret})
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, put(odd))
	synctest.Test(t, func(t *testing.T) {
		for _, rule := range []fakes3.Rule{{Hold: make(chan struct{})}, {Stall: make(chan struct{})}} {
			b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.Attempts = 1 })
			b.s3.Script(rule)
			out = append(out, b.Put(t.Context(), sentenceKey, "text/plain", pattern(1<<20)).Error())
		}
		b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.Attempts = 1 })
		b.s3.Script(fakes3.Rule{Cut: fakes3.CutBefore})
		out = append(out, b.Put(t.Context(), sentenceKey, "text/plain", []byte("x")).Error(), b.unsent(OpPut, sentenceKey, errBusy).Error())
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the sink stops"))
		out = append(out, b.Put(ctx, sentenceKey, "text/plain", []byte("x")).Error(), b.Probe(ctx, "queen").Error())
		_, _, err := b.Permitted(func() error { return errors.New("the lease may have run out") }).Head(t.Context(), sentenceKey)
		out = append(out, err.Error())
	})
	return out
}

// missingKeys is a process without credentials.
func missingKeys(t *testing.T) []string {
	alone(t)
	b := ambient(t, fakes3.Credentials{Access: "A", Secret: "S"})
	return []string{b.Put(t.Context(), sentenceKey, "text/plain", []byte("x")).Error(), b.Probe(t.Context(), "queen").Error()}
}

// ownWords are errors that no store gave.
func ownWords(t *testing.T) []string {
	var out []string
	say := func(err error) { out = append(out, err.Error()) }
	in := testIntent()
	in.Align = "week"
	_, err := DataKey(in, Names{Tenant: testTenant, Queue: "orders", Ext: "jsonl"})
	say(err)
	in = testIntent()
	in.Layout = "split"
	_, err = DataKey(in, Names{Tenant: testTenant, Queue: "orders", Ext: "jsonl"})
	say(err)
	in.Layout = "per-partition"
	_, err = DataKey(in, Names{Tenant: testTenant, Queue: "orders", Ext: "jsonl"})
	say(err)
	say(CheckNames("queen", testTenant, strings.Repeat("ключ", 30), "merged"))
	say(CheckNames(strings.Repeat("p", 300), testTenant, "orders", "merged"))
	say(CheckNames(strings.Repeat("p/", 450), testTenant, "orders", "merged"))
	_, err = ParseManifest([]byte("{"))
	say(err)
	_, err = ParseManifest([]byte(`{"sink":"x"}`))
	say(err)
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		b.s3.Script(fakes3.Rule{Op: "put", Status: 403, Code: "AccessDenied", Body: "Access Denied"})
		_, err := send(t.Context(), newTestStage(b, 64<<20, nil), testJob(), []byte("x"))
		say(err)
		odd := testJob()
		odd.Intent.Format = "csv"
		_, err = send(t.Context(), newTestStage(b, 64<<20, nil), odd, []byte("x"))
		say(err)
		nothing := testJob()
		nothing.Listing.Records = 3
		say(newTestStage(b, 64<<20, nil).Do(t.Context(), stages.Chunk{Job: nothing, End: true}, nil))
		p := newParts(t.Context(), b.Client, sentenceKey, "id", func(string) {})
		p.etags = make([]string, maxParts)
		_, err = p.enter()
		say(err)
		p.cancel(nil)
		say((&StageOptions{Part: 1}).Validate())
		s := newTestStage(b, 64<<20, nil)
		var pool stages.Chunks
		none := func(*stages.Uploaded) error { return nil }
		first, second := testJob(), testJob()
		second.Intent.K = 2
		if err := s.Do(t.Context(), taken(&pool, first, []byte("x")), none); err != nil {
			t.Fatal(err)
		}
		say(s.Do(t.Context(), taken(&pool, second, []byte("x")), none))
		say(s.Drain(t.Context(), none))
		b.s3.Unscript()
		b.s3.Put("k", []byte("some bytes"))
		b.s3.Script(fakes3.Rule{Op: "get", Trickle: 70 * time.Second})
		body, err := b.Open(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(body)
		say(err)
		body.Close()
		b.s3.Deaf(true)
		b.Client.Close()
		fresh := newBucket(t, fakes3.Options{}, nil)
		fresh.s3.Deaf(true)
		_, err = fresh.Open(t.Context(), "k")
		say(err)
		say(fresh.Probe(t.Context(), "queen"))
	})
	return out
}

func optionWords() []string {
	var out []string
	for _, o := range []ClientOptions{
		{Endpoint: "minio:9000/x"}, {Endpoint: "http://a", Region: "r", Bucket: "b", Ambient: true, AccessKey: "a"},
		{Endpoint: "http://a", Region: "r", Bucket: "b", AccessKey: "a b", SecretKey: testSecret},
	} {
		out = append(out, strings.Split(o.Validate().Error(), "\n")...)
	}
	return out
}

// unseen are literals with spaces that no person is shown, and why.
var unseen = map[string]string{
	"AWS4":                                          "protocol",
	"%s: request is a %T":                           "a mistake in wiring the SDK",
	"seek to %d of %d bytes":                        "a mistake in rewinding a body",
	"failed to refresh cached credentials, ":        "taken off",
	"timeout awaiting response headers":             "recognised, and said in other words",
	"%d %s":                                         "status and code",
	"the window is uploaded already":                "a signal between two functions",
	"the upload was given up":                       "the cause of a cancel that is waited for",
	"the attempt that this body belongs to is over": "what the transport sees, after the answer",
}

// complete fails for a literal of the source whose words are in no sentence.
func complete(t *testing.T, golden string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	verb := regexp.MustCompile(`%[-+#0-9.]*[a-zA-Z]`)
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil || !strings.Contains(strings.TrimSpace(text), " ") || unseen[text] != "" {
				return true
			}
			found++
			for _, piece := range verb.Split(text, -1) {
				if piece = strings.TrimSpace(piece); len(piece) > 3 && !strings.Contains(golden, piece) {
					t.Errorf("%s: no sentence has %q (of %q)", name, piece, text)
				}
			}
			return true
		})
	}
	if found < 40 {
		t.Errorf("only %d literals found", found)
	}
}
