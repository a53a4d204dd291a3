package quorum

import (
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Promise is what a voter owes (protocol 4.3): until its end it grants nobody
// else. It is given to a claimant and renewed by each of its heartbeats, measured
// from receipt, so that it ends after the leader's own view of it. It lives in
// memory: a restarted voter keeps silent for as long as any promise may run.
//
// Invariant: while a node claims or leads, its promise is to itself (M4).
type Promise struct {
	Epoch wire.Epoch
	Until time.Time
}

// Bind makes or prolongs a promise to e's owner. It never shortens one to the same
// owner: that owner counts on the longer.
func (p *Promise) Bind(e wire.Epoch, until time.Time) {
	if p.Epoch.Owner == e.Owner && p.Until.After(until) {
		until = p.Until
	}
	*p = Promise{e, until}
}

// Release ends the promise to e, and to no other epoch: an old RESIGN must not free
// a newer promise (CE8).
func (p *Promise) Release(e wire.Epoch) {
	if p.Epoch == e {
		*p = Promise{}
	}
}

// BoundFor is how long from now on this voter may not grant id anything, since a
// promise to another runs, and delay after it: takeover_delay binds the voters too
// (M6).
func (p *Promise) BoundFor(id wire.ID, delay time.Duration, now time.Time) time.Duration {
	if p.Epoch.IsZero() || p.Epoch.Owner == id {
		return 0
	}
	return max(0, p.Until.Add(delay).Sub(now))
}
