// Package queen_test checks the house itself: who may import whom, that time is injected, that every package says what it is, and
// that files and functions stay readable. Each rule carries its reason; a failure prints it.
package queen_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "queen"

// Sizes of files and functions outside tests, lines.
const (
	maxFile     = 400
	maxFunction = 60
)

// source is one Go file of this module.
type source struct {
	dir  string // package folder, slashes, "." for the root
	path string
	test bool
	file *ast.File
	set  *token.FileSet
}

// imports are the paths that the file imports.
func (s source) imports() []string {
	var out []string
	for _, i := range s.file.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			continue
		}
		out = append(out, path)
	}
	return out
}

// sources parses every Go file of this module; folders with a go.mod of their own are other modules.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			name := entry.Name()
			_, other := os.Stat(filepath.Join(path, "go.mod"))
			if path != "." && (other == nil || name == "testdata" || name[0] == '.' || name[0] == '_') {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		slash := filepath.ToSlash(path)
		out = append(out, source{filepath.ToSlash(filepath.Dir(path)), slash, strings.HasSuffix(path, "_test.go"), file, set})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("only %d Go files found: the rules would hold for nothing", len(out))
	}
	return out
}

// rule forbids some imports to some packages.
type rule struct {
	why   string
	of    func(dir string) bool // packages that the rule is about
	never func(path string) bool
	tests bool // it holds for test files too
}

// in matches packages that are one of dirs or below one of them.
func in(dirs ...string) func(string) bool {
	return func(dir string) bool {
		for _, d := range dirs {
			if dir == d || strings.HasPrefix(dir, d+"/") {
				return true
			}
		}
		return false
	}
}

func not(f func(string) bool) func(string) bool { return func(s string) bool { return !f(s) } }

func everywhere(string) bool { return true }

// ours matches imports of this module's packages, those in except (and below) left out.
func ours(except ...string) func(string) bool {
	return func(path string) bool {
		dir, ok := strings.CutPrefix(path, module+"/")
		return ok && !in(except...)(dir)
	}
}

// only matches imports of these packages of ours.
func only(dirs ...string) func(string) bool {
	return func(path string) bool {
		dir, ok := strings.CutPrefix(path, module+"/")
		return ok && in(dirs...)(dir)
	}
}

// library matches imports of a module; except are packages of it that are left out.
func library(prefix string, except ...string) func(string) bool {
	return func(path string) bool {
		return (path == prefix || strings.HasPrefix(path, prefix+"/")) && !slices.Contains(except, path)
	}
}

func rules() []rule {
	pipeline := []string{"source", "window", "encode", "upload", "commit"}
	return []rule{
		{"stages and config are the vocabulary: whoever reads them first needs nothing else", in("stages", "config"), ours(), false},
		{"a step of the pipeline knows the vocabulary and itself; steps meet in sink", in("source"), ours("source", "stages"), false},
		{"a step of the pipeline knows the vocabulary and itself; steps meet in sink", in("window"), ours("window", "stages"), false},
		{"a step of the pipeline knows the vocabulary and itself; steps meet in sink", in("encode"), ours("encode", "stages", "internal/jsontext", "internal/pagecodec", "internal/parquetfile"), false},
		{"a step of the pipeline knows the vocabulary and itself; steps meet in sink", in("upload"), ours("upload", "stages", "internal/jsontext"), false},
		{"commit knows what upload hands to it, and no other step", in("commit"), ours("commit", "stages", "upload"), false},
		{"the broker is tested without a sink; they meet in node", in("broker"), only(append(pipeline, "sink", "node", "lake", "config", "cmd")...), false},
		{"the sink is tested without a broker; they meet in node", in(append(pipeline, "sink")...), only("broker", "node", "lake", "cmd"), false},
		{"an audit that shared the writer's code would excuse the writer's mistakes", in("lake"), ours("lake", "stages", "upload", "internal/parquetfile"), false},
		{"node joins everything, so only programs may start it", not(in("cmd", "node", "bench")), only("node", "cmd"), true},
		{"small tools know none of the packages that use them", in("internal"), only(append(pipeline, "sink", "node", "lake", "cmd")...), false},
		{"the AWS SDK changes often and is wide: one folder knows it", not(in("upload", "internal/fakes3")), library("github.com/aws"), true},
		{"the state machine is Apply(index, bytes): nothing but raftnode (and the log under test) knows raft", not(in("broker/raftnode", "internal/crashwal")), library("github.com/hashicorp/raft"), true},
		{"the raft log's file format is raftnode's business", not(in("broker/raftnode", "internal/crashwal")), library("github.com/hashicorp/raft-wal"), true},
		{"pebble is the state's; others take its file system interface only, so that crashes can be tested", not(in("broker/state")),
			library("github.com/cockroachdb/pebble", "github.com/cockroachdb/pebble/v2/vfs", "github.com/cockroachdb/pebble/v2/vfs/errorfs"), true},
		{"go-streams carries `any`: stages wraps it once, sink draws with it", not(in("stages", "sink")), library("github.com/reugn/go-streams"), true},
		{"which codec library writes an object shapes its bytes: encode alone decides (lake only reads)", not(in("encode", "lake", "internal/pagecodec")), library("github.com/klauspost/compress"), false},
		{"arrow is as large as all the rest: one folder writes Parquet, one reads it, and both use one codec", not(in("encode/parquet", "internal/parquetfile", "internal/pagecodec")),
			library("github.com/apache/arrow-go"), true},
		{"what reads Parquet back must not know how it was written", in("internal/parquetfile"), ours("internal/parquetfile", "internal/pagecodec", "stages"), false},
	}
}

func TestImports(t *testing.T) {
	files := sources(t)
	for _, r := range rules() {
		for _, s := range files {
			if s.test && !r.tests || !r.of(s.dir) {
				continue
			}
			for _, path := range s.imports() {
				if r.never(path) {
					t.Errorf("%s imports %s: %s", s.path, path, r.why)
				}
			}
		}
	}
}

// A rule that forbids nothing any more, because a folder was renamed, would pass for ever.
func TestRulesName(t *testing.T) {
	dirs := map[string]bool{}
	for _, s := range sources(t) {
		dirs[s.dir] = true
	}
	for _, dir := range []string{"stages", "config", "source", "window", "encode", "upload", "commit", "sink", "lake", "node", "cmd/queen",
		"broker", "broker/raftnode", "broker/state", "internal/fakes3"} {
		if !dirs[dir] {
			t.Errorf("the rules name %s, and there is no such package", dir)
		}
	}
}

// Each of these imports must break a rule, and each of those must not.
func TestRulesBite(t *testing.T) {
	for _, c := range []struct {
		dir, path string
		bad       bool
	}{
		{"stages", "queen/config", true}, {"window", "queen/upload", true}, {"window", "queen/stages", false},
		{"encode/jsonl", "queen/encode/rows", false}, {"upload", "queen/encode", true}, {"commit", "queen/upload", false},
		{"broker/api", "queen/sink", true}, {"broker/api", "queen/broker/kv", false}, {"sink", "queen/broker/kv", true},
		{"lake", "queen/encode", true}, {"lake", "queen/stages", false}, {"sink", "queen/node", true}, {"cmd/queen", "queen/node", false},
		{"sink", "github.com/aws/aws-sdk-go-v2/service/s3", true}, {"upload", "github.com/aws/smithy-go", false},
		{"broker", "github.com/hashicorp/raft", true}, {"broker/raftnode", "github.com/hashicorp/raft-wal", false},
		{"internal/crashwal", "github.com/hashicorp/raft-wal/types", false}, {"broker", "github.com/hashicorp/raft-wal", true},
		{"broker/segment", "github.com/cockroachdb/pebble/v2", true}, {"broker/segment", "github.com/cockroachdb/pebble/v2/vfs", false},
		{"encode", "github.com/apache/arrow-go/v18/parquet", true}, {"encode/parquet", "github.com/apache/arrow-go/v18/parquet/file", false},
		{"lake", "queen/internal/parquetfile", false}, {"internal/parquetfile", "queen/encode/parquet", true}, {"lake", "queen/internal/pagecodec", true},
		{"window", "github.com/reugn/go-streams", true}, {"upload", "github.com/klauspost/compress/zstd", true},
	} {
		broken := slices.ContainsFunc(rules(), func(r rule) bool { return r.of(c.dir) && r.never(c.path) })
		if broken != c.bad {
			t.Errorf("%s importing %s: broken is %v", c.dir, c.path, broken)
		}
	}
}

// Calls that only a program may make: time is injected (contract R4), and output goes through the logger.
func TestCallsOfPrograms(t *testing.T) {
	banned := map[string]string{
		"time.Now": "the clock is injected", "time.Since": "the clock is injected", "fmt.Print": "log instead", "fmt.Println": "log instead",
		"fmt.Printf": "log instead", "os.Exit": "return an error", "log.Fatal": "return an error", "log.Print": "log instead", "log.Printf": "log instead",
	}
	for _, s := range sources(t) {
		if s.test || in("cmd", "bench")(s.dir) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Obj == nil {
					if why := banned[pkg.Name+"."+sel.Sel.Name]; why != "" {
						t.Errorf("%s uses %s.%s: only cmd may; %s", s.set.Position(sel.Pos()), pkg.Name, sel.Sel.Name, why)
					}
				}
			}
			return true
		})
	}
}

// A test that sleeps is slow or wrong, and mostly both.
func TestNoSleepInTests(t *testing.T) {
	files := sources(t)
	bubbles := map[string]bool{} // a sleep in a bubble takes no time
	for _, s := range files {
		bubbles[s.dir] = bubbles[s.dir] || slices.Contains(s.imports(), "testing/synctest")
	}
	for _, s := range files {
		if !s.test || s.path == "imports_test.go" {
			continue
		}
		bubbled := bubbles[s.dir]
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" && !bubbled {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" {
					t.Errorf("%s sleeps: use testing/synctest or a channel", s.set.Position(sel.Pos()))
				}
			}
			return true
		})
	}
}

func TestPackageComments(t *testing.T) {
	said := map[string]bool{}
	for _, s := range sources(t) {
		if s.test && s.dir != "." {
			continue
		}
		said[s.dir] = said[s.dir] || s.file.Doc != nil && len(s.file.Doc.Text()) > 40
	}
	for dir, ok := range said {
		if !ok {
			t.Errorf("package %s does not say what it is", dir)
		}
	}
}

// size is one file or function.
type size struct {
	lines int
	what  string
}

func TestSizes(t *testing.T) {
	var files, functions []size
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		files = append(files, size{s.set.File(s.file.Pos()).LineCount() - 1, s.path})
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				lines := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1
				functions = append(functions, size{lines, fmt.Sprintf("%s %s", s.path, f.Name.Name)})
			}
		}
	}
	judge(t, "files", files, maxFile)
	judge(t, "functions", functions, maxFunction)
}

func judge(t *testing.T, what string, sizes []size, limit int) {
	t.Helper()
	slices.SortFunc(sizes, func(a, b size) int { return cmp.Or(cmp.Compare(b.lines, a.lines), cmp.Compare(a.what, b.what)) })
	for i, s := range sizes {
		if i < 10 {
			t.Logf("%s: %4d lines  %s", what, s.lines, s.what)
		}
		if s.lines > limit {
			t.Errorf("%s: %d lines are more than %d: %s", what, s.lines, limit, s.what)
		}
	}
}
