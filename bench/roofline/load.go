package roofline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"queen/broker"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/stages"
	"queen/upload"
	"queen/window"
)

// Load reads the windows that these manifests name, which are all of one queue and follow each other, out of a data folder into memory.
// The folder is open meanwhile and closed when Load returns.
func Load(ctx context.Context, dir string, manifests []*upload.Manifest) (windows []*Window, err error) {
	b, err := broker.New(broker.Options{Dir: dir, NodeID: 1, Now: time.Now, Log: zerolog.Nop(), Fatal: func(error) {}})
	if err != nil {
		return nil, err
	}
	if err := b.Open(ctx); err != nil {
		return nil, fmt.Errorf("load %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	from := stages.Beginning
	for i, m := range manifests {
		if m.K != uint64(i+1) {
			return nil, fmt.Errorf("load %s: window %d where %d is due", dir, m.K, i+1)
		}
		w, err := load(ctx, b, m, from)
		if err != nil {
			return nil, fmt.Errorf("load %s: window %d: %w", dir, m.K, err)
		}
		windows = append(windows, w)
		from = m.End
	}
	return windows, nil
}

func load(ctx context.Context, b *broker.Broker, m *upload.Manifest, from stages.Micros) (*Window, error) {
	info, ok := b.Queues(m.Tenant, m.Sink).Find(m.Queue)
	if !ok {
		return nil, fmt.Errorf("no queue %q", m.Queue)
	}
	list, err := list(ctx, b, info.ID, m, from)
	if err != nil {
		return nil, err
	}
	sorted := window.Sort(list)
	size := int(list.Weight) + len(sorted)*headerLen // the weight of a record is above what it takes here
	room, err := memory(size)
	if err != nil {
		return nil, fmt.Errorf("%d bytes for records: %w", size, err)
	}
	w := &Window{Manifest: m, list: list}
	w.list.Appends = nil
	if w.appends, err = appendSpace(len(sorted)); err != nil {
		return nil, fmt.Errorf("%d appends: %w", len(sorted), err)
	}
	at := room[:0]
	err = b.Log(m.Tenant).Bodies(ctx, &list, sorted, func(i int, body stages.Body) error {
		start := len(at)
		at = appendHeader(at, body.Header())
		for r, err := range body.Records() {
			if err != nil {
				return err
			}
			at = appendRecord(at, r)
		}
		w.appends[i] = place(sorted[i].Part, start, len(at)-start)
		return nil
	})
	if err == nil && len(at) > len(room) {
		err = fmt.Errorf("records take %d bytes, %d were expected", len(at), len(room))
	}
	w.data = room
	return w, err
}

// list is the content of a window, as the sink lists it.
func list(ctx context.Context, b *broker.Broker, queue stages.QueueID, m *upload.Manifest, from stages.Micros) (stages.Listing, error) {
	var view segment.View
	err := b.State().Read(func(r *state.Reader) error {
		view = r.Segments(queue)
		return nil
	})
	if err != nil {
		return stages.Listing{}, err
	}
	l, err := view.List(ctx, from, m.End)
	if err != nil {
		return l, err
	}
	l.K, l.Start, l.End = m.K, from, m.End
	return l, name(b, queue, l.Parts)
}

// name fills in the names of partitions.
func name(b *broker.Broker, queue stages.QueueID, parts []stages.Part) error {
	return b.State().Read(func(r *state.Reader) error {
		for i := range parts {
			n, ok := r.PartitionName(queue, parts[i].ID)
			if !ok {
				return fmt.Errorf("partition %d has no name", parts[i].ID)
			}
			parts[i].Name = n
		}
		return nil
	})
}
