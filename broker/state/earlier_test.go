package state_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/broker/segment"
	"queen/broker/state"
	"queen/stages"
)

// earlier is a folder that a build wrote which kept each transaction id in a row of its own (docs/formats.md section 5, table D).
// At 7201 s it was pushed a, b and a message without an id to p, and a to o; at 7202 s c to p.
const earlier = "../testdata/ids-1"

// openEarlier opens a copy of the folder.
func openEarlier(t *testing.T) *node {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(earlier)); err != nil {
		t.Fatal(err)
	}
	segments, err := segment.Open(segment.Options{FS: vfs.Default, Dir: filepath.Join(dir, "segments"), Generation: 2})
	if err != nil {
		t.Fatal(err)
	}
	s, err := state.Open(state.Options{Dir: filepath.Join(dir, "state"), Segments: segments, Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	return &node{t: t, segments: segments, State: s}
}

// TestEarlierIDs: ids that an earlier build stored are duplicates inside the window and none outside, also after ids of this
// build; and the state goes on like one that was never closed.
func TestEarlierIDs(t *testing.T) {
	const second, hour = stages.Micros(1_000_000), stages.Micros(3_600_000_000)
	n, next := openEarlier(t), uint32(100)
	defer n.close()
	before, err := n.Dump()
	if err != nil {
		t.Fatal(err)
	}
	tail := before[strings.Index(before, "\nT ")+len("\nT "):][:16+len(" = 01")+24]
	if !strings.Contains(before, "\nU "+tail+strings.Repeat("0", 16)+"\n") {
		t.Errorf("no id of this build is there, and the U row does not name the tail: rows\n%s", before)
	}
	push := func(at stages.Micros, partition string, messages ...string) string {
		return showPush(n.apply(at, pushOf(&next, 1, item{"q", partition, 0, messages}))[0].(*state.PushResult))
	}
	want := func(got, want string) {
		t.Helper()
		if !strings.HasSuffix(got, want+"\n") {
			t.Errorf("%s, want %s", got, want)
		}
	}
	at := 2*hour + 10*second
	want(push(at, "p", "a=x", "new=x", "c=x", "b=x"),
		"0 base=4 [0 is a duplicate of offset 0, message 1] [2 is a duplicate of offset 3, message 6] [3 is a duplicate of offset 1, message 2]")
	want(push(at, "o", "a=x", "b=x"), "0 base=1 [0 is a duplicate of offset 0, message 4]")
	for i := range 3 * maxRecent { // the ids of this build become rows of the same bucket
		n.MaxRecent(maxRecent, maxRecentBytes)
		push(at, "p", fmt.Sprintf("t%d=x", i))
	}
	want(push(at, "p", "a=x", "new=x"), "0 base=-1 [0 is a duplicate of offset 0, message 1] [1 is a duplicate of offset 4, message 102]")
	want(push(3*hour+second, "p", "a=x", "c=x"), "0 base=65 [1 is a duplicate of offset 3, message 6]")
	rows, err := n.Dump()
	if err != nil || strings.Count("\n"+rows, "\nD ") != 5 || !strings.Contains(rows, "\nU ") {
		t.Errorf("%v, rows\n%s", err, rows)
	}
	push(9*hour, "p", "z=x")
	if rows, err := n.Dump(); err != nil || strings.Contains(rows, "\nD ") || strings.Count(rows, "\nI ") != 1 {
		t.Errorf("%v, rows\n%s", err, rows)
	}
}

// TestIDsBecomeRows: with the first record of a bucket, and when too many are in RAM alone or too much would have to be read at boot.
func TestIDsBecomeRows(t *testing.T) {
	n, next := newNode(t), uint32(0)
	n.MaxRecent(10, 2000)
	for i, tc := range []struct {
		queue    string
		messages []string
		stored   int // records in rows, of all queues
	}{
		{"q", []string{"a=1"}, 1},
		{"q", []string{"b=1", "c=1", "d=1", "e=1", "f=1"}, 1},
		{"r", []string{"a=1"}, 2},
		{"r", []string{"b=1", "c=1", "d=1", "e=1", "f=1"}, 2},
		{"q", []string{"a=1"}, 2},
		{"q", []string{"=1"}, 13},
		{"r", []string{"=1"}, 13},
		{"q", []string{"=" + strings.Repeat("x", 2000)}, 15},
		{"q", []string{"=1"}, 15},
	} {
		n.apply(stages.Micros(i), pushOf(&next, 0, item{tc.queue, "p", 0, tc.messages}))
		rows, err := n.Dump()
		if err != nil {
			t.Fatal(err)
		}
		bytes := 0
		for line := range strings.Lines(rows) {
			if strings.HasPrefix(line, "I ") {
				bytes += len(line[strings.Index(line, "= ")+2:]) / 2
			}
		}
		if bytes != 57*tc.stored {
			t.Errorf("push %d: rows of %d bytes, want %d records", i, bytes, tc.stored)
		}
	}
}
