package upload

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// hint says what to do, in words (contract B8). What the store said stands beside it.
func (c *Client) hint(e *Error, resp *smithyhttp.ResponseError) string {
	if e.Status == 0 {
		return c.silenceHint(e)
	}
	switch e.Code {
	case "RequestTimeTooSkewed":
		return clockHint(e.skew)
	case "InvalidAccessKeyId", "UnknownAccessKey", "XAdminUserNotFound":
		return "the store does not know this access key: correct it, or make one with these rights"
	case "ExpiredToken", "TokenRefreshRequired", "InvalidToken":
		return "the credentials have expired or their session token is not theirs: give new ones"
	case "SignatureDoesNotMatch":
		return "the secret key is wrong, the region is not the bucket's, or a proxy changes requests on the way"
	case "NoSuchBucket":
		return fmt.Sprintf("there is no bucket %q at %s: create it or correct its name", c.o.Bucket, c.o.Endpoint)
	case "KeyTooLongError", "XMinioInvalidObjectName":
		return "the key is too long or not allowed in this store: use a shorter prefix or queue name"
	case "ObjectParentIsFile", "XMinioParentIsObject":
		return "an object lies where this key needs a folder, and queen wrote none there: use another prefix"
	case "XMinioStorageFull", "QuotaExceeded", "XMinioAdminBucketQuotaExceeded", "InsufficientStorage":
		return "the store is full: make room or raise its quota; nothing is lost meanwhile"
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "TemporaryRedirect":
		return c.regionHint(resp)
	case "NoSuchUpload":
		return "somebody else ended the upload, a lifecycle rule of less than a day for example; it is begun anew"
	case "SlowDown", "QpsLimitExceeded":
		return "the store wants fewer requests; it is asked again, more slowly"
	}
	return c.statusHint(e, resp)
}

// statusHint goes by the status of an answer whose code says nothing more.
func (c *Client) statusHint(e *Error, resp *smithyhttp.ResponseError) string {
	switch {
	case strings.HasPrefix(e.Code, "KMS"):
		return "the key of QUEEN_S3_SSE_KMS_KEY_ID is not there, not enabled, or in another region than the bucket: correct it"
	case e.Status < 300:
		return "something else than the store may have answered: check what stands between here and " + c.o.Endpoint
	case e.Status == http.StatusMovedPermanently, e.Status == http.StatusTemporaryRedirect:
		return c.regionHint(resp)
	case e.Status == http.StatusForbidden && strings.Contains(strings.ToLower(e.Message), "kms"):
		return "the key must allow kms:GenerateDataKey and, for multipart uploads, kms:Decrypt"
	case e.Status == http.StatusForbidden && e.Code == "" && e.Op != OpHead:
		return "the answer does not say why: the access key may lack " + permission(e.Op) + ", or something between here and " + c.o.Endpoint + " has answered"
	case e.Status == http.StatusForbidden:
		return "the access key needs " + permission(e.Op) + " on this bucket and prefix; a wrong secret or clock can look the same"
	case e.Status == http.StatusNotFound:
		return fmt.Sprintf("check that there is a bucket %q at %s, and that QUEEN_S3_PATH_STYLE is as the store wants it", c.o.Bucket, c.o.Endpoint)
	case e.Status == http.StatusNotImplemented:
		return "the store does not have what was asked for: unset QUEEN_S3_SSE if it is set, or use another store"
	case e.Status >= 500, e.Status == http.StatusTooManyRequests:
		return "the store or a proxy before it is busy or broken; it is asked again"
	case e.Status == http.StatusConflict && e.Retryable:
		return "another request for the same key was under way; it is asked again"
	case e.Retryable:
		return "the request was damaged or stalled on its way; it is sent again"
	case e.Code == "" && e.Op != OpHead:
		return "the answer is not that of an S3 store: check the scheme and the port of " + c.o.Endpoint
	}
	return "the store refuses the request as it is: check what it supports, and the settings of this bucket"
}

func (c *Client) silenceHint(e *Error) string {
	var dns *net.DNSError
	text := e.Err.Error()
	switch {
	case errors.As(e.Err, new(*noCredentials)):
		return "set QUEEN_S3_ACCESS_KEY and QUEEN_S3_SECRET_KEY, or give this process AWS credentials: docs/operate.md says how"
	case errors.Is(e.Err, errBusy):
		return "nothing is lost; it is tried again"
	case errors.As(e.Err, &dns):
		return fmt.Sprintf("the name of the endpoint %s cannot be resolved: check the endpoint, path style and DNS", c.o.Endpoint)
	case strings.Contains(text, "HTTP response to HTTPS client"):
		return fmt.Sprintf("what listens at %s speaks plain HTTP: write http://, or correct the port", c.o.Endpoint)
	case errors.Is(e.Err, errDeadline):
		return "the store or the way to " + c.o.Endpoint + " is too slow for it; nothing is lost, it is tried again"
	case strings.Contains(text, "tls:") && !strings.Contains(text, "certificate"):
		return "no TLS connection can be made: check that " + c.o.Endpoint + " speaks TLS 1.2 or newer there"
	case strings.Contains(text, "x509:"), strings.Contains(text, "tls:"):
		return "the store's certificate is not accepted here: check the endpoint; SSL_CERT_FILE names a file with the authorities to trust"
	case !e.Retryable:
		return "no request can be made of these settings: check endpoint, region and bucket name"
	}
	return "check that " + c.o.Endpoint + " can be reached from here"
}

// clockHint says how far the clocks are apart.
func clockHint(apart time.Duration) string {
	const most = "the store takes about 15 minutes: set this machine's clock, with NTP for example"
	switch {
	case apart < 0:
		return fmt.Sprintf("this machine's clock is %v behind the store's; %s", -apart, most)
	case apart > 0:
		return fmt.Sprintf("this machine's clock is %v ahead of the store's; %s", apart, most)
	}
	return "this machine's clock and the store's are too far apart; " + most
}

// skew is how far the clock with which a request was signed is ahead of the store's, which dates its answer; 0 when either is not there.
func skew(resp *smithyhttp.Response) time.Duration {
	if resp.Response == nil || resp.Request == nil {
		return 0
	}
	ours, err1 := time.Parse("20060102T150405Z", resp.Request.Header.Get("X-Amz-Date"))
	theirs, err2 := http.ParseTime(resp.Header.Get("Date"))
	if err1 != nil || err2 != nil {
		return 0
	}
	return ours.Sub(theirs).Round(time.Second)
}

func (c *Client) regionHint(resp *smithyhttp.ResponseError) string {
	if resp != nil && resp.Response != nil {
		if r := shown(resp.Response.Header.Get("x-amz-bucket-region"), maxWord); r != "" {
			return fmt.Sprintf("the bucket is in region %s, requests are signed for %s: set the region and its endpoint", r, c.o.Region)
		}
	}
	return fmt.Sprintf("the bucket is not in region %s, or its endpoint is another one: set the region and endpoint", c.o.Region)
}

// permission is the right that an operation needs.
func permission(op Op) string {
	switch op {
	case OpGet, OpHead:
		return "s3:GetObject"
	case OpList:
		return "s3:ListBucket"
	case OpMultipartAbort:
		return "s3:AbortMultipartUpload"
	default:
		return "s3:PutObject"
	}
}
