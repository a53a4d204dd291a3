package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/bully-agent/bully-agent/election"
)

// unusual is what few clusters have: settings far from the defaults, timers that
// are late, hosts that come late. It has a stream of chance of its own, so that what
// a seed plays without it (Options.Usual) is what the seed played before there was
// any of this.
type unusual struct {
	rng *rand.Rand
	has []Fault // of the whole schedule; they count when it begins

	late       time.Duration // a process wakes up so much after its deadlines, at most
	tethersLie bool
	dark       time.Duration // links stay down for up to so long; 0: as usual
	endsDark   bool          // once all is well, all links go: a switch that is off
	comeLate   bool          // some hosts start in the middle of the storm
	surplus    int           // quorum mode: voters beyond expect
	grows      int           // quorum mode: expect changes by so much, host after host
	newcomer   *machine      // it comes with the larger expect
	losesDisks bool          // any number of them at any time
	slowRejoin bool          // memberlist finds a lost member again as late as it really does
}

func (w *World) drawUnusual(o *Options) {
	u := &w.unusual
	u.rng = rand.New(rand.NewPCG(o.Seed, 0x0dd))
	if o.Usual || w.size > 9 {
		return
	}
	if u.oneIn(4) {
		w.drawTimers()
	}
	if u.oneIn(4) {
		w.drawOtherSettings()
	}
	if u.oneIn(6) {
		u.late = pick(u.rng, 3*time.Millisecond, 20*time.Millisecond, 60*time.Millisecond, w.base.Lease/3)
		u.has = append(u.has, LateTimers)
	}
	u.tethersLie = u.oneIn(4)
	if u.oneIn(8) {
		u.dark = w.stretch(time.Minute)
	}
	u.comeLate = u.oneIn(8)
	u.endsDark = w.mode == Available && w.base.MinMembers < 2 && u.oneIn(12)
	if w.mode == Quorum {
		u.drawVoters()
	}
	u.losesDisks = u.oneIn(8)
	if u.oneIn(8) {
		u.slowRejoin = true
		w.aliveAfter = slowestRejoin
		u.has = append(u.has, SlowRejoin)
	}
}

// drawMinMembers draws min_members of quorum mode, from a stream of its own.
func (w *World) drawMinMembers(o *Options) {
	rng := rand.New(rand.NewPCG(o.Seed, 0x3ab3))
	if w.mode == Quorum && !o.Usual && w.size <= 9 && rng.IntN(6) == 0 {
		w.base.MinMembers = 2 + rng.IntN(w.size-1)
		w.unusual.has = append(w.unusual.has, MinMembers)
	}
}

// boundMinMembers keeps it to what agents accept: at most expect, also after that falls.
func (w *World) boundMinMembers() {
	if w.mode != Quorum || w.base.MinMembers == 0 {
		return
	}
	for _, m := range w.machines {
		w.base.MinMembers = min(w.base.MinMembers, m.cfg.Expect+min(w.unusual.grows, 0))
	}
	for _, m := range w.machines {
		m.cfg.MinMembers = w.base.MinMembers
	}
}

// slowestRejoin is the longest pause between two attempts to join a member that was
// lost (protocol 2.5).
const slowestRejoin = 28 * time.Second

// hurtOddlyAgain inflicts what is unusual beside the storm, and comes back.
func (w *World) hurtOddlyAgain() {
	u := &w.unusual
	if u.losesDisks {
		for range 1 + u.rng.IntN(3) {
			w.after(u.upTo(w.lasts), func() { w.loseDisks(pick(u.rng, w.machines...)) })
		}
	}
	var kinds []func(*machine)
	if u.tethersLie {
		kinds = append(kinds, w.forgeEnd, w.forgeEnd, w.hangTethers)
	}
	if u.dark > 0 {
		kinds = append(kinds, w.goDark)
	}
	if len(kinds) == 0 {
		return
	}
	var again func()
	again = func() {
		w.after(100*time.Millisecond+u.upTo(2*w.pace), func() {
			if w.raging {
				pick(u.rng, kinds...)(pick(u.rng, w.machines...))
				again()
			}
		})
	}
	again()
}

// goDark takes the link of a host, or of all, away for long: a switch that is off.
func (w *World) goDark(m *machine) {
	u := &w.unusual
	hosts := []*machine{m}
	if u.oneIn(2) {
		hosts = w.machines
	}
	w.fired(LongDark)
	back := u.upTo(u.dark)
	for _, m := range hosts {
		w.setLink(m, false)
		w.after(back, func() { w.plugIn(m) })
	}
}

// comesLate draws whether a host joins in the middle of the storm, and when.
func (w *World) comesLate() (time.Duration, bool) {
	u := &w.unusual
	if !u.comeLate || !u.oneIn(3) {
		return 0, false
	}
	w.fired(LateJoin)
	return u.upTo(w.lasts), true
}

// lateness is how late a process wakes up, all the time. When all else is well it is
// no more than a leader can bear: beside a heartbeat it fits into what is left of the
// lease twice, once for the heartbeat and once for the look at the lease.
func (w *World) lateness(m *machine) int64 {
	late := w.unusual.late
	if late == 0 {
		return 0
	}
	if !w.raging {
		room := (w.base.ShortestLease() - w.base.StopBudget - w.base.Heartbeat*3/2) / 3
		late = min(late, w.base.ShortestLease()/6, max(room, 0))
	}
	return int64(late) * int64(m.number) / int64(w.size)
}

func (u *unusual) upTo(d time.Duration) time.Duration {
	return time.Duration(u.rng.Float64() * float64(d))
}

// between draws a span whose logarithm is equally likely anywhere in a range.
func (u *unusual) between(least, most time.Duration) time.Duration {
	return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), u.rng.Float64()))
}

// oneIn happens once in n times.
func (u *unusual) oneIn(n int) bool { return u.rng.IntN(n) == 0 }

// The range of timers that is drawn from. Heartbeats of less than 10 ms are taken by
// agents, but cost a schedule its share of the time.
const (
	leastHeartbeat = 10 * time.Millisecond
	mostHeartbeat  = time.Minute
	mostLease      = 10 * time.Minute
)

// drawTimers draws heartbeat, lease and stop budget from all that agents accept. The
// schedule lasts for as many leases as any, and its faults keep pace with them.
func (w *World) drawTimers() {
	u, c := &w.unusual, &w.base
	was := c.Lease
	least := leastHeartbeat
	if w.size > 3 {
		least *= 3
	}
	c.Heartbeat = u.between(least, mostHeartbeat).Round(time.Millisecond)
	c.Lease = min(u.between(4*c.Heartbeat, 32*c.Heartbeat).Round(time.Millisecond), mostLease)
	c.StopBudget = max(time.Millisecond, u.between(c.Lease/50, min(c.Lease*49/100, c.Lease-3*c.Heartbeat)))
	w.lasts += 20 * (c.Lease - was)
	if c.Lease > time.Minute {
		w.lasts = 6 * c.Lease
	}
	if short := 300 * c.Heartbeat; w.lasts > short { // many heartbeats tell no more than some
		w.lasts = max(short, 5*time.Second+15*c.Lease)
	}
	w.pace = max(w.pace, pick(u.rng, c.Lease/8, c.Lease/2, 2*c.Lease))
	u.has = append(u.has, OddTimers)
	if c.Lease > profiles[2].lease {
		u.has = append(u.has, LongLease)
	}
}

// drawOtherSettings draws each of the rest from its range.
func (w *World) drawOtherSettings() {
	u, c := &w.unusual, &w.base
	draw := func(f Fault, do func()) {
		if u.oneIn(2) {
			do()
			u.has = append(u.has, f)
		}
	}
	draw(OddSettle, func() { c.Settle = u.between(2*c.Heartbeat, 2*c.Heartbeat+10*time.Second) })
	draw(OddPreemptDelay, func() { c.PreemptDelay = pick(u.rng, time.Nanosecond, u.between(time.Millisecond, 30*time.Second)) })
	draw(OddTakeoverDelay, func() { c.TakeoverDelay = u.between(time.Millisecond, 5*time.Second) })
	switch c.Algorithm {
	case election.Enhanced:
		draw(OddCandidateSet, func() { c.CandidateSet = 1 + u.rng.IntN(w.size) })
	case election.Smallest:
		draw(KnownMinimum, func() { c.KnownMinimum = 1 }) // operators give priorities from 1 on
	}
}

// stretch is for what must outlast a lease to be felt.
func (w *World) stretch(d time.Duration) time.Duration {
	if usual := profiles[2].lease; w.base.Lease > usual {
		return time.Duration(float64(d) * float64(w.base.Lease) / float64(usual))
	}
	return d
}

// describe adds what is unusual to the line of the scenario.
func (w *World) describe() string {
	text := w.scenario.String()
	if c := &w.base; c.Settle > 0 {
		text += fmt.Sprintf(", settle %v", c.Settle.Round(time.Millisecond))
	}
	for _, f := range w.unusual.has {
		text += ", " + f.String()
	}
	if w.links.ends {
		text += ", " + LinksCut.String()
	}
	if w.isChecked() {
		text += ", checks"
	}
	if w.ports.isSealed {
		text += ", sealed"
	}
	switch {
	case w.attack.kind == Insider:
		text += ", an insider"
	case w.attack.kind == Forger:
		text += ", a forger"
	case w.attack.kind == Stranger:
		text += ", a stranger"
	}
	return text
}
