package seal

import (
	"iter"

	"queen/stages"
)

// Opening makes a reader of bodies see payloads as the producer sent them. What this key cannot open is handed on as it is stored, and marked
// (stages.Record.Sealed). It is for one goroutine, as a call of stages.Log.Bodies is.
func Opening(k *Key, into func(i int, body stages.Body) error) func(i int, body stages.Body) error {
	o := &opened{key: k}
	o.records, o.each = o.all, o.one
	return func(i int, body stages.Body) error {
		if body.Header().Flags&stages.FlagSealed == 0 {
			return into(i, body)
		}
		o.Body = body
		return into(i, o)
	}
}

// opened is the body of one append whose payloads are sealed. One serves all appends of a call.
type opened struct {
	stages.Body
	key  *Key
	work Work

	records iter.Seq2[stages.Record, error]
	each    func(stages.Record, error) bool // one, bound once: a loop would allocate for each append
	yield   func(stages.Record, error) bool
}

var _ stages.Body = (*opened)(nil)

// Records yields the records opened; a payload is good until the next record is asked for.
func (o *opened) Records() iter.Seq2[stages.Record, error] { return o.records }

func (o *opened) all(yield func(stages.Record, error) bool) {
	o.yield = yield
	o.Body.Records()(o.each)
	o.yield = nil
}

func (o *opened) one(rec stages.Record, err error) bool {
	if err == nil {
		plain, ok := o.key.Open(rec.Payload, &o.work)
		if rec.Sealed = !ok; ok {
			rec.Payload = plain
		}
	}
	return o.yield(rec, err)
}
