package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// What the clients of the KV documents do. A key is used for a while and then another one: the histories of keys are checked one by one, and
// how long that takes grows fast with the unclear answers in one.
const (
	kvClients  = 4
	kvKeys     = 3
	kvKeyLife  = 8 * time.Second
	kvEvery    = 60 * time.Millisecond
	kvSpace    = "chaos"
	kvNoExpect = -1
)

// kvIn is one operation on a document: a read, or a write that replaces the version expect (kvNoExpect: whatever is there; 0: nothing).
type kvIn struct {
	key    string
	write  bool
	expect int64
	value  string // no two writes have the same
}

// kvOut is its answer. Of an unclear write nothing is known.
type kvOut struct {
	unclear bool
	applied bool   // of a write
	value   string // what was found, or what beat the write; empty: nothing is there
	version int64
}

// kvState is a document: version is kvUnknown after a write whose answer nobody heard, until somebody reads it.
type kvState struct {
	value   string
	version int64
	least   int64 // versions of this key are above it
}

const kvUnknown = -1

// kvModel is what the store promises: each operation happens at one moment between its call and its answer. An unclear one happens at some
// moment after its call, or after everything, which is never.
func kvModel() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byKey := map[string][]porcupine.Operation{}
			for _, op := range history {
				key := op.Input.(kvIn).key
				byKey[key] = append(byKey[key], op)
			}
			var out [][]porcupine.Operation
			for _, ops := range byKey {
				out = append(out, ops)
			}
			return out
		},
		Init: func() any { return kvState{} },
		Step: func(state, input, output any) (bool, any) {
			next, ok := kvStep(state.(kvState), input.(kvIn), output.(kvOut))
			return ok, next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
	}
}

func kvStep(s kvState, in kvIn, out kvOut) (kvState, bool) {
	switch {
	case in.write && out.unclear:
		if in.expect == kvNoExpect || in.expect == s.version {
			s.least = max(s.least, s.version)
			s.value, s.version = in.value, kvUnknown
		}
		return s, true
	case in.write && out.applied:
		if in.expect != kvNoExpect && in.expect != s.version || out.version <= max(s.least, s.version) {
			return s, false
		}
		return kvState{in.value, out.version, 0}, true
	}
	if out.value != s.value {
		return s, false
	}
	if s.version == kvUnknown {
		if out.version <= s.least {
			return s, false
		}
		s.version, s.least = out.version, 0 // now it is known
	}
	lost := !in.write || in.expect != kvNoExpect && in.expect != s.version // why a write was not applied
	return s, lost && out.version == s.version
}

// kvHistory is what all clients did and heard.
type kvHistory struct {
	start time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

func (h *kvHistory) add(client int, in kvIn, call int64, out kvOut) {
	back := time.Since(h.start).Nanoseconds()
	if out.unclear {
		back = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: back})
}

// kvClient reads and writes documents on any node, one operation after the other.
type kvClient struct {
	id    int
	nodes []*node
	http  *http.Client
	r     *rand.Rand
	h     *kvHistory
	sum   *sums
	seen  map[string]int64 // the version that this client heard of last
	n     int
}

func (c *kvClient) run(ctx context.Context) {
	tick := time.NewTicker(kvEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.n++
		in := kvIn{key: fmt.Sprintf("k%d-%d", c.r.IntN(kvKeys), int(time.Since(c.h.start)/kvKeyLife))}
		if version, known := c.seen[in.key]; known && c.r.IntN(10) < 6 {
			in.write, in.expect, in.value = true, version, fmt.Sprintf("%d-%d", c.id, c.n)
			if c.r.IntN(6) == 0 {
				in.expect = kvNoExpect
			}
		}
		c.once(in)
	}
}

// once runs one operation and notes what became of it. What was refused, or never sent, did not happen; a read without an answer tells nothing.
func (c *kvClient) once(in kvIn) {
	op := map[string]any{"op": "get", "ns": kvSpace, "key": in.key}
	if in.write {
		op["op"], op["value"], op["forever"] = "put", in.value, true
		if in.expect != kvNoExpect {
			op["expect"] = in.expect
		}
	}
	body, err := json.Marshal([]any{op})
	if err != nil {
		panic(err)
	}
	call := time.Since(c.h.start).Nanoseconds()
	out, err := c.ask(body)
	switch {
	case err == nil:
		c.seen[in.key] = out.version
		c.h.add(c.id, in, call, out)
	case errors.Is(err, errNotSent):
		c.sum.refused.Add(1)
	default:
		c.sum.unclear.Add(1)
		if in.write {
			c.h.add(c.id, in, call, kvOut{unclear: true})
		}
	}
}

func (c *kvClient) ask(body []byte) (kvOut, error) {
	status, text, err := post(c.http, c.nodes[c.r.IntN(len(c.nodes))].url+"/api/v1/kv", body)
	if err != nil {
		return kvOut{}, err
	}
	if status != http.StatusOK {
		var e struct{ Error, Reason string }
		if json.Unmarshal(text, &e) != nil {
			e.Error = string(text)
		}
		c.sum.note(fmt.Sprintf("kv %d %s %s", status, e.Error, e.Reason))
		err := fmt.Errorf("kv: %d %s", status, text)
		if e.Reason == "kv_no_leader" {
			return kvOut{}, fmt.Errorf("%w: %w", errNotSent, err)
		}
		return kvOut{}, err
	}
	var answer struct {
		Results []struct {
			Applied, Found bool
			Value          *string
			Version        int64
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.Results) != 1 {
		c.sum.note("kv 200 that can't be read")
		return kvOut{}, fmt.Errorf("kv answer: %v: %s", err, text)
	}
	r := answer.Results[0]
	out := kvOut{applied: r.Applied, version: r.Version}
	if r.Value != nil {
		out.value = *r.Value
	}
	return out, nil
}
