package mutation

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// simulationTable is the argument once more, for whole clusters: nobody stands where the line was, only three nodes that much goes wrong with. faults
// is what goes wrong, kinds of test/sim/faults.go: those that need the line, so that a few worlds are enough.
var simulationTable = []mutation{
	{invariant: stamps, why: "the stamp is what was proposed, not what the applied log allows",
		file: "broker/state/apply.go", old: "m.now = max(proposed, before+1)", new: "m.now = proposed",
		pkg: "test/sim", test: "TestSim", says: "have one stamp", faults: "clock,crash,partition"},
	{invariant: set, why: "retention takes records out of an open window",
		file: "broker/state/retain.go", old: "p.frozen = retention.Frozen(p.sinks)", new: "p.frozen = nil",
		pkg: "test/sim", test: "TestSim", says: "was sent with two different bodies", faults: "manifests,manifests,crash"},
	{invariant: set, why: "which appends a window holds is what its queue had before its intent",
		file: "broker/log.go",
		old:  "view, live = r.Segments(queue), r.Removed(queue).Live(from, before)",
		new:  "view, live = r.Segments(queue), r.Removed(queue).Live(from, before); early.Store([2]any{l, queue}, r.Removed(queue))",
		also: [][2]string{
			{"view, live = r.Segments(queue), r.Removed(queue).Live(start, end)",
				"view, live = r.Segments(queue), r.Removed(queue).Live(start, end); if was, ok := early.Load([2]any{l, queue}); ok { live = was.(retention.Removed).Live(start, end) }"},
			{"var errNoQueue = ", "var early sync.Map; var errNoQueue = "},
			{"\t\"iter\"\n", "\t\"iter\"; \"sync\"\n"},
		},
		pkg: "test/sim", test: "TestSim", says: "the lake of q3: ", orSays: "was sent with two different bodies", faults: "outage,outage,manifests"},
	{invariant: bytes, why: "an open intent is not redone; its window is cut again, with another end",
		file: "commit/adopt.go", old: "if in.K == g.k+1 {", new: "if in.K == g.k+2 {",
		pkg: "test/sim", test: "TestSim", says: "was sent with two different bodies", faults: "crash,bucket,stop"},
	{invariant: bytes, why: "appends are not sorted",
		file: "window/sort.go", old: "\tpermute(l.Appends, place)\n", new: "\t_ = place\n",
		pkg: "test/sim", test: "TestSim", says: "appends out of order", faults: "crash,stop"},
	{invariant: fence, why: "the fence does not ask for the version that this node wrote",
		file: "commit/lease.go", old: "TTL: l.ttl(), Expect: &version, Required: true}, err", new: "TTL: l.ttl(), Required: version > 0}, err",
		pkg: "test/sim", test: "TestSim", says: ", and the queue was node-", faults: "stall,stall,bucket,partition"},
}

// Limits of a line that is taken out: it has to be missed within so many worlds, as far as these are simulated in time.
const (
	worldsFor = 3 * time.Minute // rarely needed: mostly the first to third world misses it. The last may go on for another
	worldMost = 90 * time.Second
)

// TestSimulation takes lines out of the product until the simulation goes red, each for the reason that the table gives. Their faults alone turn
// nothing red.
func TestSimulation(t *testing.T) {
	t.Run("green", func(t *testing.T) {
		sim := simulation(t, "")
		var tried []string
		for _, m := range simulationTable {
			if slices.Contains(tried, m.faults) {
				continue
			}
			tried = append(tried, m.faults)
			if out, err := worlds(sim, m.faults, "SEED=1"); err != nil || !strings.Contains(out, "--- PASS: TestSim ") {
				t.Errorf("%s: red without any change: %v\n%s", m.faults, err, head(out))
			}
		}
	})
	for _, m := range simulationTable {
		t.Run(m.invariant+": "+m.why, func(t *testing.T) { missed(t, m) })
	}
}

// missed runs worlds without one line until one goes red.
func missed(t *testing.T, m mutation) {
	begun := time.Now()
	overlay, line := overlay(t, m)
	sim := simulation(t, overlay)
	built := time.Now()
	out, err := worlds(sim, m.faults, "SIM="+worldsFor.String())
	n := strings.Count(out, "=== RUN   TestSim/")
	if err == nil {
		t.Fatalf("%d worlds stay green with this:\n  %s:%d\n  - %s\n  + %s", n, m.file, line, m.old, m.new)
	}
	said := message(out, m.says)
	if said == "" && m.orSays != "" {
		said = message(out, m.orSays)
	}
	if said == "" || !strings.Contains(out, "--- FAIL: TestSim") {
		t.Fatalf("the simulation went red, and not with %q:\n%s", m.says, head(out))
	}
	t.Logf("\n  %s:%d\n  - %s\n  + %s\n  red in world %d, %.0f s after %.0f s of building:\n  %s", m.file, line, strings.TrimSpace(m.old), strings.TrimSpace(m.new),
		n, time.Since(built).Seconds(), built.Sub(begun).Seconds(), said[:min(len(said), 600)])
}

// simulation builds the simulation's test, with an overlay or without one.
func simulation(t *testing.T, overlay string) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "sim.test")
	args := []string{"test", "-c", "-vet", "off", "-o", binary}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Dir = filepath.Join(root(), "test", "sim")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the simulation does not build: %v\n%s", err, out)
	}
	return binary
}

// worlds runs the simulation until a world goes red, or how says that it is enough.
func worlds(binary, faults, how string) (string, error) {
	cmd := exec.Command(binary, "-test.v", "-test.run", "^TestSim$", "-test.timeout", (worldsFor + worldMost).String())
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); name != "SEED" && name != "SIM" {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	cmd.Env = append(cmd.Env, how, "SIM_FAULTS="+faults)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
