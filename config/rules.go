package config

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func parseNodeID(s *Setting, c *Config, env environment, v string) error {
	if !strings.EqualFold(v, "ordinal") {
		n, err := s.number(v)
		c.NodeID = int(n)
		return err
	}
	host := hostname(env)
	digits := host[len(strings.TrimRight(host, "0123456789")):]
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n >= s.Max {
		return fmt.Errorf("%s=ordinal needs a host name that ends in a number, and %s does not. It is %s", s.Env, oneLine(host), s.Purpose)
	}
	c.NodeID = int(n) + 1
	return nil
}

// parseEncryptionKey never repeats what it was given: a key with one digit too many is nearly a key.
func parseEncryptionKey(s *Setting, c *Config, _ environment, v string) error {
	if raw, err := hex.DecodeString(v); err != nil || len(raw) != 32 {
		return fmt.Errorf("%s is not 64 hex digits. It is %s", s.Env, s.Purpose)
	}
	c.EncryptionKey = Secret(v)
	return nil
}

func parseLogFormat(s *Setting, c *Config, _ environment, v string) error {
	format, err := s.choose(v)
	c.LogJSON = format == "json"
	return err
}

func parseEmbedded(s *Setting, c *Config, _ environment, v string) error {
	on, err := s.boolean(v)
	if on {
		c.Sink = &Sink{}
	}
	return err
}

func parseQueues(s *Setting, c *Config, _ environment, v string) error {
	var names []string
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	switch {
	case len(names) == 0:
		return fmt.Errorf("%s=%s names no queue. It is %s", s.Env, oneLine(v), s.Purpose)
	case len(names) == 1 && names[0] == "*":
		c.Sink.All = true
		return nil
	case slices.Contains(names, "*"):
		return fmt.Errorf("%s=%s has `*` inside a list: `*` stands alone and takes every queue", s.Env, oneLine(v))
	}
	c.Sink.Queues = names
	return nil
}

func parseEndpoint(s *Setting, c *Config, _ environment, v string) error {
	endpoint, err := checkEndpoint(v)
	if err != nil {
		return fmt.Errorf("%s=%s %w. It is %s", s.Env, oneLine(hidePassword(v)), err, s.Purpose)
	}
	c.Sink.Endpoint = endpoint
	return nil
}

func checkEndpoint(v string) (string, error) {
	scheme, rest, ok := strings.Cut(v, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return "", fmt.Errorf("has no scheme: it starts with http:// or https://")
	}
	host, path, _ := strings.Cut(rest, "/")
	if strings.ContainsAny(host, "?#") || strings.ContainsAny(path, "?#") {
		return "", fmt.Errorf("carries a query: only a host and an optional port belong here")
	}
	if path != "" {
		return "", fmt.Errorf("carries a path: put it into QUEEN_S3_PREFIX")
	}
	u, err := url.Parse(scheme + "://" + host)
	switch {
	case err != nil:
		return "", fmt.Errorf("is not an address")
	case u.User != nil:
		return "", fmt.Errorf("carries credentials: they go into QUEEN_S3_ACCESS_KEY and QUEEN_S3_SECRET_KEY")
	case u.Hostname() == "":
		return "", fmt.Errorf("has no host")
	case strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return "", fmt.Errorf("is not an address")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(host, ":") {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "", fmt.Errorf("has no usable port")
		}
	}
	return scheme + "://" + host, nil
}

// hidePassword leaves out what stands between scheme and host of an address, which may be a password.
func hidePassword(v string) string {
	scheme, rest, ok := strings.Cut(v, "://")
	at := strings.LastIndexByte(rest, '@')
	if !ok || at < 0 {
		return v
	}
	return scheme + "://" + stars + rest[at:]
}

func parseBucket(s *Setting, c *Config, _ environment, v string) error {
	if strings.ContainsFunc(v, func(r rune) bool { return r == '/' || r == '\\' || r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("%s=%s is not a bucket name: it has no slash or space. A path inside the bucket goes into QUEEN_S3_PREFIX",
			s.Env, oneLine(v))
	}
	c.Sink.Bucket = v
	return nil
}

func parsePrefix(s *Setting, c *Config, _ environment, v string) error {
	prefix := strings.Trim(v, "/")
	if prefix == "" {
		return fmt.Errorf("%s=%s is empty without its slashes. It is %s", s.Env, oneLine(v), s.Purpose)
	}
	for segment := range strings.SplitSeq(prefix, "/") {
		switch segment {
		case "":
			return fmt.Errorf("%s=%s has an empty segment between two slashes. It is %s", s.Env, oneLine(v), s.Purpose)
		case ".", "..":
			return fmt.Errorf("%s=%s has a segment `%s`, which some stores resolve. It is %s", s.Env, oneLine(v), segment, s.Purpose)
		}
		if strings.ContainsFunc(segment, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%s=%s has a control character in it. It is %s", s.Env, oneLine(v), s.Purpose)
		}
	}
	c.Sink.Prefix = prefix
	return nil
}

func parseSinkName(s *Setting, c *Config, _ environment, v string) error {
	bad := strings.ContainsFunc(v, func(r rune) bool { return r > 0x7f || !strings.ContainsRune(nameBytes, r) })
	if bad || len(v) > 64 {
		return fmt.Errorf("%s=%s is not a sink name: 1..=64 of [A-Za-z0-9._-]. It scopes the KV documents and is in no object key, "+
			"so two sinks that mirror one queue into one bucket need different QUEEN_S3_PREFIX", s.Env, oneLine(v))
	}
	c.Sink.Name = v
	return nil
}

const nameBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
