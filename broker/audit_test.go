package broker

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/broker/command"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/internal/crashdisk"
	"queen/stages"
)

// life is one process.
type life struct {
	fs   *crashdisk.FS
	segs *segment.Store
	*state.State
	gone []segment.Gone
}

type audit struct {
	t             *testing.T
	rng           *rand.Rand
	n             *life
	entries       [][]byte
	at            stages.Micros
	next          uint64
	lakes         []*lake
	pushed        map[*lake]map[offset]int // what each has to account for
	lost, objects int
}

func newAudit(t *testing.T, seed uint64) *audit {
	a := &audit{t: t, rng: rand.New(rand.NewPCG(seed, 77)), at: 1_000_000_000, pushed: make(map[*lake]map[offset]int)}
	for _, queue := range []string{"q0", "q1/ü"} {
		for _, sink := range []string{"default", "other"} {
			l := &lake{sink: sink, queue: queue, got: make(map[offset]int)}
			a.lakes, a.pushed[l] = append(a.lakes, l), make(map[offset]int)
		}
	}
	a.open(crashdisk.New())
	seedBytes := [16]byte{1, 2, 3}
	a.apply(command.KindFound, seedBytes[:])
	return a
}

func (a *audit) open(fs *crashdisk.FS) {
	segs, err := segment.Open(segment.Options{FS: fs, Dir: "segments", SealBytes: 2048, Generation: a.rng.Uint32()})
	if err != nil {
		a.t.Fatal(err)
	}
	s, err := state.Open(state.Options{FS: fs, Dir: "state", Segments: segs, Fatal: func(err error) { a.t.Errorf("fatal: %v", err) }})
	if err != nil {
		a.t.Fatal(err)
	}
	a.n = &life{fs: fs, segs: segs, State: s}
	for i := s.Applied(); i < uint64(len(a.entries)); i++ {
		if _, err := s.Apply(i+1, a.entries[i]); err != nil {
			a.t.Fatal(err)
		}
	}
}

func (l *life) close() { _, _ = l.State.Close(), l.segs.Close() }

// crash ends the process. The disk keeps some of what was not synced.
func (a *audit) crash() {
	// What the store does beside us decides how often the disk draws, so it has numbers of its own: a seed takes the same steps each time.
	own := rand.New(rand.NewPCG(a.rng.Uint64(), 77))
	fs := a.n.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[a.rng.IntN(3)], RNG: own})
	a.n.close()
	a.open(fs)
}

func (a *audit) apply(kind command.Kind, body []byte) any {
	e := command.AppendCommand(command.AppendEntry(nil), command.Command{Kind: kind, Time: a.at, Body: body})
	a.entries = append(a.entries, e)
	results, err := a.n.Apply(uint64(len(a.entries)), e)
	if err != nil {
		a.t.Fatal(err)
	}
	switch r := results[0].(type) {
	case state.Retained:
		a.told(r)
	case *state.Deleted:
		a.told(r.Retained)
	}
	return results[0]
}

func (a *audit) told(went state.Retained) {
	for _, q := range went {
		for _, lost := range q.Lost {
			for _, l := range a.lakes {
				if l.queue == q.Queue && l.sink == lost.Sink {
					l.told += lost.Records
				}
			}
		}
	}
}

func (a *audit) tenant() [16]byte {
	id, err := tenantID(stages.DefaultTenant)
	if err != nil {
		a.t.Fatal(err)
	}
	return id
}

func (a *audit) log() *log { return &log{state: a.n.State, segs: a.n.segs, tenant: a.tenant()} }

func (a *audit) find(sink, name string) (stages.QueueInfo, bool) {
	return (&queues{state: a.n.State, tenant: a.tenant(), sink: sink}).Find(name)
}
