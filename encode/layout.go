package encode

import (
	"context"
	"fmt"

	"queen/stages"
)

// Layout is how the records of a window are spread over data objects. Its objects are a pure function of the listing, and come in a fixed order.
type Layout struct {
	Name string // as in settings, intents and manifests
	// next returns how many of the sorted appends that are left make the next object, at least 1 of at least 1. nil: all appends make one
	// object, and so does no append; else no append makes no object.
	next func(list *stages.Listing, rest []stages.Append) int
}

// Layouts is the one list of layouts, the default first.
func Layouts() []Layout {
	return []Layout{
		{"merged", nil},
		{"per-partition", samePartition},
	}
}

// layoutOf finds the layout that an intent names.
func layoutOf(name string) (Layout, error) {
	for _, l := range Layouts() {
		if l.Name == name {
			return l, nil
		}
	}
	return Layout{}, &UnknownError{Layout: name}
}

// samePartition is one object a partition name: incarnations of one name share it.
func samePartition(list *stages.Listing, rest []stages.Append) int {
	part := rest[0].Part
	for i, a := range rest {
		if a.Part != part && list.Parts[a.Part].Name != list.Parts[part].Name {
			return i
		}
	}
	return len(rest)
}

// objects writes the objects of a job, one after the other, so that what they take together is what the largest of them takes.
func (s *Stage) objects(ctx context.Context, f Format, w *chunker) error {
	job := w.job
	layout, err := layoutOf(job.Intent.Layout)
	if err != nil {
		return err
	}
	if layout.next == nil {
		return s.object(ctx, f, &job.Listing, job.Sorted, w, true)
	}
	if len(job.Sorted) == 0 {
		return w.emit(stages.Chunk{Job: job, End: true})
	}
	for rest := job.Sorted; len(rest) > 0; {
		n := layout.next(&job.Listing, rest)
		list := excerpt(&job.Listing, rest[:n])
		object, err := s.measure(ctx, list)
		if err != nil {
			return err
		}
		w.object = object
		if err := s.object(ctx, f, list, rest[:n], w, n == len(rest)); err != nil {
			return fmt.Errorf("partition %q: %w", object.Partition, err)
		}
		rest = rest[n:]
	}
	return nil
}

// object writes one object; list is the listing as far as this object is concerned.
func (s *Stage) object(ctx context.Context, f Format, list *stages.Listing, appends []stages.Append, w *chunker, end bool) error {
	stats, err := f.Encode(ctx, w, Rows{
		Appends: appends,
		List:    list,
		Readers: s.readers,
		Queue:   w.job.Queue.Name,
		Tenant:  s.tenant,
		Read: func(ctx context.Context, appends []stages.Append, into func(int, stages.Body) error) error {
			return s.read(ctx, list, appends, into)
		},
	})
	if err != nil {
		return err
	}
	last := w.take()
	last.Cut, last.End, last.Stats = !end, end, stats
	return w.emit(last)
}

// excerpt is the listing of the appends of one object: its Parts are those of these appends, so what a format sees of an object does not depend on what
// else is in the window. The appends are changed in place to point to them, since a copy would cost a window's list again: a job is encoded once.
func excerpt(whole *stages.Listing, appends []stages.Append) *stages.Listing {
	low, high := appends[0].Part, appends[0].Part
	for _, a := range appends {
		low, high = min(low, a.Part), max(high, a.Part)
	}
	for i := range appends {
		appends[i].Part -= low
	}
	list := *whole
	list.Parts, list.Appends, list.Records, list.Weight = whole.Parts[low:high+1], appends, 0, 0
	return &list
}

// measure reads the headers of the appends of one object: its key names offsets, and the key must be known before the first byte is sent. A listing
// has none of that (it holds 24 bytes an append), so the frames are read once more; nothing of them is kept. It returns the object, and sets
// the sums of its listing.
func (s *Stage) measure(ctx context.Context, list *stages.Listing) (*stages.Object, error) {
	object := &stages.Object{Partition: list.Parts[list.Appends[0].Part].Name}
	n := 0
	err := s.read(ctx, list, list.Appends, func(i int, body stages.Body) error {
		h := body.Header()
		if i != n || i >= len(list.Appends) || h.Partition != list.Parts[list.Appends[i].Part].ID || h.Count < 1 {
			return fmt.Errorf("measure partition %q: got append %d of %d with %d records of partition %d, expected append %d: %w",
				object.Partition, i, len(list.Appends), h.Count, h.Partition, n, stages.ErrDamaged)
		}
		first, last := h.Base, h.Base+int64(h.Count)-1
		if n == 0 {
			object.First, object.Last, list.MinTS, list.MaxTS = first, last, h.TS, h.TS
		}
		object.First, object.Last = min(object.First, first), max(object.Last, last)
		list.MinTS, list.MaxTS = min(list.MinTS, h.TS), max(list.MaxTS, h.TS)
		list.Records += int64(h.Count)
		list.Weight += int64(h.Weight)
		n++
		return nil
	})
	if err == nil && n != len(list.Appends) {
		err = fmt.Errorf("measure partition %q: got %d of %d appends: %w", object.Partition, n, len(list.Appends), stages.ErrDamaged)
	}
	return object, err
}
