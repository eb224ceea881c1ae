package commit

import (
	"context"

	"queen/stages"
)

// Position is where a queue goes on.
type Position struct {
	K    uint64         // of the last committed window, 0 before the first
	At   stages.Micros  // tEnd of the pointer, else where the queue starts
	Redo *stages.Intent // the intent of window K+1 when it is open already

	Manifest string // key of the last committed window's, "" before the first
}

// Adopt reads the rows of a queue whose lease was just acquired, or whose last pass ended in an error, and says where it goes on. The first
// adoption ever decides the start (contract S11): under latest it is this node's safe time now, and the setting is never consulted again.
func (g *Ledger) Adopt(ctx context.Context, latest bool) (Position, error) {
	r, err := g.adoptRows(ctx)
	if err != nil {
		return Position{}, err
	}
	if r.targets[start].Version == 0 {
		at := stages.Beginning
		if latest {
			at = g.store().Log.Safe()
		}
		// Behind the fence and at version 0: two nodes cannot both decide it.
		if r.targets[start], err = g.writeStart(ctx, at); err != nil {
			return Position{}, err
		}
	}
	p, err := g.position(r)
	if err != nil {
		return Position{}, err
	}
	if at, err := stages.ParseStart(r.targets[start].Value); err == nil && stages.ParseWait(r.targets[start].Value) != g.store().Wait {
		if _, err := g.writeStart(ctx, at); err != nil {
			return Position{}, err
		}
	}
	return p, nil
}

// writeStart writes the start row: where the queue starts, which stays as it was decided, and how long retention waits for this sink, which
// follows the settings.
func (g *Ledger) writeStart(ctx context.Context, at stages.Micros) (stages.Row, error) {
	value, err := stages.MarshalRow(stages.StartAt(at, g.store().Wait))
	if err != nil {
		return stages.Row{}, err
	}
	if _, err := g.write(ctx, "start", start, value); err != nil {
		return stages.Row{}, err
	}
	return stages.Row{Key: g.key(start), Value: value, Version: 1}, nil
}

func (g *Ledger) adoptRows(ctx context.Context) (rows, error) {
	if err := g.lease.lock(ctx); err != nil {
		return rows{}, err
	}
	defer g.lease.unlock()
	r, err := readRows(ctx, g.store().KV, g.lease.keys)
	if err != nil {
		return rows{}, err
	}
	if !g.lease.found(r.lease) {
		return rows{}, g.lease.Lost()
	}
	for t, row := range r.targets {
		g.known[t] = row.Version
	}
	return r, nil
}

// settleDoubt raises the window whose pointer this process sent and never had an answer for, when the row turns out to be that very pointer.
func (g *Ledger) settleDoubt(pointer stages.Row) {
	if d := g.doubt; d != nil && pointer.Version != 0 && sameJSON(pointer.Value, d.value) {
		g.listen.Committed(d.window)
	}
	g.doubt = nil
}

// position makes sense of the rows.
func (g *Ledger) position(r rows) (Position, error) {
	g.k, g.end, g.open, g.start = 0, 0, nil, stages.Beginning
	var pointer stages.Pointer
	var err error
	if r.targets[committed].Version != 0 {
		// A pointer that cannot be read is not "no pointer": counting from 1 again would write records twice.
		if pointer, err = stages.ParsePointer(r.targets[committed].Value); err != nil {
			return Position{}, errFatal("the row %s cannot be read (%w): restore it, or delete it to mirror the queue from its start row again", g.key(committed), err)
		}
	}
	g.k, g.end = pointer.K, pointer.End
	// An honest pointer lies a guard below the safe time of who wrote it, and these rows were read through the log after it. One in the future would
	// skip every record up to there while the lag is nothing.
	safe := g.store().Log.Safe()
	if g.k > 0 && g.end > safe {
		return Position{}, errFatal("the row %s says that the lake is complete through %s and the log's safe time is %s: no sink wrote that; "+
			"restore the row, or delete it to mirror the queue from its start row again", g.key(committed), g.end.ISO(), safe.ISO())
	}
	g.settleDoubt(r.targets[committed])
	if g.start, err = stages.ParseStart(r.targets[start].Value); err != nil && g.k == 0 {
		return Position{}, errFatal("the row %s cannot be read (%w): restore it, or delete it to decide the start of the queue again", g.key(start), err)
	}
	if g.k == 0 && g.start > safe {
		return Position{}, errFatal("the row %s starts the queue at %s and the log's safe time is %s: no sink wrote that; "+
			"restore the row, or delete it to decide the start of the queue again", g.key(start), g.start.ISO(), safe.ISO())
	}
	p := Position{K: g.k, At: g.position0(), Manifest: pointer.Manifest}
	if r.targets[intent].Version == 0 {
		return p, nil
	}
	in, err := stages.ParseIntent(r.targets[intent].Value)
	if err != nil {
		g.listen.Ignored(g.queue.Name, g.key(intent))
		return p, nil
	}
	if in.K == g.k+1 {
		g.open, p.Redo = &in, &in
	}
	return p, nil
}

// position0 is where the next window starts.
func (g *Ledger) position0() stages.Micros {
	if g.k > 0 {
		return g.end
	}
	return g.start
}

// Open reports whether a window is between its intent and its pointer. Ask it while no pass runs.
func (g *Ledger) Open() bool { return g.open != nil }
