package commit_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"queen/commit"
	"queen/commit/committest"
	"queen/stages"
)

// An intent whose answer was lost lands after its pass was given up, and the next refresh learns the lease's new version from it. The fence of
// the next pass fits then; that the intent row has changed is all that keeps it from being written over unread.
func TestLandedIntentIsNotWrittenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.process(t, &datadriven.TestData{})
		if c, err := p.lease.Acquire(t.Context(), true); err != nil || !c.Held {
			t.Fatal(c, err)
		}
		adopt := func() {
			t.Helper()
			var err error
			if p.pos, err = p.ledger.Adopt(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
		adopt()
		begin := func(ctx context.Context, end stages.Micros) error {
			o := commit.Options{Ledger: p.ledger, Turns: commit.NewTurns(), Pins: p.pins, Finisher: w, Sort: w.sort, Known: p.known,
				Crash: func(string) {}, Slot: w}
			win := stages.Window{K: 1, Start: p.pos.At, Shown: p.pos.At, End: end, Why: stages.Size}
			return commit.NewBegin(o).Do(ctx, win, func(*stages.Job) error { return nil })
		}
		w.faults = []fault{{"intent", committest.Late}}
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := begin(short, 2_000_000); err == nil {
			t.Fatal("an intent without an answer is no success")
		}
		adopt() // it has not landed: the rows show none
		w.kv.Land()
		if lost, err := commit.Refresh(t.Context(), w.kv, []*commit.Lease{p.lease}); err != nil || len(lost) != 0 {
			t.Fatalf("lost %d: %v", len(lost), err)
		}
		err := begin(t.Context(), 3_000_000)
		if row := string(w.kv.Get("s3:default:q:intent").Value); !strings.Contains(row, `"tEnd":2000000`) {
			t.Errorf("the intent up to 2000000 had landed and was written over unread: %s", row)
		}
		if commit.KindOf(err) != commit.Retry || err == nil {
			t.Errorf("the second intent: %v", err)
		}
		if adopt(); p.pos.Redo == nil || p.pos.Redo.End != 2_000_000 {
			t.Errorf("position %+v", p.pos)
		}
	})
}
