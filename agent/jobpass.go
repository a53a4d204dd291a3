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
	hold  time.Duration // of the last hold-down
}

const (
	// ledgerPatience is how long jobs wait for the ledger to be saved before another
	// host is to run them. Higher sits out more, and costs their slots. Arbitrary.
	ledgerPatience = 5 * time.Second

	// A host that stepped down for its ledger does not stand for hookHold, and each
	// further time for twice as long, at most longestLedgerHold: where all disks are
	// full the leadership must not go round for ever. Arbitrary.
	longestLedgerHold = time.Hour
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
	hold := min(max(2*p.hold, hookHold), longestLedgerHold)
	a.command(election.Command{Verb: election.StepDown, For: hold, Cause: election.DiskFailed}, func(refused error) {
		switch {
		case refused == nil:
			p.hold = hold
		case errors.Is(refused, election.ErrNobodyReady) && a.isLeading():
			a.warn(string(election.DiskFailed), fmt.Sprintf("jobs are due and the ledger cannot be saved (%v), and %v; it is tried again in %v",
				p.why, refused, p.pause))
		}
	})
}
