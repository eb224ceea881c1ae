package lake

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"queen/internal/hostile"
	"queen/stages"
	"queen/upload"
)

// Each damage is done to a whole lake, and must be found, and named.
func TestDamage(t *testing.T) {
	swap := func(m mem, key, from, to string) {
		if !bytes.Contains(m[key], []byte(from)) {
			panic("nothing to damage: " + from)
		}
		m[key] = bytes.Replace(m[key], []byte(from), []byte(to), 1)
	}
	side := func(k string) string { return sides + "000000000" + k + ".json" }
	l1 := strings.SplitAfter(lines1, "\n")
	cases := map[string]struct {
		do   func(m mem)
		want string // of the one fault, or of the first of several
	}{
		"manifest missing":             {func(m mem) { delete(m, side("2")) }, "windows 2 to 2 have no manifest"},
		"first manifest missing":       {func(m mem) { delete(m, side("1")) }, "windows 1 to 1 have no manifest"},
		"object missing":               {func(m mem) { delete(m, key2) }, key2 + ": is named by the manifest of window 2 and is not there"},
		"orphan object":                {func(m mem) { m[strings.Replace(key3, "w-0000000003", "w-0000000004", 1)] = nil }, "is named by no manifest"},
		"second object of window":      {func(m mem) { m[strings.Replace(key3, "801000000", "802000000", 1)] = nil }, "is named by no manifest"},
		"foreign object":               {func(m mem) { m["queen/notes.txt"] = nil }, "queen/notes.txt: is not a key of a lake"},
		"byte flipped":                 {func(m mem) { swap(m, key3, `"x"`, `"y"`) }, "has sha256"},
		"byte flipped in zstd":         {func(m mem) { m[key1][len(m[key1])/2] ^= 1 }, key1},
		"object cut":                   {func(m mem) { m[key1] = m[key1][:len(m[key1])-5] }, "its manifest says"},
		"object longer":                {func(m mem) { m[key3] = append(m[key3], '\n') }, "its manifest says"},
		"checkpoint of another window": {func(m mem) { m[point] = packZstd(t, strings.Replace(checkpoint1, `"k":1`, `"k":2`, 1)) }, point + ": is of window 2"},
		"checkpoint ends elsewhere":    {func(m mem) { m[point] = packZstd(t, strings.Replace(checkpoint1, `855,`, `856,`, 1)) }, point + ": ends at 1791009458377856, its window at 1791009458377855"},
		"checkpoint not sorted":        {func(m mem) { m[point] = packZstd(t, strings.Replace(checkpoint1, "cust-2", "a", 1)) }, `position 1, "a" at 1, stands behind "cust-1"`},
		"checkpoint negative":          {func(m mem) { m[point] = packZstd(t, strings.Replace(checkpoint1, `",2`, `",-2`, 1)) }, `"cust-1" at -2`},
		"checkpoint without an offset": {func(m mem) { m[point] = packZstd(t, strings.Replace(checkpoint1, `["cust-2",1]`, `["cust-2"]`, 1)) }, "position 1 has 1 members"},
		"checkpoint without k":         {func(m mem) { m[point] = packZstd(t, strings.Replace(checkpoint1, `"k":1,`, ``, 1)) }, "it has no k"},
		"checkpoint cut":               {func(m mem) { m[point] = m[point][:len(m[point])-6] }, point + ": cannot be read"},
		"checkpoint is no zstd":        {func(m mem) { m[point] = []byte(checkpoint1) }, point + ": cannot be read"},
		"checkpoint of no window":      {func(m mem) { m[strings.Replace(point, "01.json", "09.json", 1)] = m[point] }, "is a checkpoint of a window that has no manifest"},
		"line without end":             {func(m mem) { m.put(t, 3, strings.TrimSuffix(lines3, "\n")) }, "line 1 has no line feed"},
		"lines swapped":                {func(m mem) { m.put(t, 1, l1[1]+l1[0]+l1[2]) }, "line 2 has offset 0 behind 1"},
		"partitions swapped":           {func(m mem) { m.put(t, 1, l1[2]+l1[0]+l1[1]) }, `line 2 has partition "cust-1" behind "cust-2"`},
		"record twice":                 {func(m mem) { m.put(t, 1, l1[0]+l1[0]+l1[1]+l1[2]) }, "line 2 has offset 0 behind 0"},
		"record twice in windows":      {func(m mem) { m.put(t, 2, strings.Replace(lines2, `"offset":2`, `"offset":1`, 1)) }, `line 1 has offset 1 of partition "cust-1" once more: 2 comes next`},
		"record left out":              {func(m mem) { m.put(t, 2, strings.Replace(lines2, `"offset":2`, `"offset":3`, 1)) }, `line 1 has offset 3 of partition "cust-1": 2 to 2 are neither here nor in lost`},
		"lost says too little":         {func(m mem) { swap(m, side("2"), `,{"partition":"cust-2","from":3,"to":3}`, "") }, `"cust-2": 1 to 3 are neither here nor in lost`},
		"lost backwards":               {func(m mem) { swap(m, side("2"), `"from":1,"to":2`, `"from":2,"to":1`) }, `lost range 2 to 1 of "cust-2"`},
		"before its window":            {func(m mem) { m.put(t, 2, strings.Replace(lines2, "06:40:00", "06:37:38", 1)) }, "outside its window"},
		"at the end of its window":     {func(m mem) { m.put(t, 2, strings.Replace(lines2, "06:59:59.999999", "07:00:00.000000", 1)) }, "line 1 is stamped 2026-10-03T07:00:00.000000Z, outside its window"},
		"stamp back in partition": {func(m mem) {
			m.put(t, 2, strings.Replace(lines2, `"again","ts":"2026-10-03T06:50`, `"again","ts":"2026-10-03T06:39`, 1))
		}, "behind 2026-10-03T06:40:00.000000Z in its partition"},
		"space in the envelope": {func(m mem) { m.put(t, 3, strings.Replace(lines3, `"ts":`, `"ts": `, 1)) }, `line 1 has " \"2026`},
		"other escape":          {func(m mem) { m.put(t, 2, strings.Replace(lines2, `t/é`, `t\/é`, 1)) }, "which the lake does not use"},
		"escape in upper case":  {func(m mem) { m.put(t, 2, strings.Replace(lines2, `\u0001`, `\u001F`, 1)) }, "which the lake does not use"},
		"escape by number":      {func(m mem) { m.put(t, 2, strings.Replace(lines2, `\n"`, `\u000a"`, 1)) }, "which the lake does not use"},
		"stamp short":           {func(m mem) { m.put(t, 3, strings.Replace(lines3, "00.000000Z", "00.000Z", 1)) }, "is not a stamp"},
		"fields in another order": {func(m mem) {
			m.put(t, 3, strings.Replace(lines3, `"offset":7,"transactionId":"x"`, `"transactionId":"x","offset":7`, 1))
		}, "line 1 has"},
		"payload broken":           {func(m mem) { m.put(t, 3, strings.Replace(lines3, `"a":2}`, `"a":}`, 1)) }, "payload is not one JSON value"},
		"payload with CR":          {func(m mem) { m.put(t, 3, strings.Replace(lines3, `,"a":2`, ",\r\"a\":2", 1)) }, "payload holds a raw CR"},
		"not UTF-8":                {func(m mem) { m.put(t, 3, strings.Replace(lines3, `"a":1`, "\"a\xff\":1", 1)) }, "is not UTF-8"},
		"offset with zeros":        {func(m mem) { m.put(t, 3, strings.Replace(lines3, `:7,`, `:07,`, 1)) }, "where a whole number belongs"},
		"manifest: records":        {func(m mem) { swap(m, side("1"), `"records":3,"bytes"`, `"records":4,"bytes"`) }, "sums are 4 records"},
		"manifest: object records": {func(m mem) { swap(m, side("1"), `"records":3,"sha256"`, `"records":2,"sha256"`) }, "sums are 3 records"},
		"manifest: partitions":     {func(m mem) { swap(m, side("1"), `"partitions":2`, `"partitions":1`) }, "has 2 partitions, its manifest says 1"},
		"manifest: maxTs":          {func(m mem) { swap(m, side("1"), `"maxTs":1791009457501942`, `"maxTs":1791009457501943`) }, "its manifest says otherwise"},
		"manifest: other k":        {func(m mem) { swap(m, side("3"), `"k":3`, `"k":4`) }, "names window 4"},
		"manifest: other queue":    {func(m mem) { swap(m, side("3"), `"queue":"orders"`, `"queue":"other"`) }, `queue "other"`},
		"manifest: overlap":        {func(m mem) { swap(m, side("3"), `"tStart":1791010800000000`, `"tStart":1791010799999999`) }, "before window 2 ends"},
		"manifest: end":            {func(m mem) { swap(m, side("1"), `"tEnd":1791009458377855`, `"tEnd":1791007200000000`) }, "is not before tEnd"},
		"manifest: writer":         {func(m mem) { swap(m, side("2"), "jsonl+gzip", "jsonl+zstd") }, "writer is"},
		"manifest: layout":         {func(m mem) { swap(m, side("2"), "merged", "shuffled") }, "layout is"},
		"manifest: committedAt":    {func(m mem) { swap(m, side("2"), "44.741000Z", "44.741Z") }, "committedAt"},
		"manifest: sha256":         {func(m mem) { swap(m, side("2"), `"sha256":"`, `"sha256":"0`) }, "sha256 is"},
		"manifest: pretty":         {func(m mem) { swap(m, side("2"), `,"k"`, `, "k"`) }, "is not written as a manifest is"},
		"manifest: newline":        {func(m mem) { m[side("2")] = append(m[side("2")], '\n') }, "is not written as a manifest is"},
		"manifest: unknown field":  {func(m mem) { swap(m, side("2"), `,"k"`, `,"z":1,"k"`) }, "is not a manifest"},
		"manifest: lost missing":   {func(m mem) { swap(m, side("3"), `"lost":[],`, "") }, "is not a manifest"},
		"manifest: garbage":        {func(m mem) { m[side("3")] = []byte("<xml/>") }, "is not a manifest"},
		"gzip with a name":         {func(m mem) { m[key2] = packGzip(t, lines2, "orders.jsonl"); m.describe(2) }, "gzip member carries a name"},
		"gzip in two members": {func(m mem) {
			m[key2] = append(packGzip(t, lines2[:20], ""), packGzip(t, lines2[20:], "")...)
			m.describe(2)
		}, "more than one member"},
		"zstd in two frames": {func(m mem) { m[key1] = append(packZstd(t, l1[0]), packZstd(t, l1[1]+l1[2])...); m.describe(1) }, "behind its one frame"},
		"not zstd":           {func(m mem) { m[key1] = []byte(lines1); m.describe(1) }, "cannot be read"},
		"wrong path": {func(m mem) {
			moved := strings.Replace(key3, "hour=07", "hour=08", 1)
			m[moved] = m[key3]
			delete(m, key3)
			swap(m, side("3"), "hour=07", "hour=08")
		}, "is not the key of window 3"},
		"window over the hour": {func(m mem) {
			moved := strings.Replace(key3, "1791010801000000", "1791014400000001", 1)
			m[moved] = m[key3]
			delete(m, key3)
			m[side("3")] = bytes.ReplaceAll(m[side("3")], []byte("1791010801000000"), []byte("1791014400000001"))
		}, "outside its path"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := whole(t)
			c.do(m)
			_, faults := verify(t, m, Options{})
			if !strings.Contains(strings.Join(faults, "\n"), c.want) {
				t.Errorf("want a fault with %q, got\n%s", c.want, strings.Join(faults, "\n"))
			}
		})
	}
}

// The walk over a frame must end where the frame does, whatever its blocks are and however its bytes come.
func TestFrame(t *testing.T) {
	random := make([]byte, 400_000)
	for i, x := 0, uint32(1); i < len(random); i++ {
		x = x*1664525 + 1013904223
		random[i] = byte(x >> 24)
	}
	for _, text := range []string{"", "a", lines1, strings.Repeat("a", 1_000_000), string(random), strings.Repeat(lines1, 10_000)} {
		packed := packZstd(t, text)
		for _, step := range []int{1, 7, 1 << 20} {
			var f frame
			for rest := packed; len(rest) > 0; rest = rest[min(step, len(rest)):] {
				f.Write(rest[:min(step, len(rest))])
			}
			if !f.done || f.behind != 0 {
				t.Errorf("%d bytes of text in steps of %d: done %v, %d behind", len(text), step, f.done, f.behind)
			}
			f.Write([]byte("xy"))
			if f.behind != 2 {
				t.Errorf("%d behind, not 2", f.behind)
			}
		}
	}
}

func TestManyFaultsAreCapped(t *testing.T) {
	m := whole(t)
	m.put(t, 3, strings.Repeat("nonsense\n", 1000))
	_, faults := verify(t, m, Options{})
	if len(faults) > maxLineFaults+5 || !strings.Contains(strings.Join(faults, "\n"), "has 990 faults more of this kind") {
		t.Errorf("%d faults: %s", len(faults), strings.Join(faults, "\n"))
	}
}

func TestAlignNone(t *testing.T) {
	m := whole(t)
	moved := strings.Replace(key3, "1791010801000000", "1791014400000001", 1)
	m[moved] = m[key3]
	delete(m, key3)
	m[sides+"0000000003.json"] = bytes.ReplaceAll(m[sides+"0000000003.json"], []byte("1791010801000000"), []byte("1791014400000001"))
	if _, faults := verify(t, m, Options{Align: AlignNone}); len(faults) > 0 {
		t.Error(faults)
	}
}

func FuzzLine(f *testing.F) {
	for line := range strings.SplitSeq(lines1+lines2+lines3, "\n") {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		row, err := parseLine(line)
		if err != nil {
			return
		}
		// What is accepted is exactly what its values are written as.
		again := quote([]byte(`{"partition":`), row.Partition)
		again = append(again, `,"offset":`...)
		again = append(again, itoa(row.Offset)...)
		again = quote(append(again, `,"transactionId":`...), row.TxID)
		again = append(again, `,"ts":"`+iso(row.TS)+`","payload":`...)
		again = append(append(again, row.Payload...), '}')
		if !bytes.Equal(again, line) {
			t.Fatalf("accepted %q, which would be written %q", line, again)
		}
	})
}

// FuzzManifest: the audit and the sink read manifests with code of their own: both accept the same texts, and what they accept is what they
// write for it. A text that the audit refuses because its values make no sense, the sink may take.
func FuzzManifest(f *testing.F) {
	m := whole(f)
	for _, k := range []string{"1", "2", "3"} {
		f.Add(m[sides+"000000000"+k+".json"])
	}
	f.Add(partitioned(f)[sides+"0000000001.json"])
	f.Fuzz(func(t *testing.T, text []byte) {
		var m Manifest
		var err error
		hostile.Bounded(t, len(text), 64, func() { m, err = parseManifest(text) })
		if err != nil {
			return
		}
		if !bytes.Equal(m.bytes(), text) {
			t.Fatalf("accepted %q", text)
		}
		other, err := upload.ParseManifest(text)
		if err != nil || !bytes.Equal(other.Append(nil), text) {
			t.Fatalf("the audit accepts %q, the sink: %v", text, err)
		}
	})
}

// FuzzKey: a key that is read is spelled in the one way that its parts are written in, below the prefix; names in it come back.
func FuzzKey(f *testing.F) {
	for _, key := range []string{
		"tenant=t/queue=a%2Fb/dt=2026-10-03/hour=06/w-0000000001-1791007200000000-1791010800000000.jsonl.zst",
		"tenant=t/queue=orders/dt=2026-10-03/w-12345678901-0000000000000000-1791010800000000.jsonl", "_queen/tenant=t/queue=q/windows/0000000001.json",
		"tenant=t/queue=q/dt=2026-10-03/w-0000000001-1791007200000000-1791010800000000-p-a%2Fb-000000000000-000000000003.jsonl.gz",
		"tenant=t/queue=q/dt=2026-10-03/w-0000000001-1791007200000000-1791010800000000-p-%D~0123456789abcdef-000000000000-000000000003.jsonl",
		"_queen/tenant=t/queue=q/checkpoint/0000000001.json.zst", "tenant=../queue=../x", "tenant=t/queue=%2f/dt=2026-10-03/w-1-2-3.jsonl.gz",
	} {
		f.Add("queen/", key)
	}
	f.Fuzz(func(t *testing.T, prefix, rest string) {
		p := parseKey(prefix, prefix+rest)
		if p.kind == unknownKey {
			return
		}
		for _, text := range []string{p.tenant, p.queue} {
			if stages.Esc(unescapeName(text)) != text {
				t.Fatalf("%q has the name %q, which would be written %q", rest, text, stages.Esc(unescapeName(text)))
			}
		}
		owner := "tenant=" + p.tenant + "/queue=" + p.queue + "/"
		begin, end := "_queen/"+owner, ""
		switch p.kind {
		case dataKey:
			begin = owner + "dt=" + strings.Replace(p.day, "/", "/hour=", 1) + "/w-"
			end = fmt.Sprintf("%d-%016d-%016d.%s", p.k, p.start, p.end, p.ext)
			if p.part != "" {
				end = fmt.Sprintf("%d-%016d-%016d-p-%s.%s", p.k, p.start, p.end, p.part, p.ext)
			}
		case manifestKey:
			begin, end = begin+"windows/", fmt.Sprintf("%d.json", p.k)
		case checkpointKey:
			begin, end = begin+"checkpoint/", fmt.Sprintf("%d.json.zst", p.k)
		}
		middle, ok := strings.CutPrefix(rest, begin)
		middle, also := strings.CutSuffix(middle, end)
		if !ok || !also || strings.Trim(middle, "0") != "" {
			t.Fatalf("%q is read as %+v: %q, digits, %q", rest, p, begin, end)
		}
	})
}
