package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
)

// renewGuard tells the guard until when this agent may be silent. A leader that
// nobody could take over from, in available mode, may be for as long as it likes: the
// node does not step down then either.
func (a *agent) renewGuard(until time.Time) {
	if a.isUnrivalled() {
		until = time.Time{}
	}
	a.runner.Renew(until)
}

// isUnrivalled: nobody could take over from this agent, in available mode.
func (a *agent) isUnrivalled() bool { return a.cfg.Election.Expect == 0 && !a.view.hasPeers() }

// hasPeers: another member is alive and takes part in elections with us.
func (v *view) hasPeers() bool {
	return slices.ContainsFunc(v.others, func(m membership.Member) bool {
		return m.Status == membership.Alive && m.ConfigHash == v.self.ConfigHash
	})
}

// showGuard completes a status. A leadership that its guard has ended is not ready,
// whatever the loop knows of it.
func (a *agent) showGuard(s *control.Status, degraded bool) {
	s.Degraded = degraded && s.LeaderIsSelf
	guard, ok := a.runner.Guard()
	if !ok {
		return
	}
	s.Guard = &control.Guard{Process: guard.Process, Reach: guard.Reach, Error: guard.Err}
	if guard.TookOver {
		s.Ready = s.Ready && !s.LeaderIsSelf
	}
}

func (a *agent) guardNotes() []string {
	guard, ok := a.runner.Guard()
	if !ok || guard.Err == "" {
		return nil
	}
	return []string{fmt.Sprintf("no guard watches over this agent: if it dies, the lose-leadership hook runs at its next start (%s)", guard.Err)}
}
