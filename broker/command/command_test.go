package command_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen/broker/command"
	"queen/broker/command/wire"
	"queen/broker/kv"
	"queen/stages"
)

var update = flag.Bool("update", false, "write the golden files again")

func ptr[T any](v T) *T { return &v }

func id(b byte) (out [16]byte) {
	for i := range out {
		out[i] = b + byte(i)
	}
	return out
}

func examplePush() command.Push {
	return command.Push{
		Tenant: id(1),
		Queues: []command.PushQueue{{Name: "orders", Config: 3}, {Name: "новые"}},
		Appends: []command.PushAppend{
			{Queue: 0, Partition: "c1", Flags: stages.FlagLineBreaks, Count: 2, Block: []byte("two records")},
			{Queue: 1, Partition: "Default", Count: 1, Block: []byte("x")},
		},
	}
}

func exampleKV() command.KV {
	return command.KV{Tenant: id(2), Ops: []kv.Op{
		{Kind: kv.Get, NS: "queen-s3", Key: "a"},
		{Kind: kv.GetMany, NS: "n", Keys: []string{"a", "b"}},
		{Kind: kv.GetPrefix, NS: "n", Key: "p", Limit: 1000, After: ptr("p1"), KeysOnly: true},
		{Kind: kv.GetPrefix, NS: "n", Key: "p", Limit: 1},
		{Kind: kv.Put, NS: "n", Key: "k", Value: []byte(`{"t":42.00}`), TTL: 30_000_000, Expect: ptr(uint64(812)), Required: true},
		{Kind: kv.Put, NS: "n", Key: "l", Value: []byte("null"), Forever: true},
		{Kind: kv.PutIfAbsent, NS: "n", Key: "m", Value: []byte("1"), Forever: true, Required: true},
		{Kind: kv.Delete, NS: "n", Key: "d", Expect: ptr(uint64(0))},
		{Kind: kv.Incr, NS: "n", Key: "i", Delta: -2, Min: ptr(int64(-5)), Max: ptr(int64(5)), TTL: 1},
		{Kind: kv.Incr, NS: "n", Key: "j", Delta: 2, Forever: true},
		{Kind: kv.Check, NS: "n", Key: "c", Expect: ptr(uint64(1) << 60), Required: true},
	}}
}

func exampleConfigure() command.Configure {
	return command.Configure{
		Tenant: id(3), Queue: "orders", Mode: command.Replace, Namespace: ptr("shop"),
		Options: []command.Option{
			{Number: command.OptLeaseTime, Type: command.TypeInt, Int: -1},
			{Number: command.OptRetryLimit, Type: command.TypeDefault},
			{Number: command.OptDeadLetterQueue, Type: command.TypeBool, Bool: true},
			{Number: command.OptRetentionSinkHold, Type: command.TypeString, Str: "default"},
		},
	}
}

func exampleRetain() command.Retain {
	return command.Retain{Most: 300, Queues: []stages.QueueID{7, 1 << 40}}
}

func queueIDs(n int) (ids []stages.QueueID) {
	for i := range n {
		ids = append(ids, stages.QueueID(i+1))
	}
	return ids
}

func exampleDelete() command.Delete { return command.Delete{Tenant: id(4), Queue: "orders"} }

func exampleEntry() []byte {
	entry := command.AppendEntry(nil)
	seed := id(9)
	for i, c := range []command.Command{
		{Kind: command.KindFound, Body: seed[:]},
		{Kind: command.KindTick},
		{Kind: command.KindPush, Body: examplePush().Append(nil)},
		{Kind: command.KindKV, Body: exampleKV().Append(nil)},
		{Kind: command.KindConfigure, Body: exampleConfigure().Append(nil)},
		{Kind: command.KindRetain, Body: exampleRetain().Append(nil)},
		{Kind: command.KindDelete, Body: exampleDelete().Append(nil)},
	} {
		c.Time, c.Request = stages.Micros(1_760_000_000_000_000+i), id(byte(i))
		entry = command.AppendCommand(entry, c)
	}
	return entry
}

// TestGolden pins the bytes of docs/formats.md section 2.
func TestGolden(t *testing.T) {
	entry := exampleEntry()
	var text strings.Builder
	for rest := entry; len(rest) > 0; {
		n := min(len(rest), 32)
		text.WriteString(hex.EncodeToString(rest[:n]) + "\n")
		rest = rest[n:]
	}
	path := filepath.Join("testdata", "entry.hex")
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("entry differs from %s; a change of the format needs a new version", path)
	}
}

// TestFirstBytes spells the header of a command out by hand, so that the golden file can't be wrong from the start.
func TestFirstBytes(t *testing.T) {
	got := command.AppendCommand(command.AppendEntry(nil), command.Command{Kind: command.KindTick, Time: 0x0102, Request: id(0)})
	want := "01" + "01" + "02" + "0000" + "00000000" + "0000000000000102" + "000102030405060708090a0b0c0d0e0f"
	if h := hex.EncodeToString(got); h[:len(want)] != want || len(got) != 1+command.HeaderSize {
		t.Errorf("got %s, want %s and 4 bytes of checksum", h, want)
	}
}

func TestRoundTrip(t *testing.T) {
	commands, err := command.Decode(exampleEntry())
	if err != nil {
		t.Fatal(err)
	}
	if len(commands) != 7 || commands[4].Time != 1_760_000_000_000_004 || commands[4].Request != id(4) {
		t.Fatalf("commands %+v", commands)
	}
	seed, err := command.DecodeFound(commands[0].Body)
	if err != nil || seed != id(9) {
		t.Errorf("found: %x, %v", seed, err)
	}
	push, err := command.DecodePush(commands[2].Body)
	if diff := cmp.Diff(examplePush(), push); diff != "" || err != nil {
		t.Errorf("push: %v\n%s", err, diff)
	}
	documents, err := command.DecodeKV(commands[3].Body)
	if diff := cmp.Diff(exampleKV(), documents); diff != "" || err != nil {
		t.Errorf("kv: %v\n%s", err, diff)
	}
	configure, err := command.DecodeConfigure(commands[4].Body)
	if diff := cmp.Diff(exampleConfigure(), configure); diff != "" || err != nil {
		t.Errorf("configure: %v\n%s", err, diff)
	}
	retain, err := command.DecodeRetain(commands[5].Body)
	if diff := cmp.Diff(exampleRetain(), retain); diff != "" || err != nil {
		t.Errorf("retain: %v\n%s", err, diff)
	}
	if got, err := command.DecodeDelete(commands[6].Body); got != exampleDelete() || err != nil {
		t.Errorf("delete: %+v, %v", got, err)
	}
}

// TestDamage: no flipped bit and no cut anywhere in an entry is accepted, except a cut between two commands.
func TestDamage(t *testing.T) {
	entry := exampleEntry()
	ends := map[int]bool{1: true}
	for at := 1; at < len(entry); {
		at += command.HeaderSize + int(uint32(entry[at+4])<<24|uint32(entry[at+5])<<16|uint32(entry[at+6])<<8|uint32(entry[at+7]))
		ends[at] = true
	}
	for i := range entry {
		for bit := range 8 {
			damaged := bytes.Clone(entry)
			damaged[i] ^= 1 << bit
			if _, err := command.Decode(damaged); err == nil {
				t.Fatalf("bit %d of byte %d flipped: accepted", bit, i)
			}
		}
		if _, err := command.Decode(entry[:i]); (err == nil) != ends[i] {
			t.Fatalf("cut to %d bytes: %v", i, err)
		}
	}
}

// reseal returns an entry of one command whose header was changed and whose checksum is right all the same.
func reseal(change func(header []byte)) []byte {
	entry := command.AppendCommand(command.AppendEntry(nil), command.Command{Kind: command.KindTick})
	change(entry[1:])
	copy(entry[1+32:], checksum(entry[1:33]))
	return entry
}

func TestUnknown(t *testing.T) {
	for name, entry := range map[string][]byte{
		"entry version":   {2},
		"command version": reseal(func(h []byte) { h[0] = 2 }),
		"kind 0":          reseal(func(h []byte) { h[1] = 0 }),
		"kind 8":          reseal(func(h []byte) { h[1] = 8 }),
		"flags":           reseal(func(h []byte) { h[3] = 1 }),
	} {
		if _, err := command.Decode(entry); !errors.Is(err, command.ErrVersion) {
			t.Errorf("%s: %v, want ErrVersion", name, err)
		}
	}
	if _, err := command.Decode(reseal(func([]byte) {})); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	if _, err := command.Decode(nil); err == nil {
		t.Error("an entry without a version byte was accepted")
	}
	if _, err := command.Decode(make([]byte, command.MaxEntry+1)); err == nil {
		t.Error("an entry above the limit was accepted")
	}
}

func TestRefusedBodies(t *testing.T) {
	push := func(change func(*command.Push)) []byte {
		p := examplePush()
		change(&p)
		return p.Append(nil)
	}
	op := func(change func(*kv.Op)) []byte {
		o := kv.Op{Kind: kv.Put, NS: "n", Key: "k", Value: []byte("1"), TTL: 1}
		change(&o)
		return command.KV{Ops: []kv.Op{o}}.Append(nil)
	}
	configure := func(o command.Option) []byte {
		return command.Configure{Queue: "q", Options: []command.Option{o}}.Append(nil)
	}
	decodePush := func(b []byte) error { _, err := command.DecodePush(b); return err }
	decodeKV := func(b []byte) error { _, err := command.DecodeKV(b); return err }
	decodeRetain := func(b []byte) error { _, err := command.DecodeRetain(b); return err }
	decodeDelete := func(b []byte) error { _, err := command.DecodeDelete(b); return err }
	decodeConfigure := func(b []byte) error { _, err := command.DecodeConfigure(b); return err }
	for name, tc := range map[string]struct {
		decode func([]byte) error
		body   []byte
	}{
		"push: queue out of range":    {decodePush, push(func(p *command.Push) { p.Appends[0].Queue = 2 })},
		"push: queue named twice":     {decodePush, push(func(p *command.Push) { p.Queues[1].Name = "orders" })},
		"push: partition named twice": {decodePush, push(func(p *command.Push) { p.Appends[1] = p.Appends[0] })},
		"push: flags":                 {decodePush, push(func(p *command.Push) { p.Appends[0].Flags = 4 })},
		"push: no record":             {decodePush, push(func(p *command.Push) { p.Appends[0].Count = 0 })},
		"push: too many records":      {decodePush, push(func(p *command.Push) { p.Appends[0].Count = 12 })},
		"push: left over":             {decodePush, append(examplePush().Append(nil), 0)},
		"push: empty":                 {decodePush, nil},
		"push: long uvarint":          {decodePush, append(make([]byte, 16), 0x80, 0, 0)},
		"push: huge count":            {decodePush, append(make([]byte, 16), 0xff, 0xff, 0xff, 0xff, 0x0f, 0)},
		"kv: kind":                    {decodeKV, op(func(o *kv.Op) { o.Kind = 9 })},
		"kv: namespace":               {decodeKV, op(func(o *kv.Op) { o.NS = strings.Repeat("n", 65) })},
		"kv: value":                   {decodeKV, op(func(o *kv.Op) { o.Value = nil })},
		"kv: ttl":                     {decodeKV, op(func(o *kv.Op) { o.TTL = 0 })},
		"kv: check":                   {decodeKV, op(func(o *kv.Op) { o.Kind = kv.Check })},
		"kv: limit":                   {decodeKV, op(func(o *kv.Op) { o.Kind, o.Limit = kv.GetPrefix, 1001 })},
		"kv: getMany with a key":      {decodeKV, op(func(o *kv.Op) { o.Kind = kv.GetMany })},
		"kv: left over":               {decodeKV, append(exampleKV().Append(nil), 0)},
		"configure: option 0":         {decodeConfigure, configure(command.Option{Type: command.TypeInt})},
		"configure: option 20":        {decodeConfigure, configure(command.Option{Number: 20, Type: command.TypeInt})},
		"configure: type":             {decodeConfigure, configure(command.Option{Number: 1, Type: command.TypeBool})},
		"configure: mode":             {decodeConfigure, command.Configure{Mode: 2}.Append(nil)},
		"configure: left over":        {decodeConfigure, append(exampleConfigure().Append(nil), 0)},
		"retain: no queue":            {decodeRetain, command.Retain{Most: 1}.Append(nil)},
		"retain: nothing":             {decodeRetain, command.Retain{Queues: []stages.QueueID{1}}.Append(nil)},
		"retain: order":               {decodeRetain, command.Retain{Most: 1, Queues: []stages.QueueID{2, 2}}.Append(nil)},
		"retain: too many":            {decodeRetain, command.Retain{Most: 1, Queues: queueIDs(command.MaxRetain + 1)}.Append(nil)},
		"retain: left over":           {decodeRetain, append(exampleRetain().Append(nil), 0)},
		"delete: left over":           {decodeDelete, append(exampleDelete().Append(nil), 0)},
		"delete: short":               {decodeDelete, make([]byte, 15)},
	} {
		if err := tc.decode(tc.body); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", name, err)
		}
	}
	for _, seed := range [][]byte{nil, make([]byte, 15), make([]byte, 16), make([]byte, 17)} {
		if _, err := command.DecodeFound(seed); err == nil {
			t.Errorf("a seed of %d zeros was accepted", len(seed))
		}
	}
}

// TestForeignFields: fields that a kind of operation does not have never reach the bytes, whatever a caller sets.
func TestForeignFields(t *testing.T) {
	body := command.KV{Ops: []kv.Op{{Kind: kv.Get, NS: "n", Key: "k", Required: true, Expect: ptr(uint64(1)), Forever: true, Limit: 3}}}
	got, err := command.DecodeKV(body.Append(nil))
	if err != nil || len(got.Ops) != 1 || cmp.Diff(got.Ops[0], kv.Op{Kind: kv.Get, NS: "n", Key: "k"}) != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestOptionsAreSorted(t *testing.T) {
	c := command.Configure{Options: []command.Option{
		{Number: 4, Type: command.TypeInt, Int: 1}, {Number: 2, Type: command.TypeInt, Int: 2}, {Number: 4, Type: command.TypeInt, Int: 3},
	}}
	got, err := command.DecodeConfigure(c.Append(nil))
	want := []command.Option{{Number: 2, Type: command.TypeInt, Int: 2}, {Number: 4, Type: command.TypeInt, Int: 3}}
	if diff := cmp.Diff(want, got.Options); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}
