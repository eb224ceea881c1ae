package broker

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"queen/broker/command"
	"queen/broker/kv"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/stages"
)

const (
	listingHead = "now %d applied %d" // first line of a listing: what a start moves on
	folderQueue = "заказы/eu 100%"    // the queue that the sink's rows are about
	folderSink  = "lake"
	shortLife   = 30 * time.Second // of documents that live as long as a lease
	longLife    = 24 * time.Hour
	folderSeal  = 4 << 10 // bytes, so that a small folder has sealed segments
	archiveMost = 300_000 // bytes
)

// folderID is the message id of a record of these folders: it follows from the transaction id, which is the message id itself where
// the producer sent none.
func folderID(tx string) [16]byte {
	if id, err := uuid.Parse(tx); err == nil {
		return id
	}
	sum := sha256.Sum256([]byte(tx))
	return [16]byte(sum[:16])
}

// makeArchive writes a folder of this build and what it must give back. The folder is a copy of one in use, so raft replays its end.
func makeArchive(t *testing.T, name string) {
	t.Helper()
	archive, golden := filepath.Join(foldersDir, name+".tar.zst"), filepath.Join(foldersDir, name+".txt")
	for _, file := range []string{archive, golden} {
		if _, err := os.Stat(file); err == nil {
			t.Fatalf("%s is there already: a folder of an earlier build is never changed, choose another name", file)
		}
	}
	live, killed := filepath.Join(t.TempDir(), "live"), filepath.Join(t.TempDir(), "killed")
	clock := &folderClock{time.Date(2026, 10, 2, 10, 0, 0, 0, time.UTC)}
	o := clock.options(t, live)
	o.SealBytes, o.Rand = folderSeal, rand.NewChaCha8([32]byte{1})
	b := start(t, o)
	serial := 0
	firstLife(t, b, clock, &serial)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = start(t, o)
	secondLife(t, b, clock, &serial)
	copyQuiet(t, b, live, killed)
	l := list(t, b)
	head := fmt.Sprintf(listingHead, b.State().Now(), b.State().Applied())
	if err := pack(killed, archive); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(golden, []byte(head+"\n"+l.text), 0o644); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(archive)
	if err != nil || info.Size() > archiveMost {
		t.Errorf("%s: %v, %v, at most %d bytes are allowed", archive, info, err, archiveMost)
	}
}

// firstLife is ended by a close.
func firstLife(t *testing.T, b *Broker, clock *folderClock, serial *int) {
	t.Helper()
	configureFolder(t, b)
	pushRounds(t, b, clock, 6, serial)
	documentRows(t, b, "before")
}

// secondLife takes a snapshot in its middle, which flushes it, and is then killed: raft replays the rest.
func secondLife(t *testing.T, b *Broker, clock *folderClock, serial *int) {
	t.Helper()
	pushRounds(t, b, clock, 6, serial)
	sinkRows(t, b, 1)
	documentRows(t, b, "first")
	if err := b.snapshot(); err != nil {
		t.Fatal(err)
	}
	pushRounds(t, b, clock, 10, serial)
	sinkRows(t, b, 2)
	documentRows(t, b, "second")
	pushRounds(t, b, clock, 3, serial)
}

// pushRounds pushes into every partition, a round every 1.2 seconds: by itself, and then into several queues with one command.
func pushRounds(t *testing.T, b *Broker, clock *folderClock, rounds int, serial *int) {
	t.Helper()
	for range rounds {
		clock.at = clock.at.Add(1234567 * time.Microsecond)
		pushEach(t, b, serial)
		tenant, err := tenantID(stages.DefaultTenant)
		if err != nil {
			t.Fatal(err)
		}
		p := command.Push{Tenant: tenant, Queues: []command.PushQueue{{Name: "plain"}, {Name: folderQueue}}}
		for i, partition := range []string{"Default", "across", "Default"} {
			*serial++
			tx := fmt.Sprint("across ", *serial)
			block := segment.AppendMessage(nil, segment.Message{ID: folderID(tx), TxID: []byte(tx), Payload: []byte(tx[len("across "):])})
			p.Appends = append(p.Appends, command.PushAppend{Queue: i / 2, Partition: partition, Count: 1, Block: block})
		}
		if _, err := b.Propose(t.Context(), command.KindPush, p.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
}

func configureFolder(t *testing.T, b *Broker) {
	t.Helper()
	tenant, err := tenantID(stages.DefaultTenant)
	if err != nil {
		t.Fatal(err)
	}
	namespace, task := "shop", ""
	for _, c := range []command.Configure{
		{Queue: folderQueue, Options: []command.Option{
			{Number: command.OptDedupWindowSeconds, Type: command.TypeInt, Int: 7200},
			{Number: command.OptRetentionEnabled, Type: command.TypeBool, Bool: true},
			{Number: command.OptRetentionSinkHold, Type: command.TypeString, Str: folderSink},
			{Number: command.OptRetryLimit, Type: command.TypeDefault},
		}},
		{Queue: "configured only", Namespace: &namespace, Task: &task, Mode: command.Replace},
	} {
		c.Tenant = tenant
		if _, err := b.Propose(t.Context(), command.KindConfigure, c.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
}

// pushEach pushes into every partition, some of it twice.
func pushEach(t *testing.T, b *Broker, serial *int) {
	t.Helper()
	payloads := []string{`{"total":42.00}`, "{\r\n \"n\": 9007199254740993123\n}", `"é 🛒 \u003c<>&"`, ``, `null`, `""`, ` [ 1 , -0 ] `}
	for _, p := range [][2]string{{folderQueue, "Default"}, {folderQueue, "клиент/1"}, {folderQueue, "a b%2F+~"}, {"a/b", "p0"}, {"a/b", "p1"},
		{"plain", "Default"}} {
		var messages []segment.Message
		for range 1 + *serial%4 {
			*serial++
			m := segment.Message{TxID: fmt.Appendf(nil, "tx %d \"\\\t é", *serial), Payload: []byte(payloads[*serial%len(payloads)])}
			m.ID = folderID(string(m.TxID))
			switch *serial % 5 {
			case 0:
				m.ID, m.TxID = folderID(fmt.Sprint("message ", *serial)), nil
			case 1:
				m.Trace = []byte("0123456789abcdef")
			case 2:
				m.Producer = []byte("producer of " + p[0])
			}
			messages = append(messages, m)
		}
		want := 0
		if m := messages[0]; m.TxID != nil { // twice in one append; a message without a transaction id is never a duplicate
			messages, want = append(messages, m), 1
		}
		answer, err := b.Propose(t.Context(), command.KindPush, onePush(t, p[0], p[1], messages...))
		if err != nil {
			t.Fatal(err)
		}
		if a := answer.(*state.PushResult).Appends[0]; a.Base < 0 || len(a.Dups) != want {
			t.Fatalf("push to %q: %+v", p[0], a)
		}
	}
}

// sinkRows writes the rows of a sink that has committed window k-1 and has the intent of window k open.
func sinkRows(t *testing.T, b *Broker, k int) {
	t.Helper()
	base := "s3:" + folderSink + ":" + stages.Esc(folderQueue) + ":"
	now := b.State().Now()
	ops := []stages.Op{
		{Kind: stages.OpPut, Key: base + "lease", TTL: shortLife, Value: []byte(`{"instance":"node-1","incarnation":"0123456789abcdef","sinceMs":1790935200000}`)},
		{Kind: stages.OpPut, Key: base + "start", Forever: true, Value: []byte(`{"start":"earliest"}`)},
		{Kind: stages.OpPut, Key: base + "intent", Forever: true, Value: fmt.Appendf(nil, `{"k":%d,"tStart":%d,"tEnd":%d,"at":"2026-10-02T10:00:30.000000Z","format":"jsonl","compression":"zstd","level":3,"layout":"merged","align":"hour","prefix":"queen","bucket":"lake","endpoint":"http://127.0.0.1:9000","writer":"queen-s3/2.0.0 jsonl+zstd","encoder":"klauspost/compress v1.20.4 zstd level 3"}`, k, now-9_000_000, now)},
	}
	if k > 1 {
		ops = append(ops, stages.Op{Kind: stages.OpPut, Key: base + "committed", Forever: true, Value: fmt.Appendf(nil,
			`{"k":%d,"tEnd":"%s","manifest":"queen/_queen/tenant=%s/queue=%s/windows/%010d.json","records":9,"bytes":999,"committedAtMs":1790935201000}`,
			k-1, (now - 9_000_000).ISO(), stages.DefaultTenant, stages.Esc(folderQueue), k-1)})
	}
	_, lost, err := b.KV(stages.DefaultTenant).Batch(t.Context(), ops)
	if err != nil || lost != nil {
		t.Fatal(lost, err)
	}
}

// documentRows writes documents of an application: for ever, with both lives, written over, counted and deleted.
func documentRows(t *testing.T, b *Broker, round string) {
	t.Helper()
	micros := func(d time.Duration) stages.Micros { return stages.Micros(d / time.Microsecond) }
	ops := []kv.Op{
		{Kind: kv.Put, NS: "app", Key: "for ever/" + round, Value: []byte(`{"n":42.00,"s":"\u00e9é"}`), Forever: true},
		{Kind: kv.Put, NS: "app", Key: "written over", Value: []byte(`"` + round + `"`), Forever: true},
		{Kind: kv.Put, NS: "app", Key: "long " + round, Value: []byte(`[1,2]`), TTL: micros(longLife)},
		{Kind: kv.Put, NS: "app", Key: "short " + round, Value: []byte(`true`), TTL: micros(shortLife)},
		{Kind: kv.Incr, NS: "app", Key: "counter", Delta: 7, Forever: true},
		{Kind: kv.PutIfAbsent, NS: "app", Key: "once", Value: []byte(`"` + round + `"`), Forever: true},
		{Kind: kv.Put, NS: "app", Key: "deleted", Value: []byte(`1`), Forever: true},
		{Kind: kv.Put, NS: "locks", Key: "ключ", Value: []byte(`"` + strings.Repeat("x", 5000) + `"`), Forever: true},
	}
	for _, op := range ops {
		batch(t, b, op)
	}
	batch(t, b, kv.Op{Kind: kv.Delete, NS: "app", Key: "deleted"})
}

// listedRecord and listedPartition are what the test goes on with.
type listedRecord struct {
	queue, partition, tx string
	offset               int64
	ts                   stages.Micros
}

type listedPartition struct {
	queue, name string
	next        int64
}

// everything is what a broker shows: as text, and the parts that a test needs.
type everything struct {
	text       string
	records    []listedRecord
	partitions []listedPartition
	documents  map[string]kv.Row // by namespace, a space, and key
}

// list reads everything that the default tenant has. Where a frame lies in which segment is left out: what raft replays is laid anew.
func list(t *testing.T, b *Broker) *everything {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l := &everything{documents: make(map[string]kv.Row)}
	var text strings.Builder
	seed, _ := b.State().Seed()
	fmt.Fprintf(&text, "seed %x\n", seed)
	for _, info := range b.Queues(stages.DefaultTenant, "lake").List() {
		if err := l.queue(ctx, &text, b, seed, info.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.rows(&text, b); err != nil {
		t.Fatal(err)
	}
	l.text = text.String()
	return l
}

// queue lists a queue, its partitions in creation order and its records in stamp order.
func (l *everything) queue(ctx context.Context, text *strings.Builder, b *Broker, seed [16]byte, id stages.QueueID) error {
	var row *state.QueueRow
	names := make(map[stages.PartitionID]string)
	err := b.State().Read(func(r *state.Reader) error {
		row, _ = r.QueueByID(id)
		fmt.Fprintf(text, "\nqueue %d %q %s created %s config %d namespace %q task %q\n", id, row.Name, state.UUID(seed, state.KindQueue, uint64(id)),
			row.Created.ISO(), row.Config, row.Namespace, row.Task)
		for _, o := range row.Options {
			fmt.Fprintf(text, "option %+v\n", o)
		}
		parts, _ := r.Partitions(id, 0, stages.Beginning, 1000)
		for _, p := range parts {
			fmt.Fprintf(text, "partition %d %q %s created %s next %d start %d last %s\n", p.ID, p.Name, state.UUID(seed, state.KindPartition, uint64(p.ID)),
				p.Created.ISO(), p.Next, p.Start, p.Last.ISO())
			names[p.ID] = p.Name
			l.partitions = append(l.partitions, listedPartition{row.Name, p.Name, p.Next})
		}
		return nil
	})
	if err != nil {
		return err
	}
	log := b.Log(stages.DefaultTenant)
	var hs []stages.Header
	for h, err := range log.Headers(ctx, id, stages.Beginning, b.State().Now()+1) {
		if err != nil {
			return err
		}
		hs = append(hs, h)
	}
	list := segment.Pick(id, hs)
	return log.Bodies(ctx, &list, list.Appends, func(i int, body stages.Body) error {
		h := hs[i]
		fmt.Fprintf(text, "append %s partition %d base %d count %d weight %d flags %d\n", h.TS.ISO(), h.Partition, h.Base, h.Count, h.Weight, h.Flags)
		for r, err := range body.Records() {
			if err != nil {
				return err
			}
			fmt.Fprintf(text, "record %d %q %q\n", r.Offset, r.TxID, r.Payload)
			l.records = append(l.records, listedRecord{row.Name, names[h.Partition], string(r.TxID), r.Offset, h.TS})
		}
		return nil
	})
}

// rows lists the documents.
func (l *everything) rows(text *strings.Builder, b *Broker) error {
	tenant, err := tenantID(stages.DefaultTenant)
	if err != nil {
		return err
	}
	return b.State().Read(func(r *state.Reader) error {
		for _, ns := range []string{"app", "locks", sinkNamespace} {
			rows, _, err := r.Documents(tenant, ns, "", kv.MaxLimit)
			if err != nil {
				return err
			}
			fmt.Fprintf(text, "\nnamespace %s\n", ns)
			for _, d := range rows {
				fmt.Fprintf(text, "document %q version %d expires %d updated %s %s\n", d.Key, d.Version, d.Expires, d.Updated.ISO(), d.Value)
				l.documents[ns+" "+d.Key] = d
			}
		}
		return nil
	})
}
