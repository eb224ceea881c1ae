package queen_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var requirement = regexp.MustCompile(`(?m)^(?:require)?\s+([a-z0-9.]+/\S+) (v\S+)( // indirect)?$`)

// required reads a go.mod: version by module, and the modules that are named for their own sake.
func required(t *testing.T, path string) (versions map[string]string, direct []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	versions = map[string]string{}
	for _, m := range requirement.FindAllStringSubmatch(string(text), -1) {
		versions[m[1]] = m[2]
		if m[3] == "" {
			direct = append(direct, m[1])
		}
	}
	if len(versions) == 0 {
		t.Fatalf("%s: no requirement found", path)
	}
	return versions, direct
}

// TestVersionsAgree: the demo links the broker and the suites read its objects; what shapes bytes, talks to a bucket or keeps the log must be
// the same version there, or they show and test another program.
func TestVersionsAgree(t *testing.T) {
	broker, _ := required(t, "go.mod")
	for other, prefixes := range map[string][]string{
		"demo/go.mod": {"github.com/klauspost/compress", "github.com/hashicorp/raft", "github.com/aws/", "github.com/cockroachdb/pebble"},
		"test/go.mod": {"github.com/klauspost/compress"}, // it links no broker: its gateway has an AWS SDK of its own
	} {
		versions, _ := required(t, other)
		for name, version := range versions {
			same := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
			if want := broker[name]; want != "" && want != version && slices.ContainsFunc(prefixes, same) {
				t.Errorf("%s has %s %s, the broker has %s", other, name, version, want)
			}
		}
	}
}

// TestDependenciesAreExplained: each module that go.mod names for its own sake has a line that says why.
func TestDependenciesAreExplained(t *testing.T) {
	_, direct := required(t, "go.mod")
	text, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range direct {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/dependencies.md does not say why %s is there", name)
		}
	}
}
