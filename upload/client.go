// Package upload carries bytes into a bucket: object keys, the S3 client, multipart uploads and manifests.
//
// It is the only place that knows the AWS SDK. Client is one bucket with its retry policy; object.go streams one object into
// it; stage.go is the step of the pipeline that uploads a window: its object, then its manifest. Nothing is ever deleted, and
// nothing is asked of a store but PUT, GET, multipart and HEAD for the probe (contract S2); List and Open are for tools that read
// a lake. The package moves no pointer and decides nothing about windows: package commit does. Formats: docs/formats.md 7.
package upload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Client is one bucket. It is safe for concurrent use. Each call makes up to Attempts attempts with waits between them and then
// returns an *Error; ctx ends it at once.
type Client struct {
	o         ClientOptions
	api       *s3.Client
	transport *http.Transport
	keys      *keys
	brake     *brake
	permit    func() error // asked before each attempt; nil = none is needed
}

// ClientOptions describe a bucket and how to talk to it. The zero value of each field below the first block is its default.
type ClientOptions struct {
	Endpoint  string // http:// or https://, host, optional port
	Region    string // the region that requests are signed for
	Bucket    string
	AccessKey string
	SecretKey Secret
	// SessionToken belongs to temporary keys.
	SessionToken Secret
	// Ambient takes the credentials of this process instead of given ones (credentials.go). They are the operator's: a bucket that somebody
	// else names must never be written with them.
	Ambient   bool
	PathStyle bool // bucket in the path and not in the host name

	SSE      string // "", AES256 or aws:kms
	KMSKeyID string // with aws:kms

	Dial           func(ctx context.Context, network, addr string) (net.Conn, error) // nil: a dialer with a limit of 5 s
	Observe        func(op Op, code int)                                             // called for each attempt; code 0 = no answer
	Attempts       int                                                               // tries of one request; 6
	RequestTimeout time.Duration                                                     // of one attempt, body included; 120 s
	AnswerTimeout  time.Duration                                                     // from the end of a request to the start of its answer; 60 s
	Random         func() float64                                                    // in [0, 1), for waits; math/rand/v2
	Wanted         func() bool                                                       // see retry.go: what the caller holds is waited for; nil = never
}

// Secret is a string that never shows itself.
type Secret string

// String, GoString and MarshalText hide the secret from every way of printing it.
func (Secret) String() string               { return "***" }
func (Secret) GoString() string             { return `"***"` }
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }

const (
	dialTimeout = 5 * time.Second
	tlsTimeout  = 10 * time.Second
	idleTimeout = 50 * time.Second // below the minute after which servers and NATs forget a connection
)

func (o *ClientOptions) defaults() {
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext
	}
	if o.Observe == nil {
		o.Observe = func(Op, int) {}
	}
	if o.Attempts == 0 {
		o.Attempts = 6
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = 120 * time.Second
	}
	if o.AnswerTimeout == 0 {
		o.AnswerTimeout = 60 * time.Second
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Wanted == nil {
		o.Wanted = func() bool { return false }
	}
}

// Validate reports every problem of the options. It does not talk to the store.
func (o *ClientOptions) Validate() error {
	var problems []error
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		problems = append(problems, fmt.Errorf("endpoint: %q is not http:// or https:// with a host and nothing behind it", o.Endpoint))
	}
	for _, f := range []struct{ name, value string }{
		{"region", o.Region}, {"bucket", o.Bucket},
	} {
		if f.value == "" {
			problems = append(problems, errors.New(f.name+": not set"))
		}
	}
	return errors.Join(append(problems, o.validateKeys()...)...)
}

// New returns the client of a bucket. It talks to nobody.
func New(o ClientOptions) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.defaults()
	c := &Client{o: o, keys: o.keys(), brake: &brake{}, transport: &http.Transport{
		DialContext:           o.Dial,
		TLSHandshakeTimeout:   tlsTimeout,
		ResponseHeaderTimeout: o.AnswerTimeout,
		IdleConnTimeout:       idleTimeout,
		MaxIdleConnsPerHost:   16,
		DisableCompression:    true, // objects are stored bytes: nothing may unpack them on the way
	}}
	c.api = s3.New(s3.Options{
		BaseEndpoint:               aws.String(strings.TrimRight(o.Endpoint, "/")),
		Region:                     o.Region,
		UsePathStyle:               o.PathStyle,
		Credentials:                c.keys,
		HTTPSignerV4:               &signer{},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
		Retryer:                    aws.NopRetryer{}, // retries are ours: two layers would multiply
		HTTPClient: &http.Client{
			Transport:     &observer{next: c.transport, seen: o.Observe},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		ContinueHeaderThresholdBytes: -1, // no Expect header: several gateways mishandle it
		APIOptions:                   apiOptions(),

		DisableLogOutputChecksumValidationSkipped: true,
	})
	return c, nil
}

// Permitted returns this client with a permit: before each attempt of a request permit is called, on the goroutine of the request, and its error
// ends the call and nothing is sent. So a process whose lease may have run out while it stood still sends nothing when it wakes.
func (c *Client) Permitted(permit func() error) *Client {
	with := *c
	with.permit = permit
	return &with
}

// Close drops idle connections. Requests in flight are not touched.
func (c *Client) Close() { c.transport.CloseIdleConnections() }
