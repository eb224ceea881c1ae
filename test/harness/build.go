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

var built = sync.OnceValues(func() (Binaries, error) {
	if dir := os.Getenv(BuiltVar); dir != "" {
		return binaries(dir), nil
	}
	dir, err := os.MkdirTemp("", "queen-e2e-")
	if err != nil {
		return Binaries{}, err
	}
	return BuildInto(dir)
})

// BuiltVar names a variable with the folder in which a parent process has put the programs by BuildInto.
const BuiltVar = "HARNESS_BUILT"

// Build compiles the broker and the gateway, or returns what an earlier call compiled.
func Build() (Binaries, error) { return built() }

func binaries(dir string) Binaries {
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	return Binaries{Queen: filepath.Join(dir, "queen"), Gateway: filepath.Join(dir, "gateway"), Root: root, Python: python(root)}
}

// BuildInto compiles the broker, with these flags of go build, and the gateway into a folder.
func BuildInto(dir string, flags ...string) (Binaries, error) {
	b := binaries(dir)
	queen := append(append([]string{"build"}, flags...), "-o", b.Queen, "./cmd/queen")
	for _, c := range []struct {
		in   string
		args []string
	}{{b.Root, queen}, {filepath.Join(b.Root, "test"), []string{"build", "-o", b.Gateway, "./gateway"}}} {
		cmd := exec.Command("go", c.args...)
		cmd.Dir = c.in
		if out, err := cmd.CombinedOutput(); err != nil {
			return Binaries{}, fmt.Errorf("go %v: %w\n%s", c.args, err, out)
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
