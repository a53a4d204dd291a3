package agent

import (
	"cmp"
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
)

// Two agents with one id have one private key: one's state directory is a copy of the other's, as of a cloned machine or a
// restored backup. Both believe that an epoch is theirs, so one of them ends (protocol 2.1). Others' word is not enough for that:
// the other has proved the key in a session.

// copies are the lives of this host's id that gossip tells of at other addresses, or that have shown themselves, by nonce. They
// may have ended.
type copies map[uint32]membership.Member

// causeSameID is the cause of events about them.
const causeSameID = "same-id"

// copyHeard is for how long a copy that was heard counts as there. It speaks at least every second while it is. Arbitrary.
const copyHeard = 5 * time.Second

// maxCopies bounds them, whatever others say. Arbitrary.
const maxCopies = 16

// staysBeside: of two lives of one id the one stays that was there before, as both see: the one that is settled, else the earlier
// one.
func staysBeside(self, other membership.Member) bool {
	if self.Settled != other.Settled {
		return self.Settled
	}
	return cmp.Or(cmp.Compare(self.Incarnation, other.Incarnation), cmp.Compare(self.Nonce, other.Nonce)) < 0
}

// noteCopy takes what gossip says of a life of this host's own id.
func (a *agent) noteCopy(m membership.Member) {
	_, isKnown := a.copies[m.Nonce]
	switch {
	case m.Nonce == a.view.self.Nonce, m.Addr == a.view.self.Addr: // this life, and the one before it
	case m.Status == membership.Dead:
		delete(a.copies, m.Nonce)
	case m.Status == membership.Told && isKnown: // it may have shown itself
	case len(a.copies) < maxCopies:
		a.copies[m.Nonce] = m
		a.keepWarm() // which has them prove themselves
	}
	a.lookForCopies()
}

// onJoinEnded lets the election begin, unless a copy has to be given the time to prove itself: a second, until the next look.
func (a *agent) onJoinEnded() {
	if a.joinEnded = len(a.copies) > 0; !a.joinEnded {
		a.seat.step(election.JoinEnded{})
	}
}

// lookAtCopies is called once a second.
func (a *agent) lookAtCopies() {
	a.lookForCopies()
	if a.joinEnded && a.fatal == nil {
		a.joinEnded = false
		a.seat.step(election.JoinEnded{})
	}
}

// lookForCopies sees whether one of them has a session with this host.
func (a *agent) lookForCopies() {
	for _, m := range a.copies {
		incarnation, addr, ago, isProven := a.seal.Heard(m.ID, m.Nonce)
		if m.Incarnation, m.Addr = incarnation, addr; isProven && ago < copyHeard && m.Status == membership.Alive { // it says if it is settled
			a.clash(m)
		}
	}
}

// clash names the other agent with this one's id, and ends this one if that one stays.
func (a *agent) clash(other membership.Member) {
	const message = "another agent has the same id: one state directory was copied from the other"
	text := fmt.Sprintf("life %d of this host's id is at %v, and this is life %d", other.Incarnation, other.Addr, a.view.self.Incarnation)
	isRare := a.isRare("clash", other.Addr) // a service manager starts the copy again every few seconds
	if isRare {
		a.event(control.Event{Type: "warning", Cause: causeSameID, Text: text})
	}
	switch {
	case !staysBeside(a.view.self, other):
		if a.fatal != nil {
			return
		}
		a.log.Error(message+"; this one ends", "addr", other.Addr)
		a.fatal = &Refusal{Err: fmt.Errorf("%w: %v", ErrSameID, other.Addr), Hint: "remove the state directory of the copy; it then starts as a new host"}
		a.seat.command(election.Command{Verb: election.Leave}, func(error) {})
	case isRare:
		a.log.Error(message+"; this one goes on, the other must not", "addr", other.Addr)
	}
}
