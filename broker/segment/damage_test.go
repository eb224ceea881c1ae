package segment

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/internal/rounds"
	"queen/stages"
)

func lastOf(frames []Frame) map[stages.PartitionID]Frame {
	last := make(map[stages.PartitionID]Frame)
	for _, f := range frames {
		last[f.Partition] = f
	}
	return last
}

// One flipped bit in any file, before the boot or while the store is open: whatever is read is right, or an error names the
// file. Nothing wrong is served and nothing is left out silently.
func TestOneFlippedBit(t *testing.T) {
	fsys := vfs.NewMem()
	s, m := open(t, fsys, 8_000), newMaker(4, 5)
	var want []Frame
	var tail Tail
	for range 120 {
		fs := m.call(30)
		want = append(want, fs...)
		tail = mustAppend(t, s, 1, fs)
	}
	mustSync(t, s)
	if tail.Seg < 3 {
		t.Fatal(tail)
	}
	flips := rounds.Of(200, 20) // in each file: enough that every kind of field is met
	files := []string{"00000001.seg", "00000002.idx", "00000001.idx", segmentName(tail.Seg)}
	for _, name := range files {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(11, 12))
			whole := readFile(t, fsys, dir1+name)
			defer putFile(t, fsys, dir1+name, whole)
			found := 0
			for range flips {
				bit := rng.IntN(8 * len(whole))
				bad := slices.Clone(whole)
				bad[bit/8] ^= 1 << (bit % 8)
				for _, when := range []string{"before the boot", "while open"} {
					err := readFlipped(t, fsys, name, whole, bad, when == "while open", tail, want)
					if errors.Is(err, errWrong) {
						t.Fatalf("bit %d %s: %v", bit, when, err)
					}
					if err == nil {
						continue
					}
					found++
					if !errors.Is(err, stages.ErrDamaged) && !errors.Is(err, ErrShort) || !strings.Contains(err.Error(), name) {
						t.Fatalf("bit %d %s: the error does not name the file: %v", bit, when, err)
					}
				}
			}
			t.Logf("%d of %d flips were an error, the others did not matter", found, 2*flips)
			if strings.HasSuffix(name, segmentExt) && found < flips {
				t.Errorf("only %d of %d flips in a segment were found", found, 2*flips)
			}
		})
	}
}

func readFlipped(t *testing.T, fsys *vfs.MemFS, name string, whole, bad []byte, late bool, tail Tail, want []Frame) error {
	t.Helper()
	first := bad
	if late {
		first = whole
	}
	idx := readFile(t, fsys, dir1+"00000001.idx")
	putFile(t, fsys, dir1+name, first)
	s := open(t, fsys, 8_000)
	err := s.attach(1, tail)
	if late {
		putFile(t, fsys, dir1+name, bad)
	}
	if err == nil {
		err = readEachWay(s.View(1), want)
	}
	putFile(t, fsys, dir1+name, whole)
	if name != "00000001.idx" {
		putFile(t, fsys, dir1+"00000001.idx", idx)
	}
	return err
}

// readEachWay lets no way of reading hide behind the error of another: each must be right or fail by itself.
func readEachWay(v View, want []Frame) error {
	var errs []error
	for i, f := range want {
		h, ok, err := v.Find(f.Partition, f.Base)
		switch {
		case err != nil:
			errs = append(errs, err)
		case !ok:
			errs = append(errs, fmt.Errorf("%w: %d/%d not found", errWrong, f.Partition, f.Base))
		default:
			errs = append(errs, differs(h, f))
		}
		if i%3 > 0 {
			continue // it reads what Find reads
		}
		h, ok, err = v.First(f.Partition, stages.Beginning, f.Base)
		switch {
		case err != nil:
			errs = append(errs, err)
		case !ok:
			errs = append(errs, fmt.Errorf("%w: no first append of %d at %d", errWrong, f.Partition, f.Base))
		default:
			errs = append(errs, differs(h, f))
		}
	}
	half := want[len(want)/2].TS
	i := slices.IndexFunc(want, func(f Frame) bool { return f.TS >= half })
	for h, err := range v.Headers(half, maxMicros) {
		if err != nil {
			errs = append(errs, err)
			i = len(want)
			break
		}
		errs = append(errs, differs(h, want[i]))
		i++
	}
	if i != len(want) {
		errs = append(errs, fmt.Errorf("%w: headers end early", errWrong))
	}
	return errors.Join(append(errs, readAll(v, 1, want))...)
}
