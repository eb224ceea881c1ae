package raftnode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// A change of the members goes to the leader as JSON, and comes back as the picture of the members, or with the code of a refusal.
const changePath = "/members"

// handedOn is a change on its way to the leader, with how long its asker waits: 0, of an earlier build, is changeLimit.
type handedOn struct {
	Change
	LimitMs int64
}

type changed struct {
	Membership Membership
	Code       string
	Text       string
}

// takeChange is the leader's side.
func (c *calls) takeChange(w http.ResponseWriter, r *http.Request) {
	var ask handedOn
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxChange)).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var out changed
	var refusal *ChangeError
	var err error
	if !c.node.Leads() { // it is not handed on twice
		err = refused("leader_changed", "node %s does not lead", c.node.o.NodeID)
	} else {
		ctx := r.Context()
		if ask.LimitMs > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(ask.LimitMs)*time.Millisecond)
			defer cancel()
		}
		out.Membership, err = c.node.Change(ctx, ask.Change)
	}
	if errors.As(err, &refusal) {
		out.Code, out.Text = refusal.Code, refusal.Text
	}
	text, err := json.Marshal(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // who asked may be gone
}

const maxChange = 1 << 20 // bytes of a change or of its answer

// change asks the leader.
func (c *calls) change(ctx context.Context, ask Change) (Membership, error) {
	ctx, cancel := withLimit(ctx)
	defer cancel()
	own := c.node.Membership()
	unreachable := func(why any) (Membership, error) {
		return own, refused("leader_unreachable", "no leader takes the change: %v", why)
	}
	_, leader := c.node.raft.LeaderWithID()
	if leader == "" || string(leader) == c.node.o.NodeID {
		return unreachable(ErrNoLeader)
	}
	text, err := json.Marshal(handedOn{ask, left(ctx).Milliseconds()})
	if err != nil {
		return own, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+hostPrefix+string(leader)+changePath, bytes.NewReader(text))
	if err != nil {
		return own, err
	}
	resp, err := c.client.Do(r)
	switch {
	case errors.Is(err, errNotSent):
		return unreachable(err)
	case err != nil:
		return own, refused("timeout", "the leader did not answer; the change may have been made: read the members before it is repeated (%v)", err)
	}
	defer drain(resp.Body)
	var got changed
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxChange)).Decode(&got); err != nil || resp.StatusCode != http.StatusOK {
		return own, refused("timeout", "the leader's answer cannot be read (%s): read the members before the change is repeated", resp.Status)
	}
	if got.Code != "" {
		return got.Membership, &ChangeError{got.Code, got.Text}
	}
	return got.Membership, nil
}
