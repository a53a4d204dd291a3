package agent

import (
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
)

// Pulse is what the loop says of itself to whoever watches over the process.
type Pulse struct {
	Role    string // as in control.Status
	Leads   bool
	Leader  string // its name, as its host chose it; empty: none is known
	Epoch   uint64 // 0: none is known
	Alive   int    // hosts believed alive and heard lately, this one included
	Members int    // hosts known, without those that have left

	LetsGo     bool // a leadership ends
	IsStopping bool // the agent was told to stop
	IsLosing   bool // and a lose hook runs, or waits for its next attempt: to end the process now would break it off
	IsDue      bool // Config.PulseEvery has passed; else something above is another
}

// pulse hands out a Pulse at the end of a turn of the loop, if the time has come or something changed. It must be called by
// turns and nothing else: that a loop which stands still gives none is what it is for.
type pulse struct {
	every      *time.Ticker // nil: nobody wants any
	shown      *snapshot    // what last was made from
	last       Pulse        // without IsDue
	isDue      bool
	isStopping bool // the agent was told to
}

// beginPulse gives what the loop waits for; nil: nobody wants any.
func (a *agent) beginPulse() <-chan time.Time {
	if a.cfg.Pulse == nil {
		return nil
	}
	a.pulse.every = time.NewTicker(a.cfg.PulseEvery)
	return a.pulse.every.C
}

func (a *agent) endPulse() {
	if a.pulse.every != nil {
		a.pulse.every.Stop()
	}
}

// beat ends a turn. Most turns have nothing to say, and compare two pointers.
func (a *agent) beat() {
	p, shown := &a.pulse, a.shown.Load()
	if p.every == nil || shown == p.shown && !p.isDue && !p.isStopping {
		return
	}
	next := p.last
	if shown != p.shown {
		p.shown, next = shown, pulseOf(shown)
	}
	next.IsStopping = p.isStopping
	next.IsLosing = p.isStopping && a.runner.IsRunning(hooks.LoseLeadership)
	if next != p.last || p.isDue {
		p.last = next
		next.IsDue, p.isDue = p.isDue, false
		a.cfg.Pulse(next)
	}
}

func pulseOf(s *snapshot) Pulse {
	p := s.pulse()
	p.Alive, p.Members = countMembers(s.members)
	return p
}

// countMembers counts the hosts that are alive and were heard lately, and those that are known and have not left.
func countMembers(members []control.Member) (alive, known int) {
	for _, m := range members {
		if m.Status != "left" && m.Status != "told" {
			known++
		}
		if m.Status == "alive" {
			alive++
		}
	}
	return alive, known
}
