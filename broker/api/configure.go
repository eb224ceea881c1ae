package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"queen/broker/command"
	"queen/broker/state"
	"queen/internal/jsontext"
)

const configureTimeout = 30 * time.Second

// configure is POST /api/v1/configure: makes a queue or changes its options, and echoes all of them.
func (s *server) configure(w http.ResponseWriter, r *http.Request, _ []string) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	cmd, err := parseConfigure(body)
	if err != nil {
		return err
	}
	cmd.Tenant = s.tenant
	ctx, cancel := context.WithTimeout(r.Context(), configureTimeout)
	defer cancel()
	answer, err := s.o.Broker.Propose(ctx, command.KindConfigure, cmd.Append(nil))
	if err != nil {
		return err
	}
	row, ok := answer.(*state.QueueRow)
	if !ok {
		return fmt.Errorf("configure: the state answered %T", answer)
	}
	s.warnIdle(row, cmd.Options)
	b := member([]byte(`{"configured":true,`), "queueId", s.queueUUID(row))
	b = member(append(b, `,"partitionId":null,`...), "queue", row.Name)
	b = member(append(b, ','), "namespace", row.Namespace)
	b = member(append(b, ','), "task", row.Task)
	b = append(b, `,"storage":"segments","options":`...)
	writeJSON(w, http.StatusOK, append(appendOptions(b, row), '}'))
	return nil
}

// warnIdle says in the log which options were set that nothing here acts on, in this version or without a key: who sets them counts on
// what they promise.
func (s *server) warnIdle(row *state.QueueRow, set []command.Option) {
	specs := state.OptionSpecs()
	for _, o := range set {
		spec := specs[o.Number-1]
		text := "stored; has no effect in this version"
		switch {
		case row.Option(o.Number) == spec.Default:
			continue
		case o.Number == command.OptEncryptionEnabled && s.o.Key == nil:
			text = plainText
		case spec.Works:
			continue
		}
		s.o.Log.Warn().Str("queue", row.Name).Str("option", spec.Name).Msg(text)
	}
}

// queueUUID is the id of a queue as users see it.
func (s *server) queueUUID(row *state.QueueRow) string {
	seed, _ := s.o.Broker.State().Seed() // a cluster that holds a queue was founded
	return state.UUID(seed, state.KindQueue, uint64(row.ID))
}

// parseConfigure checks the body. Every error is an *Error.
func parseConfigure(body []byte) (*command.Configure, error) {
	top, err := membersOf(jsontext.Value{Text: body})
	if err != nil {
		return nil, badBody(err)
	}
	queue, err := text(top["queue"], "queue")
	if err != nil {
		return nil, badBody(err)
	}
	if len(queue) == 0 {
		return nil, badBodyAt(0, "queue is missing")
	}
	cmd := &command.Configure{Queue: string(queue)}
	if err := checkNames(cmd.Queue, ""); err != nil {
		return nil, err
	}
	mode, err := text(top["mode"], "mode")
	if err != nil {
		return nil, badBody(err)
	}
	switch string(mode) {
	case "", "merge":
	case "replace":
		cmd.Mode = command.Replace
	default:
		return nil, refuse(codeBadRequest, `mode must be "merge" or "replace"`)
	}
	options, err := optionsOf(top)
	if err != nil {
		return nil, err
	}
	if cmd.Options, err = parseOptions(options); err != nil {
		return nil, err
	}
	return cmd, parseLabels(cmd, top, options)
}

// membersOf returns the members of an object by their decoded names; of several with one name the last counts.
func membersOf(object jsontext.Value) (map[string]jsontext.Value, error) {
	out := make(map[string]jsontext.Value)
	c := jsontext.NewCursor(object.Text)
	err := c.Object(func(name jsontext.Name) error {
		v, err := c.Value()
		if err != nil {
			return err
		}
		v.Offset += object.Offset
		if key, ok := name.Text(); ok { // a name without UTF-8 form is none that we know
			out[string(key)] = v
		}
		return nil
	})
	if err == nil {
		err = c.End()
	}
	return out, err
}

// optionsOf returns where the options stand: in their object, or without one at the top.
func optionsOf(top map[string]jsontext.Value) (map[string]jsontext.Value, error) {
	v := top["options"]
	switch {
	case v.Absent():
		return top, nil
	case v.Kind() != jsontext.Object:
		return nil, refuse(codeBadRequest, "options must be an object")
	}
	return membersOf(v)
}

// parseOptions reads every option that is named. Names that are no option are ignored.
func parseOptions(members map[string]jsontext.Value) ([]command.Option, error) {
	var out []command.Option
	for _, spec := range state.OptionSpecs() {
		v, named := members[spec.Name]
		if !named && spec.Alias != "" {
			v, named = members[spec.Alias]
		}
		if !named {
			continue
		}
		o := command.Option{Number: spec.Number}
		if v.Kind() != jsontext.Null {
			if err := parseOption(&o, spec, v); err != nil {
				return nil, err
			}
		}
		if err := spec.Check(o); err != nil {
			return nil, refuse(codeBadRequest, err.Error())
		}
		out = append(out, o)
	}
	return out, nil
}

// parseOption reads a value of the option's type.
func parseOption(o *command.Option, spec state.OptionSpec, v jsontext.Value) error {
	o.Type = spec.Type
	switch spec.Type {
	case command.TypeBool:
		if v.Kind() != jsontext.Bool {
			return refuse(codeBadRequest, spec.Name+" must be true or false")
		}
		o.Bool = v.Text[0] == 't'
	case command.TypeString:
		b, err := text(v, spec.Name)
		if err != nil {
			return refuse(codeBadRequest, spec.Name+" must be a string")
		}
		o.Str = string(b)
	default:
		n, err := strconv.ParseInt(string(v.Text), 10, 64)
		if err != nil {
			return refuse(codeBadRequest, spec.Name+" must be an integer")
		}
		o.Int = n
	}
	return nil
}

// parseLabels reads namespace and task: members of the top, or else options. At the top null means "not named", as the clients
// send it; as an option it means the default, which the queue's name gives.
func parseLabels(cmd *command.Configure, top, options map[string]jsontext.Value) error {
	namespace, rest, _ := strings.Cut(cmd.Queue, ".")
	task, _, _ := strings.Cut(rest, ".")
	nested := !top["options"].Absent()
	for _, l := range []struct {
		name, standard string
		to             **string
	}{{"namespace", namespace, &cmd.Namespace}, {"task", task, &cmd.Task}} {
		v := top[l.name]
		if v.Absent() && nested {
			v = options[l.name]
			if v.Kind() == jsontext.Null {
				*l.to = &l.standard
			}
		}
		if v.Absent() {
			continue
		}
		b, err := text(v, l.name)
		if err != nil {
			return refuse(codeBadRequest, l.name+" must be a string")
		}
		if len(b) > nameBudget {
			return refuse(codeNameTooLong, fmt.Sprintf("%s is too long: %d bytes, at most %d", l.name, len(b), nameBudget))
		}
		label := string(b)
		*l.to = &label
	}
	return nil
}

// appendOptions appends all options of a queue with the values that they have.
func appendOptions(b []byte, row *state.QueueRow) []byte {
	b = append(b, '{')
	for _, spec := range state.OptionSpecs() {
		b = append(jsontext.AppendQuoted(b, spec.Name), ':')
		switch o := row.Option(spec.Number); spec.Type {
		case command.TypeBool:
			b = appendBool(b, o.Bool)
		case command.TypeString:
			b = jsontext.AppendQuoted(b, o.Str)
		default:
			b = appendInt(b, o.Int)
		}
		b = append(b, ',')
	}
	b = member(b, "namespace", row.Namespace)
	return append(member(append(b, ','), "task", row.Task), '}')
}
