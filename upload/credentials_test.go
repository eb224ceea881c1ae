package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"queen/internal/fakes3"
)

// alone leaves the test no credentials but those it makes: no variable, no file of the machine, no metadata service.
func alone(t *testing.T) (dir string) {
	t.Helper()
	for _, line := range os.Environ() {
		if name, _, _ := strings.Cut(line, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	dir = t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "credentials"))
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return dir
}

// ambient is a bucket whose client uses the credentials of the process. It runs on real time, since some of them are asked for over TCP.
func ambient(t *testing.T, c fakes3.Credentials) *bucket {
	t.Helper()
	b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) {
		o.AccessKey, o.SecretKey, o.Ambient = "", "", true
		o.Random = func() float64 { return 0 }
		o.Attempts = 2
	})
	b.s3.Accept(c)
	return b
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// B11: each way in which a process gets credentials from the AWS SDK signs requests, session token included.
func TestB11Sources(t *testing.T) {
	want := fakes3.Credentials{Access: "AKIDSOURCE", Secret: "source-secret", Token: "source-token"}
	for name, prepare := range map[string]func(t *testing.T, dir string){
		"environment": func(t *testing.T, _ string) {
			t.Setenv("AWS_ACCESS_KEY_ID", want.Access)
			t.Setenv("AWS_SECRET_ACCESS_KEY", want.Secret)
			t.Setenv("AWS_SESSION_TOKEN", want.Token)
		},
		"file": func(t *testing.T, dir string) {
			write(t, dir, "credentials", "[default]\naws_access_key_id=AKIDSOURCE\naws_secret_access_key=source-secret\naws_session_token=source-token\n")
		},
		"profile": func(t *testing.T, dir string) {
			t.Setenv("AWS_PROFILE", "lake")
			write(t, dir, "credentials", "[default]\naws_access_key_id=no\naws_secret_access_key=no\n"+
				"[lake]\naws_access_key_id=AKIDSOURCE\naws_secret_access_key=source-secret\naws_session_token=source-token\n")
		},
		"process": func(t *testing.T, dir string) {
			write(t, dir, "give", "#!/bin/sh\necho '"+`{"Version":1,"AccessKeyId":"AKIDSOURCE","SecretAccessKey":"source-secret","SessionToken":"source-token"}`+"'\n")
			write(t, dir, "config", "[default]\ncredential_process="+filepath.Join(dir, "give")+"\n")
		},
		"web identity": func(t *testing.T, dir string) {
			write(t, dir, "token", "the-web-token")
			t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", filepath.Join(dir, "token"))
			t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/lake")
			t.Setenv("AWS_ENDPOINT_URL_STS", sts(t, func(int) fakes3.Credentials { return want }, time.Hour).URL)
		},
		"container": func(t *testing.T, _ string) {
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, `{"AccessKeyId":%q,"SecretAccessKey":%q,"Token":%q,"Expiration":"2099-01-01T00:00:00Z"}`, want.Access, want.Secret, want.Token)
			}).URL)
		},
		"instance": func(t *testing.T, _ string) {
			t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
			t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodPut:
					w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
					fmt.Fprint(w, "imds-token")
				case strings.HasSuffix(r.URL.Path, "/lake-role"):
					fmt.Fprintf(w, `{"Code":"Success","AccessKeyId":%q,"SecretAccessKey":%q,"Token":%q,"Expiration":"2099-01-01T00:00:00Z"}`, want.Access, want.Secret, want.Token)
				default:
					fmt.Fprint(w, "lake-role")
				}
			}).URL)
		},
	} {
		t.Run(name, func(t *testing.T) {
			prepare(t, alone(t))
			b := ambient(t, want)
			if err := b.Put(t.Context(), "k", "text/plain", []byte("x")); err != nil {
				t.Fatal(err)
			}
			if n := len(b.s3.Requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func serveHTTP(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// sts hands out credentials for a web token; n counts from 1.
func sts(t *testing.T, give func(n int) fakes3.Credentials, life time.Duration) *httptest.Server {
	t.Helper()
	var n atomic.Int64
	return serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ParseForm() != nil || r.Form.Get("Action") != "AssumeRoleWithWebIdentity" || r.Form.Get("WebIdentityToken") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c := give(int(n.Add(1)))
		fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>`+
			`<AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><SessionToken>%s</SessionToken><Expiration>%s</Expiration>`+
			`</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
			c.Access, c.Secret, c.Token, time.Now().Add(life).UTC().Format(time.RFC3339))
	})
}

// B11: the keys that are given are what signs, whatever else the process has; and temporary ones carry their token.
func TestB11GivenKeysComeFirst(t *testing.T) {
	alone(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "other")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "other")
	b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.SessionToken = "given-token" })
	b.s3.Accept(fakes3.Credentials{Access: "key", Secret: testSecret, Token: "given-token"})
	if err := b.Put(t.Context(), "k", "text/plain", []byte("x")); err != nil {
		t.Fatal(err)
	}
	b.s3.Accept(fakes3.Credentials{Access: "other", Secret: "other"})
	if err := b.Put(t.Context(), "k", "text/plain", []byte("x")); err == nil || len(b.s3.Requests()) != 2 {
		t.Errorf("%d requests, %v", len(b.s3.Requests()), err)
	}
}

// B11: without any, the error says what is missing and what to do, and as soon as there are some, they are used.
func TestB11None(t *testing.T) {
	dir := alone(t)
	b := ambient(t, fakes3.Credentials{Access: "A", Secret: "S"})
	err := b.Put(t.Context(), "k", "text/plain", []byte("x"))
	var e *Error
	if !errors.As(err, &e) || !e.Retryable || e.Status != 0 || !strings.Contains(err.Error(), "no credentials to sign it with") ||
		!strings.Contains(err.Error(), "set QUEEN_S3_ACCESS_KEY and QUEEN_S3_SECRET_KEY") {
		t.Fatalf("got %v", err)
	}
	if n := len(b.s3.Requests()); n != 0 {
		t.Errorf("%d requests without a signature", n)
	}
	write(t, dir, "credentials", "[default]\naws_access_key_id=A\naws_secret_access_key=S\n")
	if err := b.Put(t.Context(), "k", "text/plain", []byte("x")); err != nil {
		t.Error(err)
	}
}

// P26: temporary credentials are fetched again before they end: with no refused request in between, and not for each request.
func TestP26FetchedAgainBeforeTheyExpire(t *testing.T) {
	dir := alone(t)
	var mu sync.Mutex
	given := 0
	creds := func(n int) fakes3.Credentials {
		return fakes3.Credentials{Access: fmt.Sprint("A", n), Secret: fmt.Sprint("S", n), Token: fmt.Sprint("T", n)}
	}
	var b *bucket
	life := earlier - time.Second // they are as good as expired when they come
	server := sts(t, func(n int) fakes3.Credentials {
		mu.Lock()
		defer mu.Unlock()
		given = n
		if n == 3 {
			n = 2 // what is handed out does not change any more
		}
		b.s3.Accept(creds(n))
		return creds(n)
	}, life)
	write(t, dir, "token", "web")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", filepath.Join(dir, "token"))
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/lake")
	t.Setenv("AWS_ENDPOINT_URL_STS", server.URL)
	b = ambient(t, creds(1))
	for range 2 {
		if err := b.Put(t.Context(), "k", "text/plain", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if given != 2 || len(b.s3.Requests()) != 2 || b.counted("put 200") != 2 {
		t.Errorf("%d fetched, %s", given, transcript(b.s3.Requests()))
	}
}

// P26: when the store refuses the credentials, all sources are read again: the window under way goes up with the new ones, its parts and its
// manifest, and nothing is restarted.
func TestP26RotatedWhileAWindowIsOnItsWay(t *testing.T) {
	dir := alone(t)
	file := func(n int) {
		write(t, dir, "credentials", fmt.Sprintf("[default]\naws_access_key_id=A%d\naws_secret_access_key=S%d\n", n, n))
	}
	file(1)
	b := ambient(t, fakes3.Credentials{Access: "A1", Secret: "S1"})
	var once sync.Once
	s := newTestStage(b, 5<<20, func(string) { // between two parts
		once.Do(func() {
			file(2)
			b.s3.Accept(fakes3.Credentials{Access: "A2", Secret: "S2"})
		})
	})
	data := pattern(40 << 20)
	if _, err := send(t.Context(), s, testJob(), data); err != nil {
		t.Fatal(err)
	}
	if got, _ := b.s3.Object(testData); !bytes.Equal(got, data) || b.s3.OpenUploads() != 0 {
		t.Errorf("%d bytes stored, %d open uploads", len(got), b.s3.OpenUploads())
	}
	if b.counted("multipart_create 200") != 1 {
		t.Error("the upload was begun anew")
	}
}

// P26: an answer that is about the credentials never counts as anything else: nothing is dropped, and the same request succeeds when they are right.
func TestP26RefusedUntilRotated(t *testing.T) {
	for name, to := range map[string]fakes3.Credentials{
		"unknown key": {Access: "A2", Secret: "S2"}, "wrong secret": {Access: "A1", Secret: "S2"}, "expired token": {Access: "A1", Secret: "S1", Token: "T2"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := alone(t)
			write(t, dir, "credentials", "[default]\naws_access_key_id=A1\naws_secret_access_key=S1\n")
			b := ambient(t, to)
			err := b.Put(t.Context(), "k", "text/plain", []byte("x"))
			var e *Error
			if !errors.As(err, &e) || e.Retryable || e.Hint == "" || len(b.s3.Requests()) != 1 {
				t.Fatalf("%d requests: %v", len(b.s3.Requests()), err)
			}
			if err := b.Probe(t.Context(), "queen"); err == nil {
				t.Error("the probe does not see it")
			}
			text := fmt.Sprintf("[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n", to.Access, to.Secret)
			if to.Token != "" {
				text += "aws_session_token=" + to.Token + "\n"
			}
			write(t, dir, "credentials", text)
			if err := b.Probe(t.Context(), "queen"); err != nil {
				t.Errorf("probe: %v", err)
			}
			if err := b.Put(t.Context(), "k", "text/plain", []byte("x")); err != nil {
				t.Error(err)
			}
		})
	}
}

// slow is a source that takes as long as its caller's context.
type slow struct{}

func (slow) Retrieve(ctx context.Context) (aws.Credentials, error) {
	<-ctx.Done()
	return aws.Credentials{}, context.Cause(ctx)
}

// A source of credentials that hangs holds no request longer than its own limit, and none behind another.
func TestSlowSourceIsBounded(t *testing.T) {
	k := &keys{renewing: make(chan struct{}, 1), load: func(context.Context) (aws.CredentialsProvider, error) { return slow{}, nil }}
	first, endFirst := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := k.Retrieve(first)
		done <- err
	}()
	second, endSecond := context.WithCancel(t.Context())
	endSecond()
	if _, err := k.Retrieve(second); !errors.Is(err, context.Canceled) || k.renew(second, 0) {
		t.Error(err)
	}
	endFirst()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
