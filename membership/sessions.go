package membership

import (
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Sessions prove who is there. Gossip says where to look: each member can say of each other whatever it likes, and answer a
// ping in another's place, since an answer bears a number and no name. What came in a life's own session is that life's.
type Sessions interface {
	// Heard says of a life with a session in which life of its host it is, where it is reached, and when something last came
	// from it. It is asked with memberlist's lock held, and must not wait.
	Heard(id wire.ID, nonce uint32) (incarnation uint32, addr netip.AddrPort, at time.Time, ok bool)
}

// firstHand gives what a life has shown of itself since a time, and false if nothing has come from it, or from elsewhere than
// others say.
func (m *Membership) firstHand(told Member, since time.Time) (Member, bool) {
	incarnation, addr, at, ok := m.proof.Heard(told.ID, told.Nonce)
	if !ok || addr != told.Addr || at.Before(since) {
		return told, false
	}
	told.Incarnation = incarnation
	return told, true
}

// isProven reports whether a life has a session, at the address that it is said to have.
func (m *Membership) isProven(told Member) bool {
	_, is := m.firstHand(told, time.Time{})
	return is
}
