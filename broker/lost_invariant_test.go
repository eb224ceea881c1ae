package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen/broker/command"
	"queen/broker/kv"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/internal/rounds"
	"queen/stages"
)

// TestEachRecordOnce is the audit of retention (contract S10, B6; design invariant 2): pushes, retention in small steps, deletes, queues that
// come again, crashes, files that go, and sinks that fall behind, redo and are adopted late. Whatever happens, an open window is the same
// whenever it is listed, and in the end each offset of each incarnation of a partition is in one object or in one `lost` range.
func TestEachRecordOnce(t *testing.T) {
	seeds, lost, objects := rounds.Of(24, 4), 0, 0
	for seed := range uint64(seeds) {
		a := newAudit(t, seed)
		for range 250 {
			a.step()
		}
		a.end()
		lost, objects = lost+a.lost, objects+a.objects
		a.n.close()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if most := seeds * 50; lost < most || objects < most {
		t.Errorf("%d records in objects, %d lost: the audit saw too little", objects, lost)
	}
	t.Logf("%d records in objects, %d lost", objects, lost)
}

// offset names a record as a lake does. Incarnations of a partition share offsets.
type offset struct {
	Queue, Partition string
	N                int64
}

// lake is one sink on one queue: where it stands, and what it has committed.
type lake struct {
	sink, queue string
	start       stages.Micros // records stamped below it are none of its business
	adopted     bool
	k           uint64
	at          stages.Micros
	end         stages.Micros // of the open window; 0 = none is open
	first       *windowSaid   // what its first listing said
	got         map[offset]int
	lost, told  int64 // records: in `lost`, and in the answers of the commands that took them
}

// windowSaid is what a listing says of a window.
type windowSaid struct {
	Records []offset
	Lost    []stages.Range
}

func (a *audit) queue() string { return a.lakes[a.rng.IntN(len(a.lakes))].queue }

func (a *audit) step() {
	if a.at += stages.Micros(a.rng.IntN(2_000_000)); a.rng.IntN(60) == 0 {
		a.at += 3600_000_000 // ids become rows
	}
	switch a.rng.IntN(20) {
	case 0:
		a.configure()
	case 1, 2, 3, 4:
		a.retain()
	case 5:
		if a.rng.IntN(3) == 0 {
			a.apply(command.KindDelete, command.Delete{Tenant: a.tenant(), Queue: a.queue()}.Append(nil))
		}
	case 6:
		if err := a.n.Flush(); err != nil {
			a.t.Fatal(err)
		}
		a.reclaim()
	case 7:
		if a.rng.IntN(2) == 0 {
			a.crash()
		}
	case 8, 9, 10, 11, 12, 13:
		a.mirror(a.lakes[a.rng.IntN(len(a.lakes))])
	default:
		a.push(a.queue())
	}
}

func (a *audit) configure() {
	seconds := func(number uint64, least int) command.Option {
		return command.Option{Number: number, Type: command.TypeInt, Int: int64(least + a.rng.IntN(40))}
	}
	hold := []string{"", "default"}[a.rng.IntN(2)]
	c := command.Configure{Tenant: a.tenant(), Queue: a.queue(), Options: []command.Option{
		{Number: command.OptRetentionEnabled, Type: command.TypeBool, Bool: a.rng.IntN(4) > 0},
		seconds(command.OptRetentionSeconds, 1), seconds(command.OptMaxWaitTimeSeconds, -10),
		{Number: command.OptRetentionSinkHold, Type: command.TypeString, Str: hold},
		seconds(command.OptRetentionSinkHoldMaxSeconds, 60)}}
	slices.SortFunc(c.Options, func(x, y command.Option) int { return int(x.Number) - int(y.Number) })
	a.apply(command.KindConfigure, c.Append(nil))
}

// retain removes a little of what is due, and says whether there was anything.
func (a *audit) retain() bool {
	var due []stages.QueueID
	err := a.n.Read(func(r *state.Reader) (err error) {
		due, _, err = r.Due(0, 3)
		return err
	})
	if err != nil {
		a.t.Fatal(err)
	}
	if len(due) > 0 {
		a.apply(command.KindRetain, command.Retain{Most: 1 + a.rng.Uint64N(12), Queues: due}.Append(nil))
	}
	return len(due) > 0
}

func (a *audit) reclaim() {
	if err := a.n.segs.Remove(a.n.gone); err != nil {
		a.t.Fatal(err)
	}
	var err error
	if a.n.gone, err = a.n.Reclaim(); err != nil {
		a.t.Fatal(err)
	}
}

func (a *audit) push(queue string) {
	partition, count := fmt.Sprintf("p%d", a.rng.IntN(3)), 1+a.rng.IntN(4)
	p := command.Push{Tenant: a.tenant(), Queues: []command.PushQueue{{Name: queue}}}
	var block []byte
	for range count {
		a.next++
		block = segment.AppendMessage(block, message(a.next, a.rng.IntN(100)))
	}
	p.Appends = []command.PushAppend{{Partition: partition, Count: count, Block: block}}
	r := a.apply(command.KindPush, p.Append(nil)).(*state.PushResult)
	for _, l := range a.lakes {
		if l.queue != queue || l.adopted && r.Stamp < l.start {
			continue
		}
		for i := range int64(count) {
			a.pushed[l][offset{queue, partition, r.Appends[0].Base + i}]++
		}
	}
}

func (a *audit) put(l *lake, row, value string) {
	op := kv.Op{Kind: kv.Put, NS: sinkNamespace, Key: "s3:" + l.sink + ":" + stages.Esc(l.queue) + ":" + row, Value: []byte(value), Forever: true}
	a.apply(command.KindKV, command.KV{Tenant: a.tenant(), Ops: []kv.Op{op}}.Append(nil))
}

// mirror is one step of a sink.
func (a *audit) mirror(l *lake) {
	info, ok := a.find(l.sink, l.queue)
	switch {
	case !l.adopted && !ok:
	case !l.adopted:
		a.adopt(l, info.ID)
	case l.end == 0:
		if end := a.n.Now() - stages.Micros(a.rng.IntN(3_000_000)); end > l.at && ok {
			a.begin(l, end)
		}
	default:
		a.list(l)
		if l.first != nil && a.rng.IntN(2) == 0 {
			a.commit(l)
		}
	}
}

// adopt decides where a sink starts: at what there is, or at what comes.
func (a *audit) adopt(l *lake, id stages.QueueID) {
	l.adopted, l.at = true, stages.Beginning
	row := `{"start":"earliest","wait":8000000}`
	kept := make(map[offset]int)
	if a.rng.IntN(2) == 0 {
		l.start, l.at = a.n.Now(), a.n.Now()
		row = fmt.Sprintf(`{"start":"latest","t":%d,"wait":8000000}`, l.at)
	}
	for h, err := range a.log().Headers(a.t.Context(), id, l.start, a.n.Now()+1) {
		if err != nil {
			a.t.Fatal(err)
		}
		a.count(kept, l.queue, id, h)
	}
	a.pushed[l] = kept // what went before is not remembered
	a.put(l, "start", row)
}

func (a *audit) count(into map[offset]int, queue string, id stages.QueueID, h stages.Header) {
	parts := []stages.Part{{ID: h.Partition}}
	if err := a.log().name(id, parts); err != nil {
		a.t.Fatal(err)
	}
	for i := range int64(h.Count) {
		into[offset{queue, parts[0].Name, h.Base + i}]++
	}
}

func (a *audit) begin(l *lake, end stages.Micros) {
	l.end, l.first = end, nil
	a.put(l, "intent", fmt.Sprintf(`{"k":%d,"tStart":0,"tEnd":%d}`, l.k+1, end))
	if a.rng.IntN(2) == 0 {
		a.list(l)
	}
}

// list lists the open window and compares it with what its first listing said.
func (a *audit) list(l *lake) {
	info, ok := a.find(l.sink, l.queue)
	if !ok {
		return // it waits until a queue of this name is there
	}
	list, err := a.log().Listing(a.t.Context(), info.ID, l.sink, l.k+1)
	if err != nil {
		a.t.Fatal(err)
	}
	now := &windowSaid{Lost: list.Lost}
	err = a.log().Bodies(a.t.Context(), &list, list.Appends, func(i int, b stages.Body) error {
		for rec, err := range b.Records() {
			if err != nil {
				return err
			}
			now.Records = append(now.Records, offset{l.queue, list.Parts[list.Appends[i].Part].Name, rec.Offset})
		}
		return nil
	})
	if err != nil {
		a.t.Errorf("open window %d of %s, %s: %v", l.k+1, l.sink, l.queue, err)
		return
	}
	if l.first == nil {
		l.first = now
	}
	if diff := cmp.Diff(l.first, now); diff != "" {
		a.t.Errorf("open window %d of %s, %s is listed otherwise than before:\n%s", l.k+1, l.sink, l.queue, diff)
	}
}

func (a *audit) commit(l *lake) {
	a.t.Helper()
	if l.first == nil {
		a.t.Fatalf("window %d of %s, %s is committed and was never listed", l.k+1, l.sink, l.queue)
	}
	a.put(l, "committed", fmt.Sprintf(`{"k":%d,"tEnd":"%s"}`, l.k+1, l.end.ISO()))
	for _, o := range l.first.Records {
		l.got[o]++
		a.objects++
	}
	for _, r := range l.first.Lost {
		for n := r.From; n <= r.To; n++ {
			l.got[offset{l.queue, r.Partition, n}]++
			a.lost++
			l.lost++
		}
	}
	l.k, l.at, l.end = l.k+1, l.end, 0
	info, ok := a.find(l.sink, l.queue)
	if !ok {
		return
	}
	if list, err := a.log().Listing(context.Background(), info.ID, l.sink, l.k); !errors.Is(err, stages.ErrNoIntent) {
		a.t.Errorf("a window that is committed is listed: %d appends, %v", len(list.Appends), err)
	}
}

// end finishes all windows and counts.
func (a *audit) end() {
	for _, l := range a.lakes {
		if _, ok := a.find(l.sink, l.queue); !ok {
			a.push(l.queue)
		}
	}
	for _, l := range a.lakes {
		if !l.adopted {
			continue
		}
		for range 4 { // a hidden queue first
			if l.end != 0 {
				a.list(l)
				a.commit(l)
			}
			if _, ok := a.find(l.sink, l.queue); !ok { // the one that is done was deleted
				a.push(l.queue)
			}
			a.at += 1_000_000
			a.apply(command.KindTick, nil)
			a.begin(l, a.n.Now())
		}
		a.list(l)
		a.commit(l)
		if l.lost != l.told {
			a.t.Errorf("%s of %s: %d records are lost, and the broker told of %d", l.sink, l.queue, l.lost, l.told)
		}
		if diff := cmp.Diff(a.pushed[l], l.got); diff != "" {
			a.t.Errorf("%s of %s: offsets that were pushed, and how often they are in an object or in lost:\n%s", l.sink, l.queue, diff)
		}
	}
}
