package broker

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"queen/broker/command"
	"queen/broker/raftnode"
	"queen/stages"
)

func TestRestartKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	b := start(t, options(t, dir))
	first := mustPush(t, b, "orders", "a", 0, 3)
	second := mustPush(t, b, "orders", "b", 3, 2)
	if second.Stamp <= first.Stamp {
		t.Errorf("stamps %d, %d do not rise", first.Stamp, second.Stamp)
	}
	seed, known := b.State().Seed()
	if !known {
		t.Fatal("the cluster has no seed")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	b = start(t, options(t, dir))
	if again, _ := b.State().Seed(); again != seed {
		t.Errorf("seed %x became %x", seed, again)
	}
	dup := mustPush(t, b, "orders", "a", 0, 3)
	if dup.Appends[0].Base != -1 || len(dup.Appends[0].Dups) != 3 {
		t.Errorf("the same records again: %+v", dup.Appends[0])
	}
	if third := mustPush(t, b, "orders", "a", 5, 1); third.Appends[0].Base != 3 || third.Stamp <= second.Stamp {
		t.Errorf("offset %d, stamp %d", third.Appends[0].Base, third.Stamp)
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	start(t, options(t, dir))
	b, err := New(options(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Open(t.Context()); err == nil || !strings.Contains(err.Error(), dir+" is in use by another process") {
		t.Errorf("second open: %v", err)
	}
}

func TestFoldersOfTwoClustersAreRefused(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, two} {
		b := start(t, options(t, dir))
		mustPush(t, b, "q", "p", 0, 1)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(one, "FORMAT"), filepath.Join(two, "FORMAT")); err != nil {
		t.Fatal(err)
	}
	b, err := New(options(t, two))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "come from two clusters") {
		t.Errorf("another FORMAT: %v", err)
	}
	// A state that is ahead of its raft log: new entries would be skipped as old ones.
	b, err = New(options(t, one))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(one, "raft")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(one, "FORMAT"), mustRead(t, filepath.Join(two, "FORMAT")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "the end of the log is lost") {
		t.Errorf("no raft log: %v", err)
	}
}

func mustRead(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// fed is a broker with five pushes into one queue, and one into another.
type fed struct {
	*Broker
	log    stages.Log
	queue  stages.QueueInfo
	stamps []stages.Micros
}

func feed(t *testing.T) fed {
	t.Helper()
	b := start(t, options(t, t.TempDir()))
	f := fed{Broker: b, log: b.Log(stages.DefaultTenant)}
	queues := b.Queues(stages.DefaultTenant, "lake")
	if _, ok := queues.Find("a/b"); ok {
		t.Error("found a queue that does not exist")
	}
	for n := range 5 {
		f.stamps = append(f.stamps, mustPush(t, b, "a/b", "p"+strconv.Itoa(n%2), uint64(10*n), 2).Stamp)
	}
	mustPush(t, b, "other", "p", 1000, 1)
	q, ok := queues.Find("a/b")
	if list := queues.List(); !ok || len(list) != 2 || list[0] != q || list[1].Name != "other" {
		t.Fatalf("queues %+v, found %+v", list, q)
	}
	f.queue = q
	return f
}

// put writes a row of sink lake for the queue.
func (f fed) put(t *testing.T, row, value string) {
	t.Helper()
	ops := []stages.Op{{Kind: stages.OpPut, Key: "s3:lake:a%2Fb:" + row, Value: []byte(value), Forever: true}}
	r, lost, err := f.KV(stages.DefaultTenant).Batch(t.Context(), ops)
	if err != nil || lost != nil || !r[0].Applied || r[0].Row.Version == 0 {
		t.Fatalf("put %s: %+v, %+v, %v", row, r, lost, err)
	}
}

func micros(m stages.Micros) string { return strconv.FormatInt(int64(m), 10) }

func TestMovedAndHeaders(t *testing.T) {
	f := feed(t)
	moved, safe, err := f.log.Moved(t.Context(), f.stamps[4])
	if err != nil || len(moved) != 2 || safe < f.stamps[4] || f.log.Safe() < safe {
		t.Errorf("moved %v, safe %d, %v", moved, safe, err)
	}
	if moved, _, err := f.log.Moved(t.Context(), f.stamps[4]+1); err != nil || slices.Contains(moved, f.queue.ID) {
		t.Errorf("a queue moved after its last stamp: %v, %v", moved, err)
	}
	if got := headers(t, f.log, f.queue.ID, f.stamps[1], f.stamps[3]); !slices.Equal(got, f.stamps[1:3]) {
		t.Errorf("headers [1, 3): %v of %v", got, f.stamps)
	}
	if got := headers(t, f.log, f.queue.ID, stages.Beginning, safe+1); !slices.Equal(got, f.stamps) {
		t.Errorf("all headers: %v of %v", got, f.stamps)
	}
}

// Window 1 is [stamps[1], stamps[3]), window 2 is [stamps[3], stamps[4]].
func TestListingAndBodies(t *testing.T) {
	f, ctx := feed(t), t.Context()
	if _, err := f.log.Listing(ctx, f.queue.ID, "lake", 1); !errors.Is(err, stages.ErrNoIntent) {
		t.Errorf("listing without an intent: %v", err)
	}
	f.put(t, "start", `{"start":"latest", "t":`+micros(f.stamps[1])+`}`)
	f.put(t, "intent", `{"k":1,"tStart":0,"tEnd":`+micros(f.stamps[3])+`}`)
	list, err := f.log.Listing(ctx, f.queue.ID, "lake", 1)
	if err != nil || list.K != 1 || list.Start != f.stamps[1] || list.End != f.stamps[3] || len(list.Appends) != 2 || len(list.Lost) != 0 {
		t.Fatalf("window 1: %+v, %v", list, err)
	}
	if len(list.Parts) != 2 || list.Parts[list.Appends[0].Part].Name != "p1" || list.Parts[list.Appends[1].Part].Name != "p0" {
		t.Errorf("partitions %v", list.Parts)
	}
	var weight int64
	for _, n := range []uint64{10, 11, 20, 21} {
		weight += int64(stages.RecordWeight(len("tx-10"), len("p1"), len(message(n, 10).Payload)))
	}
	if list.Queue != f.queue.ID || list.Records != 4 || list.Weight != weight || list.MinTS != f.stamps[1] || list.MaxTS != f.stamps[2] {
		t.Errorf("counted: %+v", list)
	}
	if _, err := f.log.Listing(ctx, f.queue.ID, "other sink", 1); !errors.Is(err, stages.ErrNoIntent) {
		t.Errorf("listing for another sink: %v", err)
	}
	f.put(t, "committed", `{"k":1,"tEnd":"`+f.stamps[3].ISO()+`"}`)
	if _, err := f.log.Listing(ctx, f.queue.ID, "lake", 1); !errors.Is(err, stages.ErrNoIntent) {
		t.Errorf("listing of a committed window: %v", err)
	}
	f.put(t, "intent", `{"k":2,"tStart":0,"tEnd":`+micros(f.stamps[4]+1)+`}`)
	if list, err = f.log.Listing(ctx, f.queue.ID, "lake", 2); err != nil || list.Start != f.stamps[3] || len(list.Appends) != 2 {
		t.Fatalf("window 2: %+v, %v", list, err)
	}
	var payloads [][]byte
	err = f.log.Bodies(ctx, &list, list.Appends, func(_ int, body stages.Body) error {
		for r, err := range body.Records() {
			if err != nil {
				return err
			}
			payloads = append(payloads, bytes.Clone(r.Payload))
		}
		return nil
	})
	if err != nil || len(payloads) != 4 || !bytes.Equal(payloads[0], message(30, 10).Payload) || !bytes.Equal(payloads[3], message(41, 10).Payload) {
		t.Errorf("bodies %q, %v", payloads, err)
	}
}

func headers(t *testing.T, log stages.Log, q stages.QueueID, from, before stages.Micros) (stamps []stages.Micros) {
	t.Helper()
	for h, err := range log.Headers(t.Context(), q, from, before) {
		if err != nil {
			t.Fatal(err)
		}
		stamps = append(stamps, h.TS)
	}
	return stamps
}

func TestOtherTenantsSeeNothing(t *testing.T) {
	b := start(t, options(t, t.TempDir()))
	mustPush(t, b, "orders", "p", 0, 1)
	mine, _ := b.Queues(stages.DefaultTenant, "lake").Find("orders")
	for _, tenant := range []string{"00000000-0000-0000-0000-000000000002", "no uuid"} {
		if list := b.Queues(tenant, "lake").List(); len(list) != 0 {
			t.Errorf("%s: queues %v", tenant, list)
		}
		if _, ok := b.Queues(tenant, "lake").Find("orders"); ok {
			t.Errorf("%s: found a queue", tenant)
		}
		log := b.Log(tenant)
		if moved, _, _ := log.Moved(t.Context(), 0); len(moved) != 0 {
			t.Errorf("%s: moved %v", tenant, moved)
		}
		for _, err := range log.Headers(t.Context(), mine.ID, 0, 1<<62) {
			if err == nil {
				t.Errorf("%s: read a header", tenant)
			}
		}
		if err := log.Bodies(t.Context(), &stages.Listing{Queue: mine.ID}, make([]stages.Append, 1), func(int, stages.Body) error { return nil }); err == nil {
			t.Errorf("%s: read a body", tenant)
		}
	}
	if _, _, err := b.KV("no uuid").Batch(t.Context(), nil); err == nil {
		t.Error("a batch of a tenant that is no UUID")
	}
}

func TestFatalStopsProposals(t *testing.T) {
	o := options(t, t.TempDir())
	told := 0
	o.Fatal = func(error) { told++ }
	b := start(t, o)
	b.fatal(errors.New("disk gone"))
	b.fatal(errors.New("again"))
	if _, err := b.Propose(t.Context(), command.KindTick, nil); !errors.Is(err, raftnode.ErrNoLeader) {
		t.Errorf("propose: %v", err)
	}
	if s := b.Status(); told != 1 || s.Failure != "disk gone" || s.Ready {
		t.Errorf("told %d times, status %+v", told, s)
	}
}

func TestFullDiskRefusesPushes(t *testing.T) {
	b := start(t, options(t, t.TempDir()))
	b.full.Store(true)
	if _, err := push(t.Context(), b, "q", "p", 0, 1, 10); !errors.Is(err, raftnode.ErrDiskFull) {
		t.Errorf("push: %v", err)
	}
	if _, err := b.Propose(t.Context(), command.KindTick, nil); err != nil {
		t.Errorf("tick: %v", err)
	}
	b.watchDisk() // the disk of the tests has room
	if _, err := push(t.Context(), b, "q", "p", 0, 1, 10); err != nil {
		t.Errorf("push with room: %v", err)
	}
}

func TestOpenThatFailsLeavesNothing(t *testing.T) {
	b, err := New(options(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Open(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("open with an ended context: %v", err)
	}
}
