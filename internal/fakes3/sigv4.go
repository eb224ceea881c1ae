package fakes3

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Credentials are what a server accepts.
type Credentials struct{ Access, Secret, Token string }

// Accept makes these the only credentials that are taken from now on.
func (s *Server) Accept(c Credentials) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted = &c
}

// maxSkew is how far the date of a request may be from the server's clock.
const maxSkew = 15 * time.Minute

// admit checks the date, the keys and the signature of a request, as far as the server was told of any. ok = it may go on.
func (s *Server) admit(r *http.Request, body []byte) (a answer, ok bool) {
	if s.o.Now != nil {
		date, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if err != nil || date.Sub(s.o.Now()).Abs() > maxSkew {
			return failure(http.StatusForbidden, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large."), false
		}
	}
	s.mu.Lock()
	want := s.accepted
	s.mu.Unlock()
	secret := s.o.Secret
	if want != nil {
		secret = want.Secret
		switch {
		case !strings.Contains(r.Header.Get("Authorization"), "Credential="+want.Access+"/"):
			return failure(http.StatusForbidden, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."), false
		case r.Header.Get("X-Amz-Security-Token") != want.Token:
			return failure(http.StatusBadRequest, "ExpiredToken", "The provided token has expired."), false
		}
	}
	if secret == "" {
		return a, true
	}
	if err := checkSignature(r, secret, body); err != nil {
		return failure(http.StatusForbidden, "SignatureDoesNotMatch", err.Error()), false
	}
	return a, true
}

// checkSignature computes the AWS Signature Version 4 of a request from what arrived and compares it with the one it carries.
func checkSignature(r *http.Request, secret string, body []byte) error {
	fields, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	if !ok {
		return errors.New("no AWS4-HMAC-SHA256 authorization")
	}
	auth := map[string]string{}
	for field := range strings.SplitSeq(fields, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		auth[name] = value
	}
	scope := strings.SplitN(auth["Credential"], "/", 2)
	if len(scope) != 2 {
		return errors.New("no credential scope")
	}
	sum := sha256.Sum256(body)
	hash := r.Header.Get("X-Amz-Content-Sha256")
	if hash != hex.EncodeToString(sum[:]) {
		return fmt.Errorf("x-amz-content-sha256 is %q and not the hash of the body", hash)
	}
	canonical := strings.Join([]string{
		r.Method, r.URL.EscapedPath(), canonicalQuery(r.URL.Query()), canonicalHeaders(r, auth["SignedHeaders"]), auth["SignedHeaders"], hash,
	}, "\n")
	canonicalSum := sha256.Sum256([]byte(canonical))
	text := strings.Join([]string{"AWS4-HMAC-SHA256", r.Header.Get("X-Amz-Date"), scope[1], hex.EncodeToString(canonicalSum[:])}, "\n")
	key := []byte("AWS4" + secret)
	for part := range strings.SplitSeq(scope[1], "/") {
		key = sign(key, part)
	}
	if want := hex.EncodeToString(sign(key, text)); want != auth["Signature"] {
		return fmt.Errorf("the signature we calculated does not match the one you sent; canonical request:\n%s", canonical)
	}
	return nil
}

func sign(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

func canonicalQuery(q url.Values) string {
	var pairs []string
	for name, values := range q {
		for _, v := range values {
			pairs = append(pairs, escape(name)+"="+escape(v))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// escape percent-encodes as AWS does: everything but letters, digits and "-._~".
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

func canonicalHeaders(r *http.Request, signed string) string {
	var b strings.Builder
	for name := range strings.SplitSeq(signed, ";") {
		value := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		fmt.Fprintf(&b, "%s:%s\n", name, strings.TrimSpace(value))
	}
	return b.String()
}
