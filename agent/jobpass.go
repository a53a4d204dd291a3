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
	since time.Time // on the agent's clock
	why   error     // what the disk said last
	at    time.Time // of the next try; zero: at once
	pause time.Duration

	asked bool      // its order to step down is not answered yet, and may never be: nobody may come to lead
	held  time.Time // end of the hold-down that it gave itself; zero: none
	led   time.Time // when somebody was last known to lead meanwhile
	well  time.Time // since when the ledger is saved again
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
func (a *agent) passJobsOn() {
	p, now := &a.jobs.passOn, a.cfg.Now()
	if now.Sub(p.since) < ledgerPatience || now.Before(p.at) || !a.isLeading() {
		return
	}
	p.pause = min(max(2*p.pause, redoFirst), redoMost)
	p.at = now.Add(p.pause)
	p.asked = true
	a.command(election.Command{Verb: election.StepDown, For: ledgerHold, Cause: election.DiskFailed}, func(refused error) {
		a.noteOwnHold()
		p.asked = false
		if errors.Is(refused, election.ErrNobodyReady) && a.isLeading() {
			a.warn(string(election.DiskFailed), fmt.Sprintf("jobs are due and the ledger cannot be saved (%v), and %v; it is tried again in %v",
				p.why, refused, p.pause))
		}
	})
}

// noteOwnHold sees whether the order to step down has held this host down. A leader
// was not before.
func (a *agent) noteOwnHold() {
	p := &a.jobs.passOn
	if held := a.node.Status().Held; p.asked && !held.IsZero() {
		p.asked, p.held, p.led = false, held, a.cfg.Now()
	}
}

// standForJobs ends the hold-down of passJobsOn, unless it is another's by now. It is
// called once a second.
func (a *agent) standForJobs() {
	a.noteOwnHold()
	p, now, s := &a.jobs.passOn, a.cfg.Now(), a.node.Status()
	if !s.Leader.IsZero() {
		p.led = now
	}
	isWell := !a.jobs.failed && now.Sub(p.well) >= ledgerProof
	if p.held.IsZero() || !isWell && now.Sub(p.led) < ledgerPatience {
		return
	}
	isOurs := p.held.Equal(s.Held)
	p.held = time.Time{}
	if isOurs {
		a.command(election.Command{Verb: election.Stand}, func(error) {})
	}
}
