package agent

import (
	"context"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/session"
)

// tie is one tether that the election wanted, with its end.
type tie struct {
	election.Tether
	ctx context.Context
	cut context.CancelFunc
}

// finding is what a tether found.
type finding struct {
	of    *tie
	event election.Event
}

// tether replaces the tether. It runs in the loop.
//
// Invariant: a.tie is the newest wish, and what another one found is dropped.
func (a *agent) tether(e election.Tether) {
	if a.tie != nil {
		a.tie.cut()
		a.tie = nil
	}
	select {
	case <-a.ties: // not begun yet
	default:
	}
	if e.ID.IsZero() {
		return
	}
	ctx, cut := context.WithCancel(context.Background())
	a.tie = &tie{Tether: e, ctx: ctx, cut: cut}
	a.ties <- a.tie // there is room: only the loop puts one in
}

// tethers holds one tether at a time to the leader until ctx ends.
func (a *agent) tethers(ctx context.Context) {
	for {
		select {
		case t := <-a.ties:
			a.hold(ctx, t)
		case <-ctx.Done():
			return
		}
	}
}

// hold lasts until the loop wants another tether.
func (a *agent) hold(ctx context.Context, t *tie) {
	defer t.cut()
	defer context.AfterFunc(ctx, t.cut)()
	found := func(ev election.Event) func() {
		return func() {
			select {
			case a.findings <- finding{t, ev}:
			case <-t.ctx.Done():
			}
		}
	}
	a.lan.Tether(t.ctx, session.Meant{ID: t.ID, Nonce: t.Nonce, Addr: t.Addr}, found(election.TetherLost{ID: t.ID, Nonce: t.Nonce}), found(election.Refused{ID: t.ID, Nonce: t.Nonce}))
}

// onFinding passes on what the present tether found.
func (a *agent) onFinding(f finding) {
	if f.of != a.tie {
		return
	}
	a.log.Debug("leader's port refused", "event", f.event, "addr", f.of.Addr)
	a.seat.step(f.event)
}
