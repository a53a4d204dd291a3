package jobs

import (
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// A host that has lost its ledger does not know what it witnessed, and refuses
// all that it may have: up to the present and Tolerance, since nothing further in
// the future is witnessed. That takes a clock that shows the present. One that
// shows a time which is known to have passed does not: until it is set, every
// claim is refused. All of that is on disk, for the case of another restart.
//
// Another host's word that this clock is behind may be false, or its own clock wrong.
// It holds until a claim of a third host shows the time that this clock shows: claims
// are of the present. So one host that lies holds up a voter that has lost its ledger
// until the leader's next claim; the leader itself, for as long as it leads.

// lostLedger is what a host knows of the present that has lost its ledger.
type lostLedger struct {
	isLost bool      // in this life, or before the clock was right
	newest time.Time // that has passed
	teller wire.ID   // who says so; zero: a file, or push/pull
}

// awake is the beginning of the first step.
func (s *Scheduler) awake() {
	if s.begun {
		return
	}
	s.lost = lostLedger{isLost: s.cfg.LedgerLost || s.ledger.forgot == maxSlot, newest: s.cfg.NewestKnown}
	if s.lost.isLost {
		s.forgetAll()
	}
}

// forgetAll refuses every claim, until the clock is right.
func (s *Scheduler) forgetAll() {
	s.ledger.forget(maxSlot)
	s.mustSave = true
}

// learnTime takes the time of what another host says. One that is ahead may be
// right.
func (s *Scheduler) learnTime(from wire.ID, slot Slot) {
	if s.lost.isLost && slot > latest(s.now) && slot.Time().After(s.lost.newest) {
		s.lost.newest, s.lost.teller = slot.Time(), from
		s.forgetAll()
	}
}

// vouch takes the time of another host's claim for a proof of this clock, unless that
// host is the one that doubts it. What the files say it does not outweigh.
func (s *Scheduler) vouch(from wire.ID, claimed Millis) {
	if s.lost.newest.After(s.now) && from != s.lost.teller && s.now.Sub(claimed.Time()).Abs() <= Tolerance {
		s.lost.newest, s.lost.teller = s.cfg.NewestKnown, wire.ID{}
		s.settleForgot()
	}
}

// settleForgot refuses what can have been witnessed before the present, once that
// is known.
func (s *Scheduler) settleForgot() {
	if s.ledger.forgot == maxSlot && !s.now.Before(s.lost.newest) {
		s.ledger.forget(latest(s.now))
		s.mustSave = true
	}
}
