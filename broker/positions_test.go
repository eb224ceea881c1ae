package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"queen/broker/state"
	"queen/stages"
)

// Positions of a moment are the same when they are asked for at once and when the log went on, over segments that are sealed meanwhile and a
// restart; a partition that came later is not among them.
func TestPositions(t *testing.T) {
	dir := t.TempDir()
	o := options(t, dir)
	o.SealBytes = 4 << 10
	b := start(t, o)
	moments := map[stages.Micros]string{}
	read := func(at stages.Micros) string {
		t.Helper()
		info, ok := b.Queues(stages.DefaultTenant, "lake").Find("orders")
		if !ok {
			t.Fatal("no queue")
		}
		all, err := b.Log(stages.DefaultTenant).Positions(t.Context(), info.ID, at)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for _, p := range all {
			fmt.Fprintf(&out, "%s %d %x|", p.Name, p.Offset, p.ID)
		}
		return out.String()
	}
	next := uint64(0)
	push := func(partition string, n int) *state.PushResult {
		t.Helper()
		next += uint64(n)
		return mustPush(t, b, "orders", partition, next-uint64(n), n)
	}
	push("b", 3)
	for i := range 40 {
		r := push([]string{"b", "a", fmt.Sprintf("p%d", i)}[i%3], 1+i%4)
		for _, at := range []stages.Micros{r.Stamp, r.Stamp + 1} {
			moments[at] = read(at)
		}
	}
	seed, _ := b.State().Seed()
	first := moments[b.State().Now()+1]
	if want := fmt.Sprintf("a 32 %x|b 38 %x|p", state.UUIDBytes(seed, state.KindPartition, 2), state.UUIDBytes(seed, state.KindPartition, 1)); !strings.HasPrefix(first, want) {
		t.Errorf("at the end: %.200s, want %s", first, want)
	}
	if got := read(stages.Beginning); got != "" {
		t.Errorf("at the beginning: %s", got)
	}
	for range 2 {
		for at, want := range moments {
			if got := read(at); got != want {
				t.Errorf("at %d:\n%s\nat first\n%s", at, got, want)
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = start(t, o)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Log(stages.DefaultTenant).Positions(ctx, 1, 5); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := b.Log(stages.DefaultTenant).Positions(t.Context(), 99, 5); !errors.Is(err, errNoQueue) {
		t.Errorf("no queue: %v", err)
	}
}
