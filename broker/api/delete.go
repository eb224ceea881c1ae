package api

import (
	"context"
	"fmt"
	"net/http"

	"queen/broker/command"
	"queen/broker/state"
)

// deleteQueue is DELETE /api/v1/resources/queues/:queue. A queue that is not there is no error: whoever repeats a delete is answered as well.
func (s *server) deleteQueue(w http.ResponseWriter, r *http.Request, params []string) error {
	ctx, cancel := context.WithTimeout(r.Context(), configureTimeout)
	defer cancel()
	answer, err := s.o.Broker.Propose(ctx, command.KindDelete, command.Delete{Tenant: s.tenant, Queue: params[0]}.Append(nil))
	if err != nil {
		return err
	}
	out, ok := answer.(*state.Deleted)
	if !ok {
		return fmt.Errorf("delete queue: the state answered %T", answer)
	}
	b := appendBool([]byte(`{"deleted":`), out.Existed)
	b = appendBool(append(b, `,"existed":`...), out.Existed)
	b = member(append(b, ','), "queue", params[0])
	if !out.Existed {
		b = member(append(b, ','), "message", "Queue not found")
	}
	writeJSON(w, http.StatusOK, append(b, '}'))
	return nil
}
