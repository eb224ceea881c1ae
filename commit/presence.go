package commit

import (
	"context"
	"fmt"
	"time"

	"queen/stages"
)

// presencePage is how many presence rows are read at once.
const presencePage = 1000

// Presence is this process's row among those that say which nodes run a sink (contract S7). It is for one goroutine at a time.
type Presence struct {
	store       *Store
	incarnation string // 16 hex digits, new for each process
	since       int64  // wall clock of the first beat, milliseconds; 0 = there was none
}

// NewPresence returns the handle of a process whose row is not written yet. incarnation is 16 hex digits, new for each handle.
func NewPresence(store *Store, incarnation string) *Presence {
	return &Presence{store: store, incarnation: incarnation}
}

// PresencePrefix is what the keys of all presence rows of a sink begin with. No queue's rows do: a queue's name is escaped and has no '='.
func PresencePrefix(sink string) string { return "s3:" + sink + ":node=" }

func (p *Presence) key() string {
	return PresencePrefix(p.store.Sink) + stages.Esc(p.store.Instance)
}

// Beat writes the row anew and returns the rows of all nodes that are there, this one among them, as one batch shows them; a second batch is
// needed for more than 1000.
func (p *Presence) Beat(ctx context.Context) ([]stages.Row, error) {
	if p.since == 0 {
		p.since = p.store.Now().UnixMilli()
	}
	value, err := stages.MarshalRow(leaseDoc{Instance: p.store.Instance, Incarnation: p.incarnation, SinceMs: p.since})
	if err != nil {
		return nil, err
	}
	ops := []stages.Op{{Kind: stages.OpPut, Key: p.key(), Value: value, TTL: WholeTTL(p.store.TTL)}}
	var rows []stages.Row
	for after := ""; ; {
		ops = append(ops, stages.Op{Kind: stages.OpGetPrefix, Key: PresencePrefix(p.store.Sink), Limit: presencePage, After: after})
		results, lost, err := p.store.KV.Batch(ctx, ops)
		if err != nil || lost != nil || len(results) != len(ops) {
			return nil, fmt.Errorf("presence row %s: %w", p.key(), cause(err))
		}
		page := results[len(results)-1]
		rows = append(rows, page.Rows...)
		if !page.More {
			return rows, nil
		}
		if n := len(page.Rows); n == 0 || page.Rows[n-1].Key <= after {
			return nil, fmt.Errorf("presence rows after %q: %w", after, errShape)
		}
		after, ops = page.Rows[len(page.Rows)-1].Key, nil
	}
}

// Leave deletes the row if it is of this process. A failure is tried again after 100 ms doubling to 1 s for at most 10 s in all; then the row
// runs out by itself.
func (p *Presence) Leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := p.leave(ctx)
		if err == nil {
			return nil
		}
		if pause(ctx, wait) != nil {
			return err
		}
	}
}

func (p *Presence) leave(ctx context.Context) error {
	results, _, err := p.store.KV.Batch(ctx, []stages.Op{{Kind: stages.OpGet, Key: p.key()}})
	if err != nil || len(results) != 1 {
		return fmt.Errorf("read presence row %s: %w", p.key(), cause(err))
	}
	row := results[0].Row
	if !results[0].Found || parseLease(row.Value).Incarnation != p.incarnation {
		return nil
	}
	if _, _, err := p.store.KV.Batch(ctx, []stages.Op{{Kind: stages.OpDelete, Key: p.key(), Expect: &row.Version}}); err != nil {
		return fmt.Errorf("delete presence row %s: %w", p.key(), err)
	}
	return nil
}
