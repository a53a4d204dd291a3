package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
)

// stalls stop a process or its host between two effects of one step: what it has decided
// it does later, when that may not be right any more. An agent is stopped so between its
// decision and a frame, a hook or what it publishes. They have a stream of chance of their
// own, as what is unusual has.
type stalls struct {
	rng  *rand.Rand
	some bool
}

func (w *World) drawStalls(o *Options) {
	s := &w.stalls
	s.rng = rand.New(rand.NewPCG(o.Seed, 0x57a11))
	s.some = s.rng.IntN(2) == 0 && !o.Usual && w.size <= 9
}

func (s *stalls) upTo(d time.Duration) time.Duration {
	return time.Duration(s.rng.Float64() * float64(d))
}

// stall is one that is to come: before so many more effects of a kind.
type stall struct {
	before func(election.Effect) bool
	in     int
	lasts  time.Duration
	why    Fault
}

// stallAgain plans a stall after a while, and comes back. The leader, and who stands, decide
// most of what must not be late.
func (w *World) stallAgain() {
	s := &w.stalls
	if !s.some {
		return
	}
	w.after(100*time.Millisecond+s.upTo(2*w.pace), func() {
		if !w.raging {
			return
		}
		m := pick(s.rng, w.machines...)
		if i := slices.IndexFunc(w.machines, func(m *machine) bool {
			return m.runs() && (m.state == election.Lead || m.state == election.Claiming || m.state == election.Stopping)
		}); i >= 0 && s.rng.IntN(4) > 0 {
			m = w.machines[i]
		}
		if m.runs() && m.stall.in == 0 {
			m.stall = s.draw(w.base.Lease)
		}
		w.stallAgain()
	})
}

func (s *stalls) draw(lease time.Duration) stall {
	before := pick(s.rng, isAny, isSend, isSend, isHook, isHook, isPublished)
	return stall{before: before, in: 1 + s.rng.IntN(4), why: pick(s.rng, Freeze, Freeze, Suspend),
		lasts: s.upTo(pick(s.rng, lease/4, lease, 4*lease))}
}

func isAny(election.Effect) bool { return true }

func isSend(e election.Effect) bool {
	_, ok := e.(election.Send)
	return ok
}

func isHook(e election.Effect) bool {
	_, ok := e.(election.StartHook)
	return ok
}

// isPublished: others act on what it says.
func isPublished(e election.Effect) bool {
	switch e.(type) {
	case election.LeaseUntil, election.Transition, election.Reply, election.Will:
		return true
	}
	return false
}

// stallsAt stops a process before an effect, if that is to be.
func (w *World) stallsAt(m *machine, e election.Effect) bool {
	if !m.stall.before(e) {
		return false
	}
	if m.stall.in--; m.stall.in > 0 {
		return false
	}
	w.fired(StallsInStep)
	m.waited = true
	w.freeze(m, m.stall.why, m.stall.lasts)
	return true
}
