package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// What the seat owes since its last life: the end of a leadership, by its lose hook. A life
// that begins beside that hook is held down until it has ended. With at_start a life that owes
// nothing runs its lose hook in the same place, and in the same bounds: the one lose hook
// without a become hook before it, and before the first.

// heldForLastLife is the hold-down of a node whose last life has not ended: for as long as
// that takes.
const heldForLastLife = 100 * 365 * 24 * time.Hour

// cleaned is what the clean-up after a last life has come to.
type cleaned struct {
	epoch wire.Epoch   // whose lose hook was due; zero: none was
	lose  hooks.Result // of that hook, or of at_start's; zero: none was to run
}

// cleanUp runs the lose hook of a leadership that the last life did not end, unless its
// keeper has, or with at_start that of a host that leads nothing. It changes nothing in the
// seat, which may belong to the loop already.
func (s *seat) cleanUp(ctx context.Context) cleaned {
	epoch := s.owed()
	if ctx.Err() != nil || epoch.IsZero() && !s.loseAtStart {
		return cleaned{}
	}
	self := hooks.Node{ID: s.state.ID.String(), Name: s.name}
	ev := hooks.Event{Kind: hooks.LoseLeadership, Cause: hooks.CauseStarted, AtStart: s.loseAtStart,
		Time: wallClock(), Cluster: s.cluster, Mode: s.tally.mode(), Role: election.RoleFollower.String(), Self: self,
		Members: []hooks.Member{{ID: self.ID, Name: self.Name, Status: membership.Alive.String(), Priority: int(s.election.Priority),
			Voter: s.election.Part == election.Voter}}}
	if !epoch.IsZero() {
		s.log.Warn("last run ended while it led", "epoch", epoch.Counter)
		ev.Cause, ev.PrevLeader = string(election.UncleanRestarted), self
		ev.Epoch = hookEpoch(epoch)
	}
	return cleaned{epoch, s.runner.CleanUp(ctx, ev)}
}

// losesNothing: this life begins with a lose hook, and the last one had not led at its end.
func (s *seat) losesNothing() bool { return s.loseAtStart && s.debt.IsZero() }

// owed is the epoch whose lose hook is due by an earlier life: it had not ended, or
// it had failed. Any goroutine may ask while that life has not ended.
func (s *seat) owed() wire.Epoch {
	if !s.debt.IsZero() {
		return s.debt
	}
	epoch, ok := s.runner.Owed()
	if !ok {
		return wire.Epoch{}
	}
	owner, err := wire.ParseID(epoch.Owner) // that life may have had another key
	if err != nil {
		owner = s.state.ID
	}
	return wire.Epoch{Counter: epoch.Counter, Owner: owner}
}

// settle takes note that nothing is left of the last life.
func (s *seat) settle(c cleaned) {
	s.jobs.recovered()
	s.debt = wire.Epoch{}
	if c.lose.Kind == "" {
		return
	}
	s.noteHook(c.lose, c.epoch)
	if !c.lose.OK {
		owner := c.epoch.Owner
		if owner.IsZero() {
			owner = s.state.ID // at_start's
		}
		s.redoLose(c.lose, owner)
	}
}

// settleBeside is settle for a life that has begun beside the last one.
func (s *seat) settleBeside(c cleaned) {
	s.beside = false
	debt := s.debt
	s.settle(c)
	if saved := s.state.saved; !debt.IsZero() && saved.Promoted == debt {
		saved.Promoted = wire.Epoch{}
		if err := s.save(saved); err != nil {
			s.onDiskFailed(err) // written with the next attempt
		}
	}
	if debt.IsZero() && s.loseAtStart {
		s.log.Info("the lose-leadership hook of at_start has ended")
	} else {
		s.log.Info("the hooks, jobs and commands of the last run have ended")
	}
	s.standAgain()
	s.publish()
}

// standAgain ends the hold-down of a life that has begun beside the last one, once that has
// ended, and the operator's hold-down too. It is called once a second.
func (s *seat) standAgain() {
	if !s.isHeldBack || s.beside || s.around.now().Before(s.heldUntil) {
		return
	}
	s.isHeldBack = false
	s.command(election.Command{Verb: election.Stand}, func(error) {})
}

// lastLifeNote says why a life that has begun beside the last one does not stand.
func (s *seat) lastLifeNote() string {
	switch epoch := s.owed(); {
	case !epoch.IsZero():
		return fmt.Sprintf("this host cannot lead yet: the lose-leadership hook of epoch %d, which its last run left, has not ended", epoch.Counter)
	case s.runner.Status().Process == 0:
		return "this host cannot lead yet: its keeper does not run yet"
	case s.loseAtStart:
		return "this host cannot lead yet: the lose-leadership hook of at_start has not ended"
	}
	return "this host cannot lead yet: a hook, job or command of its last run has not ended"
}

// refuses is for a become hook that nobody should have asked for: the lose hook before it
// has not ended. This host lets go, once the step is done.
func (s *seat) refuses(e election.StartHook) bool {
	if e.Hook != election.Become || !s.beside {
		return false
	}
	s.log.Error("become-leader hook not started, and leadership given up: a hook, job or command of the last run has not ended", "epoch", e.Epoch.Counter)
	s.mustLetGo = true
	return true
}

// letGo ends a leadership that must not be, after the step in which it began.
func (s *seat) letGo() {
	if s.mustLetGo {
		s.mustLetGo = false
		s.command(election.Command{Verb: election.Abdicate, Cause: election.HookFailed}, func(error) {})
	}
}
