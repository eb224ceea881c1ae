package upload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// keys is where the credentials of a client come from.
//
// Fixed ones are what the settings say. Ambient ones are those of this process, in the ways and the order of the AWS SDK: the AWS_ variables, a
// web identity token, the shared files (static keys, a role, a credential_process), a container's address, the instance's profile. Temporary
// ones are fetched again a minute before they expire. When the store refuses what is used, all of that is read again, files included, since keys
// in a file are replaced without a date on which they end.
type keys struct {
	load func(ctx context.Context) (aws.CredentialsProvider, error) // nil: they are fixed

	renewing chan struct{} // holds one token while renew reads

	mu    sync.Mutex
	from  aws.CredentialsProvider // nil: not loaded yet
	loads int                     // how often from was set: it tells one from from another
	last  aws.Credentials         // what was handed out last
	gen   int                     // how often renew found others
}

var _ aws.CredentialsProvider = (*keys)(nil)

// earlier is how long before their end temporary credentials are fetched again: a request is signed once and may wait a little on its way.
const earlier = time.Minute

// noCredentials is why a request could not be signed.
type noCredentials struct{ err error }

func (e *noCredentials) Error() string {
	return "there are no credentials to sign it with: " + shown(strings.TrimPrefix(e.err.Error(), "failed to refresh cached credentials, "), maxMessage)
}

func (e *noCredentials) Unwrap() error { return e.err }

func (o *ClientOptions) keys() *keys {
	if !o.Ambient {
		return &keys{from: credentials.NewStaticCredentialsProvider(o.AccessKey, string(o.SecretKey), string(o.SessionToken))}
	}
	region := o.Region
	return &keys{renewing: make(chan struct{}, 1), load: func(ctx context.Context) (aws.CredentialsProvider, error) {
		// Connections are not kept: this is asked for once an hour. What a proxy variable says is not used, as for the store itself.
		client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.Proxy, t.DisableKeepAlives = nil, true })
		c, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithHTTPClient(client), awsconfig.WithDefaultRegion(region),
			awsconfig.WithCredentialsCacheOptions(func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = earlier }))
		return c.Credentials, err
	}}
}

// Retrieve implements aws.CredentialsProvider: it is asked for each request. Its error is a *noCredentials.
func (k *keys) Retrieve(ctx context.Context) (aws.Credentials, error) {
	from, n, err := k.source(ctx)
	if err != nil {
		return aws.Credentials{}, &noCredentials{err}
	}
	got, err := from.Retrieve(ctx) // it may take a while, and a request waits no longer than its own limit
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		if k.load != nil && k.loads == n {
			k.from = nil // what is missing may be there by the next request
		}
		return aws.Credentials{}, &noCredentials{err}
	}
	if k.loads == n {
		k.last = got
	}
	return got, nil
}

// source loads what has not been loaded: that reads files and asks nobody.
func (k *keys) source(ctx context.Context) (from aws.CredentialsProvider, load int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.from == nil {
		if from, err = k.load(ctx); err != nil {
			return nil, 0, err
		}
		k.set(from)
	}
	return k.from, k.loads, nil
}

// set takes a loaded source. The lock is held.
func (k *keys) set(from aws.CredentialsProvider) {
	k.from = from
	k.loads++
}

// generation is what renew is told.
func (k *keys) generation() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.gen
}

// renew reads all sources again, after the store has refused what was used when the generation was gen. It reports whether there are other
// credentials now. Of several requests that were refused at once, one reads and the others wait for it.
func (k *keys) renew(ctx context.Context, gen int) bool {
	if k.load == nil {
		return false
	}
	select {
	case k.renewing <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-k.renewing }()
	if k.generation() != gen {
		return true
	}
	from, err := k.load(ctx)
	if err != nil {
		return false // what is used now may still be good for something
	}
	got, err := from.Retrieve(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil || same(got, k.last) {
		return false
	}
	k.set(from)
	k.last = got
	k.gen++
	return true
}

// signer signs with the SDK's. That one keeps what it has derived from a secret by the id of the key alone, so that a secret which is replaced
// under the same id would never be used: each secret has a signer of its own here.
type signer struct {
	mu     sync.Mutex
	secret string
	signer *v4.Signer
}

var _ s3.HTTPSignerV4 = (*signer)(nil)

// SignHTTP implements s3.HTTPSignerV4.
func (s *signer) SignHTTP(ctx context.Context, c aws.Credentials, r *http.Request, payloadHash, service, region string, at time.Time,
	options ...func(*v4.SignerOptions),
) error {
	s.mu.Lock()
	if s.signer == nil || s.secret != c.SecretAccessKey {
		s.secret = c.SecretAccessKey
		s.signer = v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }) // S3 signs the path as it is sent
	}
	with := s.signer
	s.mu.Unlock()
	return with.SignHTTP(ctx, c, r, payloadHash, service, region, at, options...)
}

func same(a, b aws.Credentials) bool {
	return a.AccessKeyID == b.AccessKeyID && a.SecretAccessKey == b.SecretAccessKey && a.SessionToken == b.SessionToken
}

// refused says that an answer is about the credentials, so that others may help.
func refused(e *Error) bool {
	switch e.Code {
	case "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId", "UnknownAccessKey", "XAdminUserNotFound", "SignatureDoesNotMatch":
		return true
	}
	return false
}

// validateKeys reports what is wrong with the credentials of options.
func (o *ClientOptions) validateKeys() []error {
	var problems []error
	given := o.AccessKey != "" || o.SecretKey != "" || o.SessionToken != ""
	switch {
	case o.Ambient && given:
		problems = append(problems, errors.New("access key: given, although those of the process are to be used"))
	case !o.Ambient && o.AccessKey == "":
		problems = append(problems, errors.New("access key: not set"))
	}
	if !o.Ambient && o.SecretKey == "" {
		problems = append(problems, errors.New("secret key: not set"))
	}
	if strings.ContainsFunc(o.AccessKey, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		problems = append(problems, fmt.Errorf("access key: %q holds a space or a control character", o.AccessKey))
	}
	return problems
}
