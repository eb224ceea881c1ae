package state_test

import (
	"testing"

	"queen/broker/command"
	"queen/broker/state"
)

// TestSealedQueueOfTheSameName: a push that was prepared in plain text for a queue which is deleted meanwhile, and made again with encryption, stores nothing: the version of
// its settings is of that queue alone.
func TestSealedQueueOfTheSameName(t *testing.T) {
	n := newNode(t)
	var next uint32
	n.apply(1, pushOf(&next, 0, item{"q", "p", 0, []string{"a=1"}})) // the queue, Config 1, seals nothing
	late := pushOf(&next, 1, item{"q", "p", 0, []string{"b=2"}})     // prepared against Config 1 on a follower
	n.apply(2, command.Command{Kind: command.KindDelete, Body: command.Delete{Tenant: tenantOne, Queue: "q"}.Append(nil)})
	n.apply(3, configure(command.Configure{Queue: "q", Options: []command.Option{{Number: command.OptEncryptionEnabled, Type: command.TypeBool, Bool: true}}}))
	r := n.apply(4, late)[0].(*state.PushResult)
	if !r.Stale {
		t.Errorf("stored in plain text after encryption was turned on: %+v", r.Appends)
	}
}
