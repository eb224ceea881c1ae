package state_test

import (
	"fmt"
	"math/rand/v2"

	"queen/broker/command"
	"queen/broker/kv"
	"queen/stages"
)

// workload returns n random entries of one to three commands each: pushes with repeated ids, documents that expire, options,
// ticks, leaps of the clock over the edges of dedup buckets.
func workload(seed uint64, n int) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 7))
	entries := [][]byte{entry(1_000_000, found([16]byte{1, 2, 3}))}
	at, next := stages.Micros(1_000_000), uint32(0)
	for len(entries) < n {
		switch rng.IntN(10) {
		case 0:
			at += stages.Micros(rng.IntN(2*3600)) * 1_000_000
		case 1:
			at -= stages.Micros(rng.IntN(1000))
		default:
			at += stages.Micros(rng.IntN(500_000))
		}
		var commands []command.Command
		for range 1 + rng.IntN(3) {
			commands = append(commands, randomCommand(rng, &next))
		}
		entries = append(entries, entry(at, commands...))
	}
	return entries
}

func randomCommand(rng *rand.Rand, next *uint32) command.Command {
	switch rng.IntN(10) {
	case 0:
		return tick()
	case 1:
		return configure(command.Configure{
			Queue: fmt.Sprintf("q%d", rng.IntN(4)), Mode: command.Mode(rng.IntN(2)),
			Options: []command.Option{{Number: command.OptDedupWindowSeconds, Type: command.TypeInt, Int: int64(rng.IntN(3) * 3600)}},
		})
	case 2, 3, 4:
		var batch []kv.Op
		for _, k := range rng.Perm(12)[:1+rng.IntN(4)] {
			op := put(fmt.Sprintf("k%d", k), fmt.Sprint(*next), stages.Micros(rng.IntN(3))*1_000_000)
			if rng.IntN(4) == 0 {
				expect := uint64(rng.IntN(2))
				op.Expect, op.Required = &expect, rng.IntN(2) == 0
			}
			if rng.IntN(5) == 0 {
				op = kv.Op{Kind: kv.Delete, NS: "n", Key: op.Key}
			}
			batch = append(batch, op)
		}
		return ops(batch...)
	}
	var items []item
	for _, place := range rng.Perm(12)[:1+rng.IntN(4)] {
		it := item{queue: fmt.Sprintf("q%d", place%4), partition: fmt.Sprintf("p%d", place/4)}
		for range 1 + rng.IntN(5) {
			tx := ""
			if rng.IntN(4) > 0 {
				tx = fmt.Sprintf("t%d", rng.IntN(60))
			}
			it.messages = append(it.messages, fmt.Sprintf("%s=%d-%0*d", tx, *next, rng.IntN(40), 0))
		}
		items = append(items, it)
	}
	return pushOf(next, 1, items...)
}
