package roofline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"queen/broker"
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
	info, ok := b.Queues(m.Tenant).Find(m.Queue)
	if !ok {
		return nil, fmt.Errorf("no queue %q", m.Queue)
	}
	log := b.Log(m.Tenant)
	list, err := list(ctx, b, info.ID, m, from)
	if err != nil {
		return nil, err
	}
	w := &Window{Manifest: m, names: list.Names}
	sorted := window.Sort(list)
	size := 0
	for _, h := range sorted {
		size += int(h.Weight) // the weight of a record is above what it takes here
	}
	room, err := memory(size)
	if err != nil {
		return nil, fmt.Errorf("%d bytes for records: %w", size, err)
	}
	if w.headers, err = headerSpace(len(sorted)); err != nil {
		return nil, fmt.Errorf("%d headers: %w", len(sorted), err)
	}
	copy(w.headers, sorted)
	at := room[:0]
	err = log.Bodies(ctx, info.ID, sorted, func(i int, body stages.Body) error {
		start := len(at)
		for r, err := range body.Records() {
			if err != nil {
				return err
			}
			at = appendRecord(at, r)
		}
		w.headers[i].Ref = place(start, len(at)-start)
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
	l := stages.Listing{K: m.K, Start: from, End: m.End, Names: map[stages.PartitionID]string{}}
	for h, err := range b.Log(m.Tenant).Headers(ctx, queue, from, m.End) {
		if err != nil {
			return l, err
		}
		l.Appends = append(l.Appends, h)
		l.Names[h.Partition] = ""
	}
	return l, name(b, queue, l.Names)
}

// name fills in the names of partitions.
func name(b *broker.Broker, queue stages.QueueID, names map[stages.PartitionID]string) error {
	return b.State().Read(func(r *state.Reader) error {
		for id := range names {
			n, ok := r.PartitionName(queue, id)
			if !ok {
				return fmt.Errorf("partition %d has no name", id)
			}
			names[id] = n
		}
		return nil
	})
}
