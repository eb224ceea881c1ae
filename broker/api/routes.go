package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Level is what a caller must be allowed to do before a route runs.
type Level string

// The levels: admin includes all; read-write includes read-only and write-only.
const (
	Public    Level = "public"
	ReadOnly  Level = "read-only"
	WriteOnly Level = "write-only"
	ReadWrite Level = "read-write"
	Admin     Level = "admin"
)

// Route is one line of the route table. In a pattern, `:name` is one non-empty segment and a last `*name` is the rest of the path,
// slashes and all.
type Route struct {
	Method  string
	Pattern string
	Level   Level

	family family
	handle func(*server, http.ResponseWriter, *http.Request, []string) error
}

// Routes is the one list of what the broker answers. HEAD is answered wherever GET is.
func Routes() []Route {
	return []Route{
		{"POST", "/api/v1/push", WriteOnly, engine, (*server).push},
		{"POST", "/api/v1/fetch", ReadOnly, plain, (*server).fetch},
		{"POST", "/api/v1/fetch/offsets", ReadOnly, plain, (*server).offsets},
		{"POST", "/api/v1/partitions/changed", ReadOnly, plain, (*server).changed},
		{"POST", "/api/v1/kv", ReadWrite, kvForm, (*server).kvBatch},
		{"GET", "/api/v1/kv/:ns/*key", ReadOnly, kvForm, (*server).kvGet},
		{"PUT", "/api/v1/kv/:ns/*key", ReadWrite, kvForm, (*server).kvPut},
		{"DELETE", "/api/v1/kv/:ns/*key", ReadWrite, kvForm, (*server).kvDelete},
		{"POST", "/api/v1/configure", ReadWrite, engine, (*server).configure},
		{"GET", "/api/v1/resources/queues", ReadOnly, engine, (*server).queues},
		{"GET", "/api/v1/resources/queues/:queue", ReadOnly, plain, (*server).queue},
		{"DELETE", "/api/v1/resources/queues/:queue", Admin, plain, (*server).deleteQueue},
		{"GET", "/api/v1/system/raft/membership", Admin, engine, (*server).members},
		{"POST", "/api/v1/system/raft/membership/learners", Admin, engine, (*server).addLearner},
		{"POST", "/api/v1/system/raft/membership/promote", Admin, engine, (*server).promote},
		{"PUT", "/api/v1/system/raft/membership/voters", Admin, engine, (*server).setVoters},
		{"DELETE", "/api/v1/system/raft/membership/members/:id", Admin, engine, (*server).removeMember},
		{"GET", "/health", Public, engine, (*server).health},
		{"GET", "/status", ReadOnly, engine, (*server).status},
		{"GET", "/metrics", Public, engine, (*server).figures},
		{"GET", "/metrics/prometheus", Public, engine, (*server).prometheus},
		{"GET", "/", Public, engine, (*server).root},
	}
}

// membershipPath is what the routes begin with that are about the nodes, and not about what they hold.
const membershipPath = "/api/v1/system/raft/"

// needsState says whether a route reads or changes what is in the log: a node that does not show all of that yet answers 503. Who is a member can be asked and changed
// before, or no node could be added.
func (r *Route) needsState() bool {
	return strings.HasPrefix(r.Pattern, "/api/") && !strings.HasPrefix(r.Pattern, membershipPath)
}

// routesFor leaves out what a node has nothing for.
func routesFor(o Options) []Route {
	return slices.DeleteFunc(Routes(), func(r Route) bool { return o.Members == nil && strings.HasPrefix(r.Pattern, membershipPath) })
}

// compiled is a route with its pattern cut into segments.
type compiled struct {
	Route
	segments []string
}

func compile(routes []Route) []compiled {
	var out []compiled
	for _, r := range routes {
		out = append(out, compiled{r, strings.Split(r.Pattern, "/")[1:]})
	}
	return out
}

// rawPath is the path as the client sent it. EscapedPath would re-encode a path that holds a raw non-ASCII byte from its decoded
// form, in which %2F has already become a slash.
func rawPath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// find matches the path. Without a match it returns the methods that the path knows, sorted; none means that it is unknown.
func find(routes []compiled, method, path string) (*compiled, []string, []string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var allow []string
	for i := range routes {
		params, ok := match(routes[i].segments, path)
		if !ok {
			continue
		}
		if routes[i].Method == method {
			return &routes[i], params, nil
		}
		allow = append(allow, routes[i].Method)
	}
	if slices.Contains(allow, http.MethodGet) {
		allow = append(allow, http.MethodHead)
	}
	slices.Sort(allow)
	return nil, nil, allow
}

// match compares one pattern with an escaped path and returns the parameters, still escaped.
func match(segments []string, path string) (params []string, ok bool) {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return nil, false
	}
	for i, want := range segments {
		if strings.HasPrefix(want, "*") {
			return append(params, rest), true
		}
		got, tail, more := strings.Cut(rest, "/")
		if more == (i == len(segments)-1) {
			return nil, false // the path is longer, or shorter, than the pattern
		}
		switch {
		case strings.HasPrefix(want, ":"):
			if got == "" {
				return nil, false
			}
			params = append(params, got)
		case got != want:
			return nil, false
		}
		rest = tail
	}
	return params, true
}

// decode percent-decodes each parameter once. A plus sign is a plus sign.
func decode(params []string) ([]string, error) {
	for i, p := range params {
		d, err := url.PathUnescape(p)
		if err != nil || !utf8.ValidString(d) {
			return nil, refuse(codeBadRequest, "a path segment is not percent-encoded UTF-8")
		}
		params[i] = d
	}
	return params, nil
}
