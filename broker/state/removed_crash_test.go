package state_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"queen/broker/command"
	"queen/broker/kv"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/internal/rounds"
	"queen/stages"
)

// removals returns n random entries in which much comes and goes: pushes, options of retention, rows of two sinks, retention in small steps,
// queues that are deleted and made again.
func removals(seed uint64, n int) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 8))
	entries := [][]byte{entry(1_000_000, found([16]byte{1, 2, 3}))}
	at, next := stages.Micros(1_000_000), uint32(0)
	k := make(map[string]uint64)
	for len(entries) < n {
		if at += stages.Micros(rng.IntN(3_000_000)); rng.IntN(40) == 0 {
			at += 3600_000_000
		}
		var commands []command.Command
		for range 1 + rng.IntN(3) {
			commands = append(commands, randomRemoval(rng, &next, at, k))
		}
		entries = append(entries, entry(at, commands...))
	}
	return entries
}

func randomRemoval(rng *rand.Rand, next *uint32, at stages.Micros, k map[string]uint64) command.Command {
	queue := fmt.Sprintf("q%d", rng.IntN(3))
	switch rng.IntN(12) {
	case 0:
		seconds := func(number uint64) command.Option {
			return command.Option{Number: number, Type: command.TypeInt, Int: int64(rng.IntN(20))}
		}
		return configure(command.Configure{Queue: queue, Options: []command.Option{
			{Number: command.OptRetentionEnabled, Type: command.TypeBool, Bool: rng.IntN(4) > 0},
			seconds(command.OptRetentionSeconds), seconds(command.OptMaxWaitTimeSeconds),
		}})
	case 1, 2:
		return sinkStep(rng, fmt.Sprintf("s%d", rng.IntN(2)), queue, at, k)
	case 3, 4, 5:
		return command.Command{Kind: command.KindRetain, Body: command.Retain{Most: 1 + rng.Uint64N(6), Queues: someQueues(rng)}.Append(nil)}
	case 6:
		if rng.IntN(4) == 0 {
			return command.Command{Kind: command.KindDelete, Body: command.Delete{Tenant: tenantOne, Queue: queue}.Append(nil)}
		}
	}
	var items []item
	for _, place := range rng.Perm(6)[:1+rng.IntN(4)] {
		it := item{queue: fmt.Sprintf("q%d", place%3), partition: fmt.Sprintf("p%d", place/3)}
		for range 1 + rng.IntN(5) {
			it.messages = append(it.messages, fmt.Sprintf("t%d=%d-%0*d", rng.IntN(300), *next, rng.IntN(300), 0))
		}
		items = append(items, it)
	}
	return pushOf(next, 1, items...)
}

func someQueues(rng *rand.Rand) (ids []stages.QueueID) {
	for id := range stages.QueueID(12) {
		if rng.IntN(2) == 0 {
			ids = append(ids, id+1)
		}
	}
	if ids == nil {
		return []stages.QueueID{1}
	}
	return ids
}

// sinkStep writes the next row of a sink: start, intent, pointer, intent, ...
func sinkStep(rng *rand.Rand, sink, queue string, at stages.Micros, k map[string]uint64) command.Command {
	name := sink + ":" + queue
	end := at - stages.Micros(rng.IntN(4_000_000))
	k[name]++
	row, value := "start", `{"start":"earliest","wait":2000000}`
	if n := k[name] / 2; n > 0 && k[name]%2 == 0 {
		row, value = "intent", fmt.Sprintf(`{"k":%d,"tStart":0,"tEnd":%d}`, n, end)
	} else if n > 0 {
		row, value = "committed", fmt.Sprintf(`{"k":%d,"tEnd":%d}`, n, end)
	}
	return ops(kv.Op{Kind: kv.Put, NS: state.SinkNamespace, Key: "s3:" + name + ":" + row, Value: []byte(value), Forever: true})
}

// TestCrashRemoved: the same as TestCrash for what was removed, with files that go meanwhile. Where frames lie is a node's own affair then.
func TestCrashRemoved(t *testing.T) {
	for seed := range uint64(rounds.Of(6, 1)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			var gone []segment.Gone
			removed, of := 0, (*node)(nil)
			aside := func(n *node) {
				if of == nil || of.State != n.State {
					of, gone = n, nil // another life: what was to go goes with its boot
				}
				if err := n.segments.Remove(gone); err != nil {
					t.Fatal(err)
				}
				var err error
				if gone, err = n.Reclaim(); err != nil {
					t.Fatal(err)
				}
				removed += len(gone)
			}
			crash1(t, seed, removals(seed, 150), (*state.State).DumpShared, 10, aside)
			if removed < 5 {
				t.Errorf("files went %d times", removed)
			}
		})
	}
}
