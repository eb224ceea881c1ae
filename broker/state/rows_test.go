package state

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen/broker/command"
	"queen/broker/retention"
	"queen/broker/segment"
)

// TestRows pins the bytes of docs/formats.md section 5, spelled out by hand.
func TestRows(t *testing.T) {
	m := meta{applied: 1, now: 2, led: 3, nextQueue: 4, nextPartition: 5, nextVersion: 6, seed: [16]byte{7}}
	for _, version := range []byte{1, 2} {
		earlier := append([]byte{version}, m.append(nil)[1:]...)
		if got, err := decodeMeta(earlier); got != m || err != nil {
			t.Errorf("of an earlier build: %+v, %v", got, err)
		}
	}
	q := &QueueRow{ID: 9, Tenant: [16]byte{1}, Name: "a.b", Namespace: "a", Task: "b", Created: 2, Config: 3, Options: PushDefaults()}
	p := Partition{ID: 8, Name: "p", Created: 1, Next: 2, Start: 0, Last: 3}
	u64 := func(b byte) string { return strings.Repeat("00", 7) + hex.EncodeToString([]byte{b}) }
	for name, tc := range map[string]struct {
		got  []byte
		want string
	}{
		"meta":      {m.append(nil), "03" + u64(1) + u64(2) + u64(3) + u64(4) + u64(5) + u64(6) + "07" + strings.Repeat("00", 15)},
		"queue":     {q.append(nil), "01" + "01" + strings.Repeat("00", 15) + "03612e62" + "0161" + "0162" + u64(2) + u64(3) + "010101" + u64(60)},
		"partition": {p.append(nil), "01" + "0170" + u64(1) + u64(2) + u64(0) + u64(3)},
		"tail":      {appendTail(segment.Tail{Seg: 1, Len: 2}, 3), "01" + "00000001" + u64(2) + u64(3)},
		"heads":     {heads{segment.Tail{Seg: 1, Len: 2}, 3}.append(), "02" + "00000001" + u64(2) + u64(3)},
		"removed":   {appendRemoved(exampleRemoved()), "01" + u64(90) + "02" + u64(10) + u64(20) + u64(30) + u64(90)},
		"hidden":    {appendHidden(7, exampleHolders()), "01" + u64(7) + "01" + "046c616b65" + u64(3) + u64(9)},
		"dropped":   {appendDropped(segment.Dropped{{From: 1, To: 2}, {From: 5, To: 9}}), "0102" + "00000001" + "00000002" + "00000005" + "00000009"},
		"lost":      {exampleLost().append(), "01" + "0170" + u64(3) + u64(9)},
		"lost key": {exampleLost().key(lostPrefix([16]byte{1}, "lake", "a%2Fb")),
			"4c01" + strings.Repeat("00", 15) + "046c616b65" + "000561253246" + "62" + u64(4) + u64(5)},
		"ids up to": {idPlace{segment.Tail{Seg: 1, Len: 2}, 3}.append(), "01" + "00000001" + u64(2) + u64(3)},
		"id":        {appendID(5), "01" + u64(5)},
		"keys": {
			append(append(append(queueNameKey([16]byte{1}, "n"), partitionKey(2, 3)...), partitionNameKey(2, "n")...), queueKey('T', 4)...),
			"4e01" + strings.Repeat("00", 15) + "6e" + "52" + u64(2) + u64(3) + "50" + u64(2) + "6e" + "54" + u64(4),
		},
	} {
		if got := hex.EncodeToString(tc.got); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	if got, err := decodeMeta(m.append(nil)); got != m || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := decodeQueue(9, q.append(nil)); cmp.Diff(q, got) != "" || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := decodePartition(8, p.append(nil)); got != p || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	tail, last, err := decodeTail(appendTail(segment.Tail{Seg: 1, Len: 2}, 3))
	if tail != (segment.Tail{Seg: 1, Len: 2}) || last != 3 || err != nil {
		t.Errorf("%+v %d %v", tail, last, err)
	}
	place := idPlace{tail, 3}
	if got, err := decodeIDPlace(place.append()); got != place || err != nil {
		t.Errorf("%+v %v", got, err)
	}
	for want, row := range map[heads][]byte{{tail, 3}: heads{tail, 3}.append(), {tail, 0}: appendPlace(tail)} {
		if got, err := decodeHeads(row); got != want || err != nil {
			t.Errorf("%+v %v", got, err)
		}
	}
	if got, err := decodeRemoved(appendRemoved(exampleRemoved())); cmp.Diff(exampleRemoved(), got) != "" || err != nil {
		t.Errorf("%+v %v", got, err)
	}
}

func exampleRemoved() retention.Removed {
	return retention.Removed{Below: 90, Kept: []retention.Span{{From: 10, To: 20}, {From: 30, To: 90}}}
}

func exampleHolders() []holder { return []holder{{"lake", retention.Span{From: 3, To: 9}}} }

func exampleLost() *lostRow { return &lostRow{id: 4, first: 5, name: "p", from: 3, to: 9} }

// TestRowsOutOfPlace: spans and runs that overlap, or lie where none can, are damage.
func TestRowsOutOfPlace(t *testing.T) {
	for _, r := range []retention.Removed{
		{Below: 9, Kept: []retention.Span{{From: 3, To: 3}}},
		{Below: 9, Kept: []retention.Span{{From: 3, To: 10}}},
		{Below: 9, Kept: []retention.Span{{From: 3, To: 5}, {From: 4, To: 6}}},
	} {
		if _, err := decodeRemoved(appendRemoved(r)); err == nil {
			t.Errorf("%+v was read", r)
		}
	}
	for _, d := range []segment.Dropped{{{From: 0, To: 1}}, {{From: 3, To: 2}}, {{From: 1, To: 4}, {From: 4, To: 5}}} {
		if _, err := decodeDropped(appendDropped(d)); err == nil {
			t.Errorf("%+v was read", d)
		}
	}
}

// TestStrictRows: no row of another version, cut or with a byte too many is read.
func TestStrictRows(t *testing.T) {
	m, q, p := meta{}, &QueueRow{Name: "q"}, Partition{Name: "p"}
	for name, tc := range map[string]struct {
		row  []byte
		read func([]byte) error
	}{
		"meta":      {m.append(nil), func(b []byte) error { _, err := decodeMeta(b); return err }},
		"queue":     {q.append(nil), func(b []byte) error { _, err := decodeQueue(1, b); return err }},
		"partition": {p.append(nil), func(b []byte) error { _, err := decodePartition(1, b); return err }},
		"tail":      {appendTail(segment.Tail{}, 0), func(b []byte) error { _, _, err := decodeTail(b); return err }},
		"removed":   {appendRemoved(retention.Removed{}), func(b []byte) error { _, err := decodeRemoved(b); return err }},
		"dropped":   {appendDropped(nil), func(b []byte) error { _, err := decodeDropped(b); return err }},
		"hidden":    {appendHidden(0, nil), func(b []byte) error { _, _, err := decodeHidden(b); return err }},
		"lost":      {new(lostRow).append(), func(b []byte) error { _, err := decodeLost(nil, make([]byte, 16), b); return err }},
		"heads":     {heads{}.append(), func(b []byte) error { _, err := decodeHeads(b); return err }},
		"ids up to": {idPlace{}.append(), func(b []byte) error { _, err := decodeIDPlace(b); return err }},
	} {
		if err := tc.read(tc.row); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		other := append([]byte{4}, tc.row[1:]...)
		for _, bad := range [][]byte{nil, other, tc.row[:len(tc.row)-1], append(tc.row[:len(tc.row):len(tc.row)], 0)} {
			if tc.read(bad) == nil {
				t.Errorf("%s: %x was read", name, bad)
			}
		}
	}
}

// TestOptionTable: the list has every option once, in order, with the type that commands give it; names are unique; defaults
// pass their own check.
func TestOptionTable(t *testing.T) {
	names := make(map[string]bool)
	for i, spec := range OptionSpecs() {
		want, known := command.OptionTypeOf(spec.Number)
		if spec.Number != uint64(i+1) || !known || spec.Type != want || spec.Default.Number != spec.Number || spec.Default.Type != want {
			t.Errorf("%s: %+v", spec.Name, spec)
		}
		if names[spec.Name] || names[spec.Alias] || spec.Meaning == "" {
			t.Errorf("%s: named twice, or without a meaning", spec.Name)
		}
		names[spec.Name] = true
		if err := spec.Check(spec.Default); err != nil {
			t.Error(err)
		}
	}
	if _, known := command.OptionTypeOf(uint64(len(names) + 1)); known || len(names) != 19 {
		t.Errorf("%d options", len(names))
	}
	empty := &QueueRow{}
	for number, want := range map[uint64]int64{
		command.OptLeaseTime: 300, command.OptRetryLimit: 3, command.OptRetryDelay: 1000, command.OptTTL: 3600,
		command.OptDedupWindowSeconds: 3600, command.OptRetentionSinkHoldMaxSeconds: 604800, command.OptMaxWaitTimeSeconds: 0,
	} {
		if got := empty.Int(number); got != want {
			t.Errorf("option %d: %d, want %d", number, got, want)
		}
	}
	if !empty.Bool(command.OptDeadLetterQueue) || empty.Bool(command.OptEncryptionEnabled) || empty.Option(99) != (command.Option{}) {
		t.Error("defaults of booleans, or of an option that is none")
	}
}

func TestOptionCheck(t *testing.T) {
	num := func(number uint64, v int64) command.Option {
		return command.Option{Number: number, Type: command.TypeInt, Int: v}
	}
	hold := func(s string) command.Option {
		return command.Option{Number: command.OptRetentionSinkHold, Type: command.TypeString, Str: s}
	}
	for _, tc := range []struct {
		o  command.Option
		ok bool
	}{
		{num(command.OptRetentionSinkHoldMaxSeconds, 59), false}, {num(command.OptRetentionSinkHoldMaxSeconds, 60), true},
		{num(command.OptRetentionSinkHoldMaxSeconds, 31_536_000), true}, {num(command.OptRetentionSinkHoldMaxSeconds, 31_536_001), false},
		{num(command.OptDedupWindowSeconds, -1), false}, {num(command.OptDedupWindowSeconds, 0), true},
		{num(command.OptMinPopWaitTime, -1), true}, {num(command.OptMinPopWaitTime, 1<<40), true}, {num(command.OptLeaseTime, -5), true},
		{hold(""), true}, {hold("a.B_c-9"), true}, {hold("a b"), false}, {hold(strings.Repeat("a", 65)), false}, {hold("a\n"), false},
		{command.Option{Number: command.OptLeaseTime, Type: command.TypeBool}, false},
		{command.Option{Number: command.OptRetentionSinkHoldMaxSeconds}, true},
	} {
		spec, _ := specOf(tc.o.Number)
		if err := spec.Check(tc.o); (err == nil) != tc.ok {
			t.Errorf("%+v: %v", tc.o, err)
		}
	}
	for v, want := range map[int64]int64{-1: 0, 5: 5, 60_001: 60_000} {
		if got := clamp(num(command.OptMinPopWaitTime, v)); got.Int != want {
			t.Errorf("%d is clamped to %d, want %d", v, got.Int, want)
		}
	}
}

// TestUUID pins docs/formats.md 5.3.
func TestUUID(t *testing.T) {
	seed := [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	seen := make(map[string]bool)
	for _, u := range []string{UUID(seed, KindQueue, 1), UUID(seed, KindPartition, 1), UUID(seed, KindQueue, 2), UUID([16]byte{}, KindQueue, 1)} {
		if seen[u] || len(u) != 36 || u[14] != '8' || !strings.ContainsRune("89ab", rune(u[19])) {
			t.Errorf("%s", u)
		}
		seen[u] = true
	}
	if got, want := UUID(seed, KindQueue, 1), "7f89e553-23d1-81c5-948a-7e0683f6c3ca"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
