package lake

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"queen/stages"
)

// maxCheckpoint bounds the plain text of a checkpoint, bytes.
const maxCheckpoint = 512 << 20

// checkpoint audits the checkpoint of a window (docs/formats.md 7.5); end is that of its manifest. Nothing in a lake is read by it, so a fault in one
// is a fault of that object and of no record.
func (a *audit) checkpoint(ctx context.Context, key string, k uint64, end stages.Micros) error {
	a.summary.Checkpoints++
	body, err := a.store.Open(ctx, key)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	defer body.Close()
	stored := &meter{from: body, sum: sha256.New()}
	c, err := readCheckpoint(stored)
	switch {
	case stored.err != nil:
		return fmt.Errorf("read %s: %w", key, stored.err)
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		a.fault(key, "cannot be read: %v", err)
	case c.k != k:
		a.fault(key, "is of window %d", c.k)
	case c.end != end:
		a.fault(key, "ends at %d, its window at %d", c.end, end)
	}
	return nil
}

// checkpointHead is what a checkpoint says beside its positions.
type checkpointHead struct {
	k   uint64
	end stages.Micros
}

func readCheckpoint(stored *meter) (c checkpointHead, err error) {
	plain, done, err := decompress(stored, "zstd")
	if err != nil {
		return c, err
	}
	defer done()
	d := json.NewDecoder(io.LimitReader(plain, maxCheckpoint))
	if err := c.object(d); err != nil {
		return c, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return c, fmt.Errorf("something follows its object: %w", err)
	}
	if _, err := io.Copy(io.Discard, stored); err != nil {
		return c, err
	}
	if stored.zstd.behind > 0 {
		return c, fmt.Errorf("zstd object has %s behind its one frame", count64(stored.zstd.behind, "byte"))
	}
	return c, nil
}

// object reads {"k":...,"tEnd":...,"positions":[...]} member by member: there may be millions of positions.
func (c *checkpointHead) object(d *json.Decoder) error {
	if err := delim(d, '{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		text, _ := name.(string)
		seen[text] = true
		switch text {
		case "k":
			err = d.Decode(&c.k)
		case "tEnd":
			err = d.Decode(&c.end)
		case "positions":
			err = positions(d)
		default:
			var other json.RawMessage
			err = d.Decode(&other)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range []string{"k", "tEnd", "positions"} {
		if !seen[name] {
			return fmt.Errorf("it has no %s", name)
		}
	}
	return delim(d, '}')
}

// positions reads [["name",offset,"id"],...], sorted by name.
func positions(d *json.Decoder) error {
	if err := delim(d, '['); err != nil {
		return err
	}
	last := ""
	for n := 0; d.More(); n++ {
		var entry []json.RawMessage
		var name string
		var offset int64
		if err := d.Decode(&entry); err != nil {
			return err
		}
		if len(entry) < 2 {
			return fmt.Errorf("position %d has %d members", n, len(entry))
		}
		if err := errors.Join(json.Unmarshal(entry[0], &name), json.Unmarshal(entry[1], &offset)); err != nil {
			return fmt.Errorf("position %d: %w", n, err)
		}
		if offset < 0 || n > 0 && name < last {
			return fmt.Errorf("position %d, %q at %d, stands behind %q", n, name, offset, last)
		}
		last = name
	}
	return delim(d, ']')
}

func delim(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err == nil && got != want {
		err = fmt.Errorf("%v where %v is due", got, want)
	}
	return err
}
