package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"queen/broker/command"
	"queen/broker/kv"
	"queen/internal/jsontext"
)

// sinkNamespace is where the sink keeps its leases, intents and pointers. Clients read it but do not write it, also while the sink is
// off: the sink that is started next believes these rows, and a moved pointer would be a hole in the lake.
const sinkNamespace = "queen-s3"

// kvTimeout is how long a batch may wait for its command to be applied.
const kvTimeout = 30 * time.Second

// kvBatch is POST /api/v1/kv. A lost predicate is a 200: the status speaks of the call.
func (s *server) kvBatch(w http.ResponseWriter, r *http.Request, _ []string) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	if _, err := jsontext.Scan(body); err != nil { // the fault with its byte offset
		return kvBadBody(err.Error())
	}
	ops, err := kv.ParseBatch(body)
	if err != nil {
		return kvRefused(err)
	}
	b := []byte(`{"results":[`)
	if len(ops) > 0 {
		out, err := s.runKV(r.Context(), ops)
		if err != nil {
			return err
		}
		if out.Lost != nil {
			writeJSON(w, http.StatusOK, appendLost(nil, out.Lost))
			return nil
		}
		for i := range out.Results {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendResult(b, i, &out.Results[i])
		}
	}
	writeJSON(w, http.StatusOK, append(b, "]}"...))
	return nil
}

// runKV proposes a batch and waits until it is applied. Reads go through the log too: that is what makes them linearizable.
func (s *server) runKV(ctx context.Context, ops []kv.Op) (*kv.Outcome, error) {
	for i := range ops {
		if ops[i].NS == sinkNamespace && ops[i].Kind.Writes() {
			e := refuse(codeReadOnly, "")
			e.Reason = "kv_sink_namespace"
			return nil, e
		}
	}
	ctx, cancel := context.WithTimeout(ctx, kvTimeout)
	defer cancel()
	answer, err := s.o.Broker.Propose(ctx, command.KindKV, command.KV{Tenant: s.tenant, Ops: ops}.Append(nil))
	if err != nil {
		return nil, err
	}
	out, ok := answer.(*kv.Outcome)
	if !ok || out.Lost == nil && len(out.Results) != len(ops) {
		return nil, fmt.Errorf("kv: the state answered %T", answer)
	}
	return out, nil
}

func (s *server) kvGet(w http.ResponseWriter, r *http.Request, p []string) error {
	return s.kvOne(w, r, "get", p, nil)
}

func (s *server) kvPut(w http.ResponseWriter, r *http.Request, p []string) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	return s.kvOne(w, r, "put", p, body)
}

func (s *server) kvDelete(w http.ResponseWriter, r *http.Request, p []string) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = nil
	}
	return s.kvOne(w, r, "delete", p, body)
}

// kvOne runs a path form: one operation whose namespace and key are in the path and whose other members are the body. The answer
// is the single element; a read has its version as ETag.
func (s *server) kvOne(w http.ResponseWriter, r *http.Request, op string, p []string, body []byte) error {
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		return kvRefused(&kv.Error{Status: http.StatusBadRequest, Code: kv.CodeBadRequest, Reason: kv.NoQueryString, Detail: "a query string is not allowed here"})
	}
	rest, err := pathMembers(body)
	if err != nil {
		return err
	}
	b := member([]byte("[{"), "op", op)
	b = member(append(b, ','), "ns", p[0])
	b = member(append(b, ','), "key", p[1])
	if len(rest) > 0 {
		b = append(append(b, ','), rest...)
	}
	ops, err := kv.ParseBatch(append(b, "}]"...))
	if err != nil {
		return kvRefused(err)
	}
	out, err := s.runKV(r.Context(), ops)
	if err != nil {
		return err
	}
	if out.Lost != nil {
		writeJSON(w, http.StatusOK, appendLost(nil, out.Lost))
		return nil
	}
	if res := &out.Results[0]; res.Found {
		w.Header().Set("ETag", `"`+strconv.FormatUint(res.Row.Version, 10)+`"`)
	}
	writeJSON(w, http.StatusOK, appendResult(nil, 0, &out.Results[0]))
	return nil
}

// pathMembers returns what stands between the braces of a path form's body, after a check that it names nothing that the path
// names already.
func pathMembers(body []byte) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	c := jsontext.NewCursor(body)
	named := ""
	err := c.Object(func(name jsontext.Name) error {
		for _, f := range []string{"op", "ns", "namespace", "key"} {
			if name.Is(f) {
				named = f
			}
		}
		_, err := c.Value()
		return err
	})
	if err == nil {
		err = c.End()
	}
	if err != nil {
		return nil, kvBadBody(err.Error())
	}
	if named != "" {
		return nil, kvRefused(&kv.Error{Status: http.StatusBadRequest, Code: kv.CodeBadRequest, Reason: kv.FieldInPath, Detail: named + " is in the path and can't be in the body"})
	}
	inner := bytes.Trim(body, " \t\r\n")
	return bytes.Trim(inner[1:len(inner)-1], " \t\r\n"), nil
}

func kvBadBody(detail string) error {
	return kvRefused(&kv.Error{Status: http.StatusBadRequest, Code: kv.CodeBadRequest, Reason: kv.BadBody, Detail: detail})
}

// kvRefused turns a refusal of the kv package into one of this.
func kvRefused(err error) error {
	var e *kv.Error
	if !errors.As(err, &e) {
		return err
	}
	return &Error{Code: Code(e.Code), Status: e.Status, Text: e.Detail, Reason: e.Reason}
}

// kvUnavailable words an engine refusal in the family's codes: an outcome that is unknown is a timeout here.
func kvUnavailable(e *Error) *Error {
	reason := "kv_retry"
	switch e.Code {
	case codeNoLeader:
		reason = "kv_no_leader"
	case codeTimeout, codeOutcomeUnknown:
		reason = "kv_timeout"
	case codeInternal:
		return &Error{Code: codeKVError, Status: e.Status, Text: e.Text, Reason: "kv_error"}
	case codeBadRequest, codeMethod, codeNoRoute:
		return &Error{Code: codeKVBadRequest, Status: e.Status, Text: e.Text, Reason: kv.BadKey}
	case codeStorageFull:
		return &Error{Code: codeStorageFull, Status: e.Status, Text: e.Text, Reason: string(codeStorageFull)}
	}
	return &Error{Code: codeKVUnavailable, Status: e.Status, Text: e.Text, Reason: reason}
}
