package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

// Binaries are the programs under test, built once a test process.
type Binaries struct {
	Queen, Gateway string
	Python         string // an interpreter with zstandard and duckdb
	Root           string // of the repository
}

var built = sync.OnceValues(build)

// Build compiles the broker and the gateway, or returns what an earlier call compiled.
func Build() (Binaries, error) { return built() }

func build() (Binaries, error) {
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	dir, err := os.MkdirTemp("", "queen-e2e-")
	if err != nil {
		return Binaries{}, err
	}
	b := Binaries{Queen: filepath.Join(dir, "queen"), Gateway: filepath.Join(dir, "gateway"), Root: root, Python: python(root)}
	for _, c := range []struct{ in, out, pkg string }{{root, b.Queen, "./cmd/queen"}, {filepath.Join(root, "test"), b.Gateway, "./gateway"}} {
		cmd := exec.Command("go", "build", "-o", c.out, c.pkg)
		cmd.Dir = c.in
		if out, err := cmd.CombinedOutput(); err != nil {
			return Binaries{}, fmt.Errorf("go build %s: %w\n%s", c.pkg, err, out)
		}
	}
	return b, nil
}

// python prefers the interpreter that `make e2e` prepared, then what the environment names, then the system's.
func python(root string) string {
	if p := os.Getenv("QUEEN_TEST_PYTHON"); p != "" {
		return p
	}
	if p := filepath.Join(root, ".venv", "bin", "python"); exists(p) {
		return p
	}
	return "python3"
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
