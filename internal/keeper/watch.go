package keeper

import (
	"errors"
	"time"

	"github.com/bully-agent/bully-agent/hooks/jobrun"
)

// How a keeper sees to it that nothing goes on without its agent.

// renew moves the deadline; the caller holds mu.
func (k *keeper) renew(r renewal) {
	k.deadline, k.isWatch = r.deadline, true
	k.watch()
	if r.isEnding {
		k.jobs.Ending(r.deadline.Time())
	} else {
		k.jobs.Lease(r.deadline.Time())
	}
}

// watch has the deadline judged when it has come; the caller holds mu.
func (k *keeper) watch() {
	if k.isWatch && k.deadline != 0 {
		k.timer.set(k.silentAt())
	} else {
		k.timer.set(0)
	}
}

// silentAt is when an agent that has not renewed its lease is silent.
func (k *keeper) silentAt() instant { return max(k.deadline.Add(-k.settings.Budget), 1) }

// judge ends the leadership of an agent that is silent. What it said until now has been
// read.
func (k *keeper) judge() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.isWatch || k.deadline == 0 || now() < k.silentAt() {
		k.watch()
		return
	}
	if k.phase == opened { // the order to run is on its way
		k.timer.set(now().Add(lockPause))
		return
	}
	k.isWatch = false
	if _, ok := k.runner.TakeOver(k.left()); ok && k.isDeaf {
		k.goWhenAtRest()
	}
}

var errLate = errors.New("not started: the lease of its leadership has ended")

// barLate says why the become-leader hook of an epoch may not start now, on any goroutine.
// What the agent has said until now is read first: a keeper that was stopped, and its agent
// not, has renewals to hear of.
func (k *keeper) barLate(epoch uint64) error {
	k.listen()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.minded == epoch && k.deadline != 0 && now() >= k.silentAt() {
		return errLate
	}
	return nil
}

// left is what a lose-leadership hook has: the rest of the lease and the takeover delay;
// 0, which is no bound, if that has passed or there is none. The caller holds mu.
func (k *keeper) left() time.Duration {
	if k.deadline == 0 {
		return 0
	}
	return max(k.deadline.Add(k.settings.Takeover).Sub(now()), 0)
}

// onDeath ends what the agent has left.
func (k *keeper) onDeath() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isDead = true
	k.out.toStderr()
	k.endChecks()
	switch k.phase {
	case running:
		k.isWatch = false
		k.runner.EndNotices()
		k.jobs.EndAll(jobrun.AgentDied)
		k.runner.TakeOver(k.left())
		k.goWhenAtRest()
	case begun, opening, opened: // a clean-up goes on: it is due, whoever lives
		k.goWhenClean()
		k.phase = closing
	}
}

// onDeaf is about an agent that has closed its socket. While it lives and leads, its
// deadline is minded; nobody else will say what to do. The caller holds mu.
func (k *keeper) onDeaf() {
	if k.phase < running {
		k.goWhenClean()
		k.phase = closing
	}
}

// goWhenAtRest ends this process when the leadership's hooks have ended, and what is left
// of jobs; the caller holds mu.
func (k *keeper) goWhenAtRest() {
	if k.phase == closing {
		return
	}
	k.phase = closing
	isDead := k.isDead
	go func() {
		k.runner.Rest()
		if isDead {
			k.jobs.Rest()
			k.execute()
		}
		k.stop()
	}()
}
