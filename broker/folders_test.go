package broker

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"

	"queen/broker/command"
	"queen/broker/kv"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/stages"
)

// Folders of earlier builds, and what each must give back, lie in testdata/folders (README.md there). A build opens them all.

const foldersDir = "testdata/folders"

var writeFolder = flag.String("write", "", "name of a folder that TestFolders makes with this build, such as v1-2762678")

// folderClock is a wall clock that moves when it is told to, so that what a folder says about time does not depend on when it is opened.
type folderClock struct{ at time.Time }

func (c *folderClock) options(t testing.TB, dir string) Options {
	began := c.at
	o := options(t, dir)
	o.Now = func() time.Time { return c.at }
	o.Elapsed = func() time.Duration { return c.at.Sub(began) }
	return o
}

// TestFolders opens the folder of every earlier build, as a kill left it, and goes on with it.
func TestFolders(t *testing.T) {
	if *writeFolder != "" {
		makeArchive(t, *writeFolder)
	}
	archives, err := filepath.Glob(filepath.Join(foldersDir, "*.tar.zst"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("no folders in %s: %v", foldersDir, err)
	}
	for _, archive := range archives {
		name := strings.TrimSuffix(filepath.Base(archive), ".tar.zst")
		t.Run(name, func(t *testing.T) {
			golden, err := os.ReadFile(filepath.Join(foldersDir, name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			head, want, _ := strings.Cut(string(golden), "\n")
			var now stages.Micros
			var applied uint64
			if _, err := fmt.Sscanf(head, listingHead, &now, &applied); err != nil {
				t.Fatalf("first line %q: %v", head, err)
			}
			dir := filepath.Join(t.TempDir(), "data")
			unpack(t, archive, dir)
			if at := loadedIndex(t, dir); at >= applied {
				t.Errorf("the state alone is at entry %d of %d: nothing is left to replay", at, applied)
			}
			openEarlier(t, dir, now, want)
			lost := filepath.Join(t.TempDir(), "lost")
			unpack(t, archive, lost)
			if _, err := os.Stat(filepath.Join(lost, snapshotsDir)); err == nil { // and its snapshot is as good as its state
				must(t, os.RemoveAll(filepath.Join(lost, stateDir)))
				must(t, os.RemoveAll(filepath.Join(lost, segmentsDir)))
				openEarlier(t, lost, now, want)
			}
		})
	}
}

// openEarlier opens a folder whose log clock stands at now.
func openEarlier(t *testing.T, dir string, now stages.Micros, want string) {
	clock := &folderClock{now.Time()}
	b := start(t, clock.options(t, dir))
	first := list(t, b)
	same(t, "as it was left", first.text, want)
	duplicates(t, b, first)
	windowOpen(t, b, first)
	same(t, "after the duplicates", list(t, b).text, want)

	grow(t, b, first)
	grown := list(t, b)
	if n := len(first.records) + len(first.partitions) + 1; len(grown.records) != n {
		t.Errorf("%d records, want %d: one more in each partition, and a new one", len(grown.records), n)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = start(t, clock.options(t, dir))
	same(t, "closed and opened again", list(t, b).text, grown.text)
	duplicates(t, b, grown)

	// The led clock takes at most a second from each command. What lives as long as a lease is gone after so many of them.
	for range shortLife/time.Second + 1 {
		clock.at = clock.at.Add(time.Second)
		if _, err := b.Propose(t.Context(), command.KindTick, nil); err != nil {
			t.Fatal(err)
		}
	}
	left := list(t, b).documents
	gone := 0
	for key, d := range first.documents {
		if _, there := left[key]; there == (d.Expires <= now+stages.Micros(shortLife/time.Microsecond)) {
			t.Errorf("document %s, which expires at %d, is there at %s: %v", key, d.Expires, stages.MicrosOf(clock.at).ISO(), there)
		} else if !there {
			gone++
		}
	}
	if gone == 0 || gone == len(first.documents) {
		t.Errorf("%d of %d documents have expired: not the case that is meant", gone, len(first.documents))
	}
}

// same compares two listings line by line.
func same(t *testing.T, when, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		switch {
		case i >= len(g):
			t.Fatalf("%s: missing from line %d on: %s", when, i+2, w[i])
		case i >= len(w):
			t.Fatalf("%s: too much: %s", when, g[i])
		case g[i] != w[i]:
			t.Fatalf("%s: line %d is\n%s\nwant\n%s", when, i+2, g[i], w[i])
		}
	}
}

// duplicates pushes every transaction id of a listing again, an append for each partition.
func duplicates(t *testing.T, b *Broker, l *everything) {
	t.Helper()
	for _, p := range l.partitions {
		var messages []segment.Message
		var want []state.Dup
		for _, r := range l.records {
			if r.queue == p.queue && r.partition == p.name {
				want = append(want, state.Dup{Index: len(want), Offset: r.offset, ID: folderID(r.tx)})
				messages = append(messages, segment.Message{ID: [16]byte{99}, TxID: []byte(r.tx), Payload: []byte(`"again"`)})
			}
		}
		answer, err := b.Propose(t.Context(), command.KindPush, onePush(t, p.queue, p.name, messages...))
		if err != nil {
			t.Fatal(err)
		}
		if a := answer.(*state.PushResult).Appends[0]; a.Base != -1 || !slices.Equal(a.Dups, want) {
			t.Errorf("the records of %q/%q again: %+v, want duplicates of %+v", p.queue, p.name, a, want)
		}
	}
}

// windowOpen lists the window whose intent the folder holds.
func windowOpen(t *testing.T, b *Broker, l *everything) {
	t.Helper()
	q, ok := b.Queues(stages.DefaultTenant, "lake").Find(folderQueue)
	if !ok {
		t.Fatalf("no queue %q", folderQueue)
	}
	w, err := b.Log(stages.DefaultTenant).Listing(t.Context(), q.ID, folderSink, 2)
	if err != nil {
		t.Fatal(err)
	}
	if tail := b.segs.View(q.ID).Tail(); tail.Seg < 2 {
		t.Errorf("the log of %q ends in segment %d: no sealed one was kept", folderQueue, tail.Seg)
	}
	inside := 0
	for _, r := range l.records {
		if r.queue == folderQueue && r.ts >= w.Start && r.ts < w.End {
			inside++
		}
	}
	got := int(w.Records)
	if inside == 0 || got != inside {
		t.Errorf("window 2 of %q has %d records, the listing %d between its bounds", folderQueue, got, inside)
	}
}

// grow pushes one record into every partition of a listing and into a new one, and finds every document at its version.
func grow(t *testing.T, b *Broker, l *everything) {
	t.Helper()
	for _, p := range append(slices.Clone(l.partitions), listedPartition{queue: "new queue", name: "new"}) {
		tx := fmt.Sprintf("grown %s/%s", p.queue, p.name)
		m := segment.Message{ID: folderID(tx), TxID: []byte(tx), Payload: []byte(`{"grown":true}`)}
		answer, err := b.Propose(t.Context(), command.KindPush, onePush(t, p.queue, p.name, m))
		if err != nil {
			t.Fatal(err)
		}
		if r := answer.(*state.PushResult); r.Appends[0].Base != p.next || len(r.Appends[0].Dups) != 0 {
			t.Errorf("a new record of %q/%q: %+v, want offset %d", p.queue, p.name, r.Appends[0], p.next)
		}
	}
	for name, d := range l.documents {
		ns, key, _ := strings.Cut(name, " ")
		old := d.Version + 1_000_000
		out := batch(t, b, kv.Op{Kind: kv.Put, NS: ns, Key: key, Value: []byte(`"stale"`), Forever: true, Expect: &old},
			kv.Op{Kind: kv.Check, NS: ns, Key: key, Expect: &d.Version})
		if out[0].Applied || out[0].Reason != kv.ReasonVersion || !out[1].Applied {
			t.Errorf("document %s at version %d: %+v", name, d.Version, out)
		}
	}
}

// batch runs operations of any namespace.
func batch(t *testing.T, b *Broker, ops ...kv.Op) []kv.Result {
	t.Helper()
	if err := kv.Validate(ops); err != nil {
		t.Fatal(err)
	}
	tenant, err := tenantID(stages.DefaultTenant)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := b.Propose(t.Context(), command.KindKV, command.KV{Tenant: tenant, Ops: ops}.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	return answer.(*kv.Outcome).Results
}

// onePush is a push of one message as a node would make it: the flag of line breaks is of the payload.
func onePush(t testing.TB, queue, partition string, messages ...segment.Message) []byte {
	t.Helper()
	tenant, err := tenantID(stages.DefaultTenant)
	if err != nil {
		t.Fatal(err)
	}
	a := command.PushAppend{Partition: partition, Count: len(messages)}
	for _, m := range messages {
		a.Block = segment.AppendMessage(a.Block, m)
		if bytes.ContainsAny(m.Payload, "\r\n") {
			a.Flags |= stages.FlagLineBreaks
		}
	}
	p := command.Push{Tenant: tenant, Queues: []command.PushQueue{{Name: queue}}, Appends: []command.PushAppend{a}}
	return p.Append(nil)
}

// loadedIndex is the raft index that the state of a folder is at before anything is replayed. It changes nothing.
func loadedIndex(t *testing.T, dir string) uint64 {
	t.Helper()
	segs, err := segment.Open(segment.Options{FS: vfs.Default, Dir: filepath.Join(dir, segmentsDir), Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := state.Load(state.Options{FS: vfs.Default, Dir: filepath.Join(dir, stateDir), Segments: segs, Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(s.Close(), segs.Close()); err != nil {
			t.Error(err)
		}
	}()
	return s.Applied()
}

// pack writes a folder as one compressed tar, files in the order of their names.
func pack(dir, archive string) error {
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: path, Size: int64(len(text)), Mode: 0o644, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		return err
	}
	return os.WriteFile(archive, out.Bytes(), 0o644)
}

func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", archive, err)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		text, err := io.ReadAll(r)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, text, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}
