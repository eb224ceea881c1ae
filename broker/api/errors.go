package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"queen/broker/raftnode"
	"queen/broker/state"
	"queen/internal/jsontext"
	"queen/stages"
)

// Code names a refusal; clients branch on it.
type Code string

// The codes of the engine's families. Where a family has codes of its own (kv.go) they stand next to it.
const (
	codeBadBody        Code = "bad_body"
	codeBadRequest     Code = "bad_request"
	codeNameTooLong    Code = "name_too_long"
	codeTooLarge       Code = "payload_too_large"
	codeBodyTooLarge   Code = "body_too_large"
	codeNoRoute        Code = "no_such_route"
	codeNotFound       Code = "not_found"
	codeMethod         Code = "method_not_allowed"
	codeReadOnly       Code = "read_only_namespace"
	codeKVBadRequest   Code = "kv_bad_request"
	codeKVUnavailable  Code = "kv_unavailable"
	codeKVError        Code = "kv_error"
	codeNoLeader       Code = "no_leader"
	codeTimeout        Code = "timeout"
	codeOutcomeUnknown Code = "outcome_unknown"
	codeStorageFull    Code = "storage_full"
	codeEncryption     Code = "encryption_required"
	codeInternal       Code = "internal"
)

// row is what the table of errors says about a code.
type row struct {
	code       Code
	status     int
	retryAfter int    // seconds; 0 = no header
	text       string // the sentence when the place of the error has none of its own
}

// errorTable is the one list of codes. Docs and tests read it.
func errorTable() []row {
	return []row{
		{codeBadBody, http.StatusBadRequest, 0, "bad body"},
		{codeBadRequest, http.StatusBadRequest, 0, "bad request"},
		{codeNameTooLong, http.StatusRequestEntityTooLarge, 0, "name too long"},
		{codeTooLarge, http.StatusRequestEntityTooLarge, 0, "request too large"},
		{codeBodyTooLarge, http.StatusRequestEntityTooLarge, 0, "request body too large"},
		{codeNoRoute, http.StatusNotFound, 0, "not found"},
		{codeNotFound, http.StatusNotFound, 0, "not found"},
		{codeMethod, http.StatusMethodNotAllowed, 0, "method not allowed"},
		{codeReadOnly, http.StatusForbidden, 0, "this namespace is written by the S3 sink and is read-only over HTTP"},
		{codeKVBadRequest, http.StatusBadRequest, 0, "bad request"},
		{codeKVUnavailable, http.StatusServiceUnavailable, 1, "try again"},
		{codeKVError, http.StatusInternalServerError, 0, "internal error"},
		{codeNoLeader, http.StatusServiceUnavailable, 1, "no leader is known: try again"},
		{codeTimeout, http.StatusServiceUnavailable, 1, "not answered in time: try again"},
		{codeOutcomeUnknown, http.StatusServiceUnavailable, 1, "the outcome is unknown, it may have been stored: try again"},
		{codeStorageFull, http.StatusInsufficientStorage, 0, "the disk of this node is full and nothing was stored: make room where its data folder is, then send it again"},
		{codeEncryption, http.StatusConflict, 0, "this node does not have the encryption key of the queue: give it that key in QUEEN_ENCRYPTION_KEY"},
		{codeInternal, http.StatusInternalServerError, 0, "internal error"},
	}
}

// Error is a refusal on its way to the client.
type Error struct {
	Code       Code
	Status     int
	Text       string // one sentence for a person
	RetryAfter int    // seconds; 0 = do not say
	Reason     string // the finer code of the KV family
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Text }

// refuse makes an Error of the table's row for code. An empty text takes the row's.
func refuse(code Code, text string) *Error {
	for _, r := range errorTable() {
		if r.code == code {
			if text == "" {
				text = r.text
			}
			return &Error{Code: code, Status: r.status, Text: text, RetryAfter: r.retryAfter}
		}
	}
	panic("api: code " + string(code) + " is not in the table of errors")
}

// badBody words a fault of the body with its byte offset in the request.
func badBody(err error) *Error {
	var at *jsontext.Error
	if errors.As(err, &at) {
		return badBodyAt(at.Offset, at.Reason)
	}
	return refuse(codeBadBody, "bad body: "+err.Error())
}

func badBodyAt(offset int, reason string) *Error {
	return refuse(codeBadBody, "bad body: "+reason+" at byte "+strconv.Itoa(offset))
}

// asError finds the refusal in err, or makes one of what the broker said. Only an outcome that is really unknown is called so.
func asError(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, raftnode.ErrDiskFull): // comes before unclear, which it is too
		return refuse(codeStorageFull, "")
	case errors.Is(err, stages.ErrUnclear), errors.Is(err, state.ErrFailed): // this node is ending; another one, or the next process, answers
		return refuse(codeOutcomeUnknown, "")
	case errors.Is(err, raftnode.ErrNoLeader):
		return refuse(codeNoLeader, "")
	case errors.Is(err, raftnode.ErrUnknown):
		return refuse(codeInternal, err.Error())
	case errors.Is(err, raftnode.ErrTooLarge):
		return refuse(codeTooLarge, err.Error())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return refuse(codeTimeout, "")
	}
	return refuse(codeInternal, "")
}

// family is the shape of a route's errors.
type family uint8

const (
	engine family = iota // {"error":text,"code":code}
	kvForm               // {"error":code,"reason":finer code,"detail":text}
	plain                // {"error":text}
	noPath               // {"code":code,"error":text,"path":path}: 404 of the router
)

// write answers e in the family's shape.
func (f family) write(w http.ResponseWriter, r *http.Request, e *Error) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	if e.Code == codeBodyTooLarge { // refused before the body is looked at: clients know it without the JSON shape
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Connection", "close")
		w.WriteHeader(e.Status)
		w.Write([]byte(e.Text + "\n"))
		return
	}
	b := make([]byte, 0, 128)
	switch f {
	case kvForm:
		if e.Code != codeKVBadRequest && e.Code != codeKVError && e.Code != codeReadOnly && e.Code != codeTooLarge {
			e = kvUnavailable(e)
		}
		b = member(append(b, '{'), "error", string(e.Code))
		b = member(append(b, ','), "reason", e.Reason)
		b = member(append(b, ','), "detail", e.Text)
	case plain:
		b = member(append(b, '{'), "error", e.Text)
	case noPath:
		b = member(append(b, '{'), "code", string(e.Code))
		b = member(append(b, ','), "error", e.Text)
		b = member(append(b, ','), "path", rawPath(r.URL))
	default:
		b = member(append(b, '{'), "error", e.Text)
		b = member(append(b, ','), "code", string(e.Code))
	}
	writeJSON(w, e.Status, append(b, '}'))
}

// member appends "name":"value".
func member(b []byte, name, value string) []byte {
	b = jsontext.AppendQuoted(b, name)
	return jsontext.AppendQuoted(append(b, ':'), value)
}
