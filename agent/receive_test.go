package agent

import (
	"testing"

	"github.com/bully-agent/bully-agent/wire"
)

// Hosts that are new, of which there may be any number, fill half of the inbox at most. The rest are places of the others.
func TestNewHostsLeavePlacesInTheInbox(t *testing.T) {
	seal := &fakeSeal{isNew: true}
	a := &agent{inbox: make(chan received, inboxSize), seal: seal}
	for n := 0; a.hasPlace(wire.ID{1, byte(n), byte(n >> 8)}); n++ {
		a.queue(received{})
	}
	if n := len(a.inbox); n != newAtOnce {
		t.Errorf("they fill %d of %d places", n, inboxSize)
	}
	if seal.isNew = false; !a.hasPlace(wire.ID{2}) {
		t.Error("a host that is known has no place")
	}
}
