package state

import (
	"cmp"
	"slices"

	"queen/broker/command"
)

// configure changes the options of a queue, or makes the queue.
type configure struct{ command.Configure }

// apply returns the new *QueueRow.
func (c configure) apply(tx *transaction) (any, error) {
	q := tx.s.queue(c.Tenant, c.Queue)
	if q == nil {
		row := tx.s.newQueueRow(c.Tenant, c.Queue)
		c.change(row)
		_, err := tx.createQueue(row)
		return row, err
	}
	row := *q.row
	if c.Mode == command.Replace {
		row.Options = nil
		row.Namespace, row.Task = nameParts(row.Name)
	}
	c.change(&row)
	row.Config++
	q.row = &row
	return &row, tx.set(queueKey(tableQueue, row.ID), row.append(nil))
}

// change sets what the command names.
func (c configure) change(row *QueueRow) {
	if c.Namespace != nil {
		row.Namespace = *c.Namespace
	}
	if c.Task != nil {
		row.Task = *c.Task
	}
	options := slices.Clone(row.Options)
	for _, o := range c.Options {
		options = slices.DeleteFunc(options, func(old command.Option) bool { return old.Number == o.Number })
		if o.Type != command.TypeDefault {
			options = append(options, clamp(o))
		}
	}
	slices.SortFunc(options, func(a, b command.Option) int { return cmp.Compare(a.Number, b.Number) })
	row.Options = options
}
