package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"queen/broker/raftnode"
)

// Members is what the routes of membership need of a node.
type Members interface {
	Membership() raftnode.Membership
	// Change changes the members; a refusal is a *raftnode.ChangeError.
	Change(ctx context.Context, c raftnode.Change) (raftnode.Membership, error)
}

// How long a change may take (`?timeoutMs=`), milliseconds.
const (
	changeDefault = 30_000
	changeMost    = 120_000
	maxMembers    = 1 << 20 // bytes of a change
)

// changeStatus is the status of a refusal's code.
func changeStatus(code string) int {
	switch code {
	case "in_flight", "no_quorum", "last_voter", "learner_behind", "already_voter", "address_mismatch", "membership_changed", "leader_changed":
		return http.StatusConflict
	case "leader_unreachable":
		return http.StatusServiceUnavailable
	case "timeout":
		return http.StatusGatewayTimeout
	case "forbidden":
		return http.StatusForbidden
	}
	return http.StatusBadRequest
}

// members is GET /api/v1/system/raft/membership: what this node knows.
func (s *server) members(w http.ResponseWriter, r *http.Request, _ []string) error {
	if s.claimsTenant(w, r) {
		return nil
	}
	return writeMembership(w, s.o.Members.Membership())
}

// addLearner is POST …/learners.
func (s *server) addLearner(w http.ResponseWriter, r *http.Request, _ []string) error {
	var ask struct {
		ID     json.Number `json:"id"`
		NodeID json.Number `json:"nodeId"`
		Raft   string      `json:"raft"`
		HTTP   string      `json:"http"`
	}
	return s.change(w, r, &ask, func() (raftnode.Change, error) {
		id := ask.ID
		if id == "" {
			id = ask.NodeID
		}
		n, err := strconv.Atoi(id.String())
		if err != nil {
			return raftnode.Change{}, errors.New("id must be a node's number")
		}
		return raftnode.Change{Op: raftnode.OpAdd, IDs: []int{n}, Raft: ask.Raft, HTTP: ask.HTTP}, nil
	})
}

// promote is POST …/promote.
func (s *server) promote(w http.ResponseWriter, r *http.Request, _ []string) error {
	var ask struct {
		IDs   []int `json:"ids"`
		Force bool  `json:"force"`
	}
	return s.change(w, r, &ask, func() (raftnode.Change, error) {
		if len(ask.IDs) == 0 {
			return raftnode.Change{}, errors.New("ids must name at least one node")
		}
		return raftnode.Change{Op: raftnode.OpPromote, IDs: ask.IDs, Force: ask.Force}, nil
	})
}

// setVoters is PUT …/voters.
func (s *server) setVoters(w http.ResponseWriter, r *http.Request, _ []string) error {
	var ask struct {
		Voters []int `json:"voters"`
		Force  bool  `json:"force"`
	}
	return s.change(w, r, &ask, func() (raftnode.Change, error) {
		if ask.Voters == nil {
			return raftnode.Change{}, errors.New("voters must be an array of node numbers")
		}
		return raftnode.Change{Op: raftnode.OpVoters, IDs: ask.Voters, Force: ask.Force}, nil
	})
}

// removeMember is DELETE …/members/:id.
func (s *server) removeMember(w http.ResponseWriter, r *http.Request, params []string) error {
	return s.change(w, r, nil, func() (raftnode.Change, error) {
		n, err := strconv.Atoi(params[0])
		if err != nil {
			return raftnode.Change{}, errors.New("a member is named by its node's number")
		}
		return raftnode.Change{Op: raftnode.OpRemove, IDs: []int{n}}, nil
	})
}

// claimsTenant refuses whoever speaks for a tenant: the members are the operator's.
func (s *server) claimsTenant(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("X-Queen-Tenant") == "" {
		return false
	}
	refuseChange(w, "forbidden", "the members of the cluster are not a tenant's: send no x-queen-tenant header")
	return true
}

// change reads the body into ask, when there is one, and asks the node.
func (s *server) change(w http.ResponseWriter, r *http.Request, ask any, of func() (raftnode.Change, error)) error {
	if s.claimsTenant(w, r) {
		return nil
	}
	limit := int64(changeDefault)
	if text := r.URL.Query().Get("timeoutMs"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 || n > changeMost {
			refuseChange(w, "bad_request", "timeoutMs must be a whole number from 1 to "+strconv.Itoa(changeMost))
			return nil
		}
		limit = n
	}
	if ask != nil {
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxMembers)).Decode(ask); err != nil {
			refuseChange(w, "bad_request", "bad body: "+err.Error())
			return nil
		}
	}
	c, err := of()
	if err != nil {
		refuseChange(w, "bad_request", err.Error())
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(limit)*time.Millisecond)
	defer cancel()
	m, err := s.o.Members.Change(ctx, c)
	var refusal *raftnode.ChangeError
	switch {
	case errors.As(err, &refusal):
		refuseChange(w, refusal.Code, refusal.Text)
		return nil
	case err != nil:
		return err
	}
	return writeMembership(w, m)
}

func refuseChange(w http.ResponseWriter, code, text string) {
	b := member([]byte(`{"ok":false,`), "code", code)
	b = member(append(b, ','), "error", text)
	writeJSON(w, changeStatus(code), append(b, '}'))
}

func writeMembership(w http.ResponseWriter, m raftnode.Membership) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, append(append([]byte(`{"ok":true,"membership":`), text...), '}'))
	return nil
}
