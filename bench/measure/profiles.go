package measure

import (
	"context"
	"fmt"
	"os"

	"queen/bench/profile"
)

// summary says where a profile spent its time; nothing without one.
func (b *Bench) summary(ctx context.Context, file string) ([]string, error) {
	if file == "" {
		return nil, nil
	}
	if _, err := os.Stat(file); err != nil {
		return nil, err
	}
	packages, err := profile.Packages(ctx, file, 12)
	if err != nil {
		return nil, err
	}
	lines, err := profile.Lines(ctx, file, 25)
	if err != nil {
		return nil, err
	}
	notes := []string{"processor time by package, of the last run (the broker ran inside the benchmark's program):"}
	for _, e := range packages {
		notes = append(notes, fmt.Sprintf("  %5.1f %%  %s", 100*e.Share, e.Name))
	}
	notes = append(notes, "and by our lines, with what they call charged to them:")
	for _, e := range lines {
		notes = append(notes, fmt.Sprintf("  %5.1f %%  %s", 100*e.Share, e.Name))
	}
	return notes, nil
}
