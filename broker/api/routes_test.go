package api

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	routes := compile(Routes())
	for _, c := range []struct {
		method, path string
		pattern      string   // of the route that answers; empty = none
		params       []string // decoded
		allow        string
	}{
		{"POST", "/api/v1/push", "/api/v1/push", nil, ""},
		{"GET", "/api/v1/push", "", nil, "POST"},
		{"OPTIONS", "/health", "", nil, "GET,HEAD"},
		{"HEAD", "/health", "/health", nil, ""},
		{"POST", "/api/v1/kv/ns/k", "", nil, "DELETE,GET,HEAD,PUT"},
		{"GET", "/api/v1/kv/ns/a/b//c/", "/api/v1/kv/:ns/*key", []string{"ns", "a/b//c/"}, ""},
		{"GET", "/api/v1/kv/ns/a%2Fb%252F+%20", "/api/v1/kv/:ns/*key", []string{"ns", "a/b%2F+ "}, ""},
		{"GET", "/api/v1/kv/a%2Fb/k", "/api/v1/kv/:ns/*key", []string{"a/b", "k"}, ""},
		{"GET", "/api/v1/kv/../..", "/api/v1/kv/:ns/*key", []string{"..", ".."}, ""},
		{"GET", "/api/v1/kv/ns/../x", "/api/v1/kv/:ns/*key", []string{"ns", "../x"}, ""},
		{"GET", "/api/v1/kv/ns/", "/api/v1/kv/:ns/*key", []string{"ns", ""}, ""},
		{"GET", "/api/v1/kv/ns", "", nil, ""},
		{"GET", "/api/v1/kv//k", "", nil, ""},
		{"POST", "/api/v1/kv", "/api/v1/kv", nil, ""},
		{"POST", "/api/v1/kv/", "", nil, ""},
		{"POST", "//api/v1/push", "", nil, ""},
		{"POST", "/api//v1/push", "", nil, ""},
		{"POST", "/api/v1/push/", "", nil, ""},
		{"POST", "/api/v1/./push", "", nil, ""},
		{"POST", "/api/v1/x/../push", "", nil, ""},
		{"POST", "/api/v1%2Fpush", "", nil, ""},
		{"POST", "/api/v1/pus%68", "", nil, ""}, // a fixed segment is matched as it is sent
		{"POST", "/API/v1/push", "", nil, ""},
		{"GET", "/", "/", nil, ""},
		{"GET", "", "", nil, ""},
		{"GET", "/x", "", nil, ""},
	} {
		route, params, allow := find(routes, c.method, c.path)
		got := ""
		if route != nil {
			got = route.Pattern
		}
		if got != c.pattern || strings.Join(allow, ",") != c.allow {
			t.Errorf("%s %s: %q, allow %v", c.method, c.path, got, allow)
		}
		decoded, err := decode(params)
		if err != nil || strings.Join(decoded, "|") != strings.Join(c.params, "|") {
			t.Errorf("%s %s: params %q, %v", c.method, c.path, decoded, err)
		}
	}
}

func TestDecodeOnce(t *testing.T) {
	for _, bad := range []string{"%", "%zz", "%ff", "%ed%a0%80", "\xff"} {
		if got, err := decode([]string{bad}); err == nil {
			t.Errorf("decode(%q) = %q", bad, got)
		}
	}
}

// A path with a raw non-ASCII byte and %2F keeps its %2F, and nothing is ever redirected.
func TestPathsAsSent(t *testing.T) {
	u, err := url.ParseRequestURI("/api/v1/kv/ns/é%2Fb")
	if err != nil {
		t.Fatal(err)
	}
	_, params, _ := find(compile(Routes()), "GET", rawPath(u))
	if len(params) != 2 || params[1] != "é%2Fb" {
		t.Errorf("params %q", params)
	}
	f := newFixture(t, nil)
	for _, path := range []string{"//", "//health", "/health/", "/./health", "/a/../health", "/health%2F", "/%2e/health", "/api/v1/queue", "/streams/v1/cycle"} {
		w := f.do("GET", path, nil)
		want := `{"code":"no_such_route","error":"not found","path":"` + path + `"}`
		if w.Code != http.StatusNotFound || w.Body.String() != want || w.Header().Get("Location") != "" {
			t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
		}
	}
	w := f.do("DELETE", "/api/v1/push", nil)
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" || w.Body.String() != `{"error":"method not allowed","code":"method_not_allowed"}` {
		t.Errorf("DELETE push: %d %s %v", w.Code, w.Body, w.Header())
	}
}

// Every route has a level, a handler and a pattern that matches itself; no two lines are the same.
func TestRouteTable(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Routes() {
		key := r.Method + " " + r.Pattern
		if seen[key] || r.handle == nil || r.Level == "" || !strings.HasPrefix(r.Pattern, "/") {
			t.Errorf("route %s is wrong", key)
		}
		seen[key] = true
		got, _, _ := find(compile(Routes()), r.Method, r.Pattern)
		if got == nil || got.Pattern != r.Pattern {
			t.Errorf("%s does not match itself", key)
		}
	}
}
