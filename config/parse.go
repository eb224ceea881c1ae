package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// ExitCode is the exit code of a boot that a bad setting ended.
const ExitCode = 78

// Error is a setting that ends the boot. Its text is one line that names the variable; a setting of the sink is preceded by
// what made it matter (sink settings are read only when the sink runs).
type Error struct {
	Sink    bool   // it is a setting of the sink
	Message string // without the prefix
}

var _ error = (*Error)(nil)

func (e *Error) Error() string {
	if e.Sink {
		return "QUEEN_S3_EMBEDDED=true: " + e.Message
	}
	return e.Message
}

// environment is the environment of a process: trimmed values, blank ones left out.
type environment map[string]string

func read(environ []string) environment {
	env := environment{}
	for _, line := range environ {
		name, value, ok := strings.Cut(line, "=")
		if _, twice := env[name]; ok && !twice {
			env[name] = strings.TrimSpace(value) // the first of two counts, as in os.Getenv
		}
	}
	maps.DeleteFunc(env, func(_, value string) bool { return value == "" })
	return env
}

// FromEnv reads the settings from an environment in the form of os.Environ. Its error is an *Error: the first setting, in the
// order of the table, that is missing or wrong.
func FromEnv(environ []string) (Config, error) {
	env := read(environ)
	c := Config{}
	if err := refuseUnsafe(env); err != nil {
		return Config{}, err
	}
	if err := c.fill(env, Broker); err != nil {
		return Config{}, &Error{Message: err.Error()}
	}
	if err := c.checkCluster(); err != nil {
		return Config{}, &Error{Message: err.Error()}
	}
	c.Warnings = warnings(env, c.Sink != nil)
	if c.Sink == nil {
		return c, nil
	}
	if err := c.fillSink(env); err != nil {
		return Config{}, &Error{Sink: true, Message: err.Error()}
	}
	return c, nil
}

func (c *Config) fillSink(env environment) error {
	if err := refusePartitions(env); err != nil {
		return err
	}
	if err := needQueues(env); err != nil {
		return err
	}
	c.Sink.Tenant = DefaultTenant
	if err := c.fill(env, Process, PerSink, Node); err != nil {
		return err
	}
	if c.Sink.SSEKMSKeyID != "" && c.Sink.SSE != "aws:kms" {
		return fmt.Errorf("QUEEN_S3_SSE_KMS_KEY_ID is set but QUEEN_S3_SSE is not aws:kms: the key id would be ignored")
	}
	if err := c.Sink.checkKeys(env); err != nil {
		return err
	}
	c.Sink.Instance = instance(c.Sink.Instance, c.NodeID, hostname(env))
	return nil
}

// needQueues names the first setting that only matters to a sink that nothing turns on.
func needQueues(env environment) error {
	if _, ok := env["QUEEN_S3_QUEUES"]; ok {
		return nil
	}
	for _, s := range Settings() {
		if _, set := env[s.Env]; set && s.Scope == PerSink {
			return fmt.Errorf("%s is set but QUEEN_S3_QUEUES is not. QUEEN_S3_QUEUES is what turns the environment's sink on", s.Env)
		}
	}
	return nil
}

func (c *Config) fill(env environment, scopes ...Scope) error {
	for _, s := range Settings() {
		for _, scope := range scopes {
			if s.Scope == scope {
				if err := s.fill(c, env); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *Setting) fill(c *Config, env environment) error {
	v, ok := env[s.Env]
	if !ok {
		v = s.Default
	}
	if v == "" {
		if s.Required {
			return fmt.Errorf("%s is not set: it is %s", s.Env, s.Purpose)
		}
		return nil
	}
	if s.parse != nil {
		return s.parse(s, c, env, v)
	}
	return s.store(s.into(c), v)
}

// store parses v by the type of the field it goes to.
func (s *Setting) store(field any, v string) error {
	switch f := field.(type) {
	case *Secret:
		*f = Secret(v)
	case *bool:
		b, err := s.boolean(v)
		*f = b
		return err
	case *string:
		if s.Kind != Choice {
			*f = v
			return nil
		}
		o, err := s.choose(v)
		*f = o
		return err
	case *int:
		n, err := s.number(v)
		*f = int(n)
		return err
	case *int64:
		n, err := s.number(v)
		*f = n * s.Unit
		return err
	case *time.Duration:
		n, err := s.number(v)
		*f = time.Duration(n * s.Unit)
		return err
	}
	return nil
}

func (s *Setting) number(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil && errors.Is(err, strconv.ErrRange) {
		n = math.MaxInt64
		if strings.HasPrefix(v, "-") {
			n = math.MinInt64
		}
		err = nil
	}
	bad := err != nil || strings.HasPrefix(v, "+")
	switch {
	case s.Integer && (bad || n < s.Min || n > s.Max):
		return 0, fmt.Errorf("%s=%s is not an integer in %d..=%d", s.Env, oneLine(v), s.Min, s.Max)
	case bad:
		return 0, fmt.Errorf("%s=%s is not a whole number. It is %s, in %d..=%d", s.Env, oneLine(v), s.Purpose, s.Min, s.Max)
	case n < s.Min || n > s.Max:
		return 0, fmt.Errorf("%s=%s is outside %d..=%d. It is %s", s.Env, oneLine(v), s.Min, s.Max, s.Purpose)
	}
	return n, nil
}

func (s *Setting) boolean(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true", "1", "yes", "on":
		return true, nil
	case "false", "0", "no", "off":
		return false, nil
	}
	return false, fmt.Errorf("%s=%s is not a boolean: use true or false. It is %s", s.Env, oneLine(v), s.Purpose)
}

func (s *Setting) choose(v string) (string, error) {
	for _, o := range s.Options {
		if !o.is(v) {
			continue
		}
		if o.Absent != "" {
			return "", fmt.Errorf("%s=%s is not available: %s", s.Env, o.Value, o.Absent)
		}
		return o.Value, nil
	}
	var means []string
	for _, o := range s.Options {
		clause := o.Value + " " + o.Means
		if o.Absent != "" {
			clause += " (not available: " + o.Absent + ")"
		}
		means = append(means, clause)
	}
	return "", fmt.Errorf("%s=%s is not %s %s: %s", s.Env, oneLine(v), article(s.Noun), s.Noun, strings.Join(means, ", "))
}

func (o Option) is(v string) bool {
	for _, name := range append([]string{o.Value}, o.Aliases...) {
		if strings.EqualFold(name, v) {
			return true
		}
	}
	return false
}

func article(noun string) string {
	if strings.ContainsAny(noun[:1], "aeiou") {
		return "an"
	}
	return "a"
}

// oneLine keeps a value with control bytes from breaking the one line of a refusal.
func oneLine(v string) string {
	if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return strconv.Quote(v)
	}
	return v
}

// instance is this node's name in lease rows (contract S3): the default names node and host; a name that was given gets
// /node-<id> so that two nodes with one environment never share it.
func instance(given string, node int, host string) string {
	if given != "" {
		suffix := fmt.Sprintf("/node-%d", node)
		return strings.TrimSuffix(given, suffix) + suffix
	}
	return fmt.Sprintf("node-%d@%s", node, host)
}

// hostname is HOSTNAME, else what the system says, else localhost.
func hostname(env environment) string {
	if host := env["HOSTNAME"]; host != "" {
		return host
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		return host
	}
	return "localhost"
}
