package upload

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"queen/internal/fakes3"
)

// What is tried again and what is not, and the words that go with it (contract B8).
func TestErrorsSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		status    int
		code      string
		message   string
		header    http.Header
		retryable bool
		words     string
	}{
		{400, "RequestTimeTooSkewed", "The difference is too large.", nil, false, "set this machine's clock"},
		{403, "RequestTimeTooSkewed", "The difference is too large.", nil, false, "set this machine's clock"},
		{403, "AccessDenied", "Access Denied", nil, false, "s3:PutObject"},
		{403, "AccessDenied", "not authorized to perform: kms:GenerateDataKey", nil, false, "kms:Decrypt"},
		{403, "InvalidAccessKeyId", "no such key", nil, false, "does not know this access key"},
		{403, "SignatureDoesNotMatch", "no match", nil, false, "secret key is wrong"},
		{301, "PermanentRedirect", "use the endpoint", http.Header{"X-Amz-Bucket-Region": {"eu-west-1"}}, false, "the bucket is in region eu-west-1, requests are signed for us-east-1"},
		{400, "AuthorizationHeaderMalformed", "the region 'us-east-1' is wrong; expecting 'eu-west-1'", nil, false, "set the region"},
		{404, "NoSuchBucket", "The bucket does not exist", nil, false, `there is no bucket "lake"`},
		{400, "KeyTooLongError", "Your key is too long", nil, false, "shorter prefix or queue name"},
		{400, "XMinioInvalidObjectName", "Object name contains unsupported characters.", nil, false, "shorter prefix or queue name"},
		{400, "ExpiredToken", "expired", nil, false, "credentials have expired"},
		{411, "MissingContentLength", "length", nil, false, "411 MissingContentLength: length"},
		{501, "NotImplemented", "A header you provided", nil, true, "501 NotImplemented"},
		{400, "RequestTimeout", "Your socket was idle.", nil, true, "400 RequestTimeout"},
		{400, "BadDigest", "did not match", nil, true, "400 BadDigest"},
		{408, "", "", nil, true, "408 Request Timeout"},
		{429, "", "", nil, true, "429 Too Many Requests"},
		{500, "InternalError", "again", nil, true, "500 InternalError"},
		{599, "", "", nil, true, "599"},
	} {
		t.Run(fmt.Sprint(c.status, c.code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.Attempts = 2 })
				b.s3.Script(fakes3.Rule{Status: c.status, Code: c.code, Body: c.message, Header: c.header})
				err := b.Put(t.Context(), "queen/k", "text/plain", []byte("x"))
				var e *Error
				if !errors.As(err, &e) || e.Retryable != c.retryable || e.Status != c.status || e.Code != c.code || e.Op != OpPut || e.Key != "queen/k" || e.Bucket != "lake" {
					t.Fatalf("got %#v", e)
				}
				if !strings.Contains(err.Error(), c.words) || !strings.HasPrefix(err.Error(), "put s3://lake/queen/k: ") {
					t.Errorf("words: %s", err)
				}
				if strings.Contains(err.Error(), testSecret) {
					t.Error("the secret is in the error")
				}
				want := 1
				if c.retryable {
					want = 2
				}
				if n := len(b.s3.Requests()); n != want {
					t.Errorf("%d attempts", n)
				}
			})
		})
	}
}

func TestNoAnswerSaysWhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.Attempts = 1 })
		b.s3.Script(fakes3.Rule{Cut: fakes3.CutBefore})
		err := b.Put(t.Context(), "k", "text/plain", []byte("x"))
		var e *Error
		if !errors.As(err, &e) || !e.Retryable || e.Status != 0 || err.Error() != "put s3://lake/k: no answer: the connection was closed: EOF (check that http://fakes3.test can be reached from here)" {
			t.Fatalf("got %v", err)
		}
	})
}

func TestOptions(t *testing.T) {
	_, err := New(ClientOptions{Endpoint: "minio:9000/x"})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"endpoint", "region", "bucket", "access key", "secret key"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	o := ClientOptions{SecretKey: testSecret}
	if s := fmt.Sprintf("%v %+v %#v %s", o, o, o, o.SecretKey); strings.Contains(s, testSecret) {
		t.Errorf("the secret shows: %s", s)
	}
}
