package chaos

import (
	"math"
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestModel: histories that the store may give fit the model, and those that it must not give do not.
func TestModel(t *testing.T) {
	put := func(expect int64, value string) kvIn {
		return kvIn{key: "k", write: true, expect: expect, value: value}
	}
	get := kvIn{key: "k"}
	unclear := kvOut{unclear: true}
	type op struct {
		in        kvIn
		call, end int64
		out       kvOut
	}
	for name, c := range map[string]struct {
		fits bool
		ops  []op
	}{
		"one after the other": {true, []op{{put(0, "a"), 1, 2, kvOut{applied: true, value: "a", version: 5}}, {get, 3, 4, kvOut{value: "a", version: 5}}}},
		"a stale read":        {false, []op{{put(0, "a"), 1, 2, kvOut{applied: true, value: "a", version: 5}}, {get, 3, 4, kvOut{}}}},
		"two with one expect": {false, []op{{put(0, "a"), 1, 9, kvOut{applied: true, value: "a", version: 5}}, {put(0, "b"), 1, 9, kvOut{applied: true, value: "b", version: 6}}}},
		"one of two":          {true, []op{{put(0, "a"), 1, 9, kvOut{applied: true, value: "a", version: 5}}, {put(0, "b"), 1, 9, kvOut{value: "a", version: 5}}}},
		"a version again":     {false, []op{{put(-1, "a"), 1, 2, kvOut{applied: true, value: "a", version: 5}}, {put(-1, "b"), 3, 4, kvOut{applied: true, value: "b", version: 5}}}},
		"lost without reason": {false, []op{{put(0, "a"), 1, 2, kvOut{value: "", version: 0}}}},
		"unclear, seen late":  {true, []op{{put(0, "a"), 1, 0, unclear}, {get, 2, 3, kvOut{}}, {get, 4, 5, kvOut{value: "a", version: 7}}}},
		"unclear, never":      {true, []op{{put(0, "a"), 1, 0, unclear}, {get, 2, 3, kvOut{}}}},
		"unclear, then gone":  {false, []op{{put(0, "a"), 1, 0, unclear}, {get, 2, 3, kvOut{value: "a", version: 7}}, {get, 4, 5, kvOut{}}}},
		"unclear, twice": {false, []op{{put(0, "a"), 1, 0, unclear}, {get, 2, 3, kvOut{value: "a", version: 7}}, {put(7, "b"), 4, 5, kvOut{applied: true, value: "b", version: 8}},
			{get, 6, 7, kvOut{value: "a", version: 9}}}},
		"before its call": {false, []op{{get, 1, 2, kvOut{value: "a", version: 7}}, {put(0, "a"), 3, 0, unclear}}},
	} {
		var history []porcupine.Operation
		for i, o := range c.ops {
			if o.out.unclear {
				o.end = math.MaxInt64
			}
			history = append(history, porcupine.Operation{ClientId: i, Input: o.in, Call: o.call, Output: o.out, Return: o.end})
		}
		if got := porcupine.CheckOperations(kvModel(), history); got != c.fits {
			t.Errorf("%s: fits is %v, want %v", name, got, c.fits)
		}
	}
}
