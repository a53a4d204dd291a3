package agent

import (
	"testing"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// Hosts that are new, of which there may be any number, fill half of the inbox at most. The rest are places of the others.
func TestNewHostsLeavePlacesInTheInbox(t *testing.T) {
	seal := &fakeSeal{isNew: true}
	a := &agent{inbox: make(chan received, inboxSize), seal: seal}
	from := func(id wire.ID) *received {
		return &received{Received: election.Received{Frame: wire.Frame{Sender: id}}}
	}
	for n := 0; a.hasPlace(from(wire.ID{1, byte(n), byte(n >> 8)})); n++ {
		a.queue(received{})
	}
	if n := len(a.inbox); n != newAtOnce {
		t.Errorf("they fill %d of %d places", n, inboxSize)
	}
	if r := from(wire.ID{1}); a.hasPlace(r) || !r.IsNew {
		t.Error("the election is not told that the sender is new")
	}
	seal.isNew = false
	if r := from(wire.ID{2}); !a.hasPlace(r) || r.IsNew {
		t.Error("a host that is known has no place, or is called new")
	}
}
