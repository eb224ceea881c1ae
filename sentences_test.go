package queen_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/sentences.golden")

// unspoken are folders whose texts reach nobody who runs Queen: other modules, and what only tests use.
var unspoken = []string{"bench", "demo", "test", "internal/certtest", "internal/crashwal", "internal/fakes3", "internal/hostile", "internal/pipenet", "commit/committest", "encode/rowstest"}

// TestSentences collects what people can be told, by a refusal, a row of status, a log line or a command: each text of three words and more in the source, by package. It is to be
// read as its readers do, at night: does it say what, where, which value, what to do? Whoever changes one looks at the difference. How those of a bucket look when they are put together is in
// upload/testdata/sentences.golden.
func TestSentences(t *testing.T) {
	byPackage := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if slices.Contains(unspoken, filepath.ToSlash(path)) || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != "." {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		said, err := saidIn(path)
		dir := filepath.ToSlash(filepath.Dir(path))
		byPackage[dir] = append(byPackage[dir], said...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, dir := range slices.Sorted(maps.Keys(byPackage)) {
		if said := byPackage[dir]; len(said) > 0 {
			fmt.Fprintf(&b, "# %s\n\n%s\n\n", dir, strings.Join(said, "\n"))
		}
	}
	const name = "testdata/sentences.golden"
	if *update {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("%s is not what the source says; read the difference, then run with -update:\n%s", name, d)
	}
}

// saidIn are the texts of a file in their order, each on one line.
func saidIn(path string) (said []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field: // a tag
			return n.Tag == nil
		case *ast.CallExpr: // a broken invariant
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "panic" {
				return false
			}
		case ast.Expr:
			if text, ok := joined(n); ok {
				if text = strings.Join(strings.Fields(text), " "); words(text) >= 3 {
					said = append(said, text)
				}
				return false
			}
		}
		return true
	})
	return said, nil
}

// joined is a literal, or a sum with a literal in it: what is not one is … in it.
func joined(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, okLeft := joined(e.X)
		right, okRight := joined(e.Y)
		if !okLeft {
			left = "…"
		}
		if !okRight {
			right = "…"
		}
		return left + right, okLeft || okRight
	}
	return "", false
}

// words counts what is between spaces and has two letters and more, verbs of a format aside.
func words(text string) (n int) {
	for _, w := range strings.Fields(text) {
		if letters := strings.IndexFunc(w, unicode.IsLetter); letters >= 0 && !strings.HasPrefix(w, "%") && len(w) > 1 {
			n++
		}
	}
	return n
}
