package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/election"
)

// A leader that cannot save its ledger runs no jobs, and nobody else does either: the
// election has a file of its own, written in place, which a full disk does not stop.
// So when jobs are due and the ledger has failed for a while, the leadership goes to
// another host, if one is ready.

// passOn is what a host has done about its ledger since it takes no writes.
type passOn struct {
	at    time.Time // of the next try; zero: at once
	pause time.Duration

	asked bool      // its order to step down is not answered yet, and may never be: nobody may come to lead
	held  time.Time // end of the hold-down that it gave itself; zero: none
	led   time.Time // when somebody was last known to lead meanwhile
}

const (
	// ledgerPatience is how long jobs wait for the ledger to be saved before another
	// host is to run them, and how long this one then waits for somebody to lead.
	// Higher sits out more, and costs slots. Arbitrary.
	ledgerPatience = 5 * time.Second

	// ledgerHold bounds how long a host does not stand that stepped down for its
	// ledger. It stands when that is well again, or nobody leads; else, since no host
	// knows of the others' disks, the leadership would go round where all are full.
	ledgerHold = time.Hour

	// ledgerProof is how long a ledger must have been saved again before it is well.
	// Stepping down frees a block or two by itself: a better host would take the
	// leadership back, and have no room again. Arbitrary.
	ledgerProof = 30 * time.Second
)

// passJobsOn is called each time that the ledger could not be saved while jobs are
// due.
func (s *seat) passJobsOn() {
	p, ledger, now := &s.passOn, &s.jobs.saving, s.around.now()
	if now.Sub(ledger.since) < ledgerPatience || now.Before(p.at) || !s.isLeading() {
		return
	}
	p.pause = min(max(2*p.pause, redoFirst), redoMost)
	p.at = now.Add(p.pause)
	p.asked = true
	s.command(election.Command{Verb: election.StepDown, For: ledgerHold, Cause: election.DiskFailed}, func(refused error) {
		s.noteOwnHold()
		p.asked = false
		if errors.Is(refused, election.ErrNobodyReady) && s.isLeading() {
			s.warn(string(election.DiskFailed), fmt.Sprintf("jobs are due and the ledger cannot be saved (%v), and %v; it is tried again in %v",
				ledger.why, refused, p.pause))
		}
	})
}

// noteOwnHold sees whether the order to step down has held this host down. A leader
// was not before.
func (s *seat) noteOwnHold() {
	p := &s.passOn
	if held := s.node.Status().Held; p.asked && !held.IsZero() {
		p.asked, p.held, p.led = false, held, s.around.now()
	}
}

// standForJobs ends the hold-down of passJobsOn, unless it is another's by now. It is
// called once a second.
func (s *seat) standForJobs() {
	s.noteOwnHold()
	p, now, status := &s.passOn, s.around.now(), s.node.Status()
	if !status.Leader.IsZero() {
		p.led = now
	}
	ledger := &s.jobs.saving
	isWell := !ledger.hasFailed && now.Sub(ledger.well) >= ledgerProof
	if p.held.IsZero() || !isWell && now.Sub(p.led) < ledgerPatience {
		return
	}
	isOurs := p.held.Equal(status.Held)
	p.held = time.Time{}
	if isOurs {
		s.command(election.Command{Verb: election.Stand}, func(error) {})
	}
}

// onLedgerWritten passes on what became of a write. With the next failure the patience
// begins anew.
func (s *seat) onLedgerWritten(w written) {
	s.jobs.onWritten(w)
	if !s.jobs.saving.hasFailed {
		s.passOn.at, s.passOn.pause = time.Time{}, 0
	}
}
