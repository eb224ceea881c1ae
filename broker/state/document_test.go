package state_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"queen/broker/command"
	"queen/broker/kv"
	"queen/internal/crashdisk"
)

// TestLargeBatchOfDocuments: a batch with many keys reads them with an iterator, and finds what one batch for each key finds: rows on the disk,
// in memory, and of commands before it in the same entry, written, written over and deleted.
func TestLargeBatchOfDocuments(t *testing.T) {
	var first, second, third []kv.Op
	version := uint64(7)
	for i := range 60 {
		key := fmt.Sprintf("k%02d", i)
		if i%3 > 0 {
			first = append(first, put(key, fmt.Sprint("first", i), 0))
		}
		switch i % 4 {
		case 0:
			second = append(second, put(key, fmt.Sprint("second", i), 0))
		case 1:
			second = append(second, kv.Op{Kind: kv.Delete, NS: "n", Key: key})
		}
		for _, op := range []kv.Op{
			{Kind: kv.Get}, {Kind: kv.PutIfAbsent, Value: []byte(`"third"`), Forever: true}, {Kind: kv.Put, Value: []byte("9"), Forever: true, Expect: &version}, {Kind: kv.Get}, {Kind: kv.Delete},
		}[i%2:][:3] {
			op.NS, op.Key = "n", key
			third = append(third, op)
		}
	}
	third = append(third, kv.Op{Kind: kv.Get, NS: "m", Key: "k01"}, kv.Op{Kind: kv.Get, NS: "n", Key: "k"}, kv.Op{Kind: kv.Get, NS: "n", Key: "kz"})
	many, one := newNode(t), newNode(t)
	many.apply(1, ops(first...))
	one.apply(1, ops(first...))
	if err := many.Flush(); err != nil { // one has all in memory
		t.Fatal(err)
	}
	got := many.apply(2, ops(second...), ops(third...))[1].(*kv.Outcome).Results
	single := func(all []kv.Op) (results []kv.Result) {
		var commands []command.Command
		order := make([]int, len(all))
		for i := range all {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { // as a batch does
			return slices.Compare([]string{all[a].NS, all[a].Key}, []string{all[b].NS, all[b].Key})
		})
		for _, i := range order {
			commands = append(commands, ops(all[i]))
		}
		results = make([]kv.Result, len(all))
		for i, o := range one.apply(2, commands...) {
			results[order[i]] = o.(*kv.Outcome).Results[0]
		}
		return results
	}
	single(second)
	want := single(third)
	for i := range want {
		g, w := got[i], want[i]
		g.Row.Updated, w.Row.Updated = 0, 0 // each command has its own time
		if !reflect.DeepEqual(g, w) {
			t.Errorf("operation %d, %v %s: %+v, alone %+v", i, third[i].Kind, third[i].Key, g, w)
		}
	}
}

// TestReadsBehindALargeBatch: the reads of many keys in a batch come after its writes, and see them.
func TestReadsBehindALargeBatch(t *testing.T) {
	n := newNode(t)
	for _, value := range []string{"1", "2"} {
		var all []kv.Op
		var keys []string
		for i := range 20 {
			keys = append(keys, fmt.Sprintf("k%02d", i))
			all = append(all, put(keys[i], value, 0))
		}
		all = append(all, kv.Op{Kind: kv.GetMany, NS: "n", Keys: keys})
		rows := n.apply(1, ops(all...))[0].(*kv.Outcome).Results[20].Rows
		if len(rows) != 20 {
			t.Fatalf("%d rows", len(rows))
		}
		for _, r := range rows {
			if string(r.Value) != value {
				t.Errorf("%s is %s, want %s", r.Key, r.Value, value)
			}
		}
	}
}

// TestLargeBatchThatLoses: a required operation that loses behind many others leaves nothing open that the state's end would trip over.
func TestLargeBatchThatLoses(t *testing.T) {
	n := openNode(t, crashdisk.New(), 1)
	never := uint64(99)
	var all []kv.Op
	for i := range 30 {
		all = append(all, put(fmt.Sprintf("k%02d", i), "1", 0))
	}
	all = append(all, kv.Op{Kind: kv.Put, NS: "n", Key: "z", Value: []byte("1"), Forever: true, Expect: &never, Required: true})
	if out := n.apply(1, ops(all...))[0].(*kv.Outcome); out.Lost == nil || out.Lost.FailedIndex != 30 {
		t.Errorf("%+v", out)
	}
	n.close()
}
