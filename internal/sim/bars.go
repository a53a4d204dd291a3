package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// bars are checks that fail and pass again, and operators at work on hosts. They have a
// stream of chance of their own, so that seeds play what they played before there were any.
// In some schedules the checks are those that ship (checks.go).
type bars struct {
	rng  *rand.Rand
	some bool // in this schedule
}

// maintainToken marks the Command whose refusal takes a host's maintenance back.
const maintainToken = 8

func (w *World) drawBars(o *Options) {
	b := &w.bars
	b.rng = rand.New(rand.NewPCG(o.Seed, 0xba125))
	b.some = !o.Usual && w.size <= 9 && (b.rng.IntN(3) == 0 || o.checks)
}

func (b *bars) upTo(d time.Duration) time.Duration {
	return time.Duration(b.rng.Float64() * float64(d))
}

// hurtByBarsAgain has a check fail, or an operator begin to work, half of the time on the
// host that leads, and comes back.
func (w *World) hurtByBarsAgain() {
	b := &w.bars
	if !b.some {
		return
	}
	w.after(50*time.Millisecond+b.upTo(2*w.pace), func() {
		if !w.raging {
			return
		}
		m := pick(b.rng, w.machines...)
		if i := slices.IndexFunc(w.machines, func(m *machine) bool { return m.runs() && m.state == election.Lead }); i >= 0 && b.rng.IntN(2) == 0 {
			m = w.machines[i]
		}
		if b.rng.IntN(3) > 0 {
			w.failCheck(m)
			w.after(b.upTo(pick(b.rng, 200*time.Millisecond, 5*time.Second)), func() { w.passCheck(m) })
		} else {
			w.maintain(m)
			w.after(b.upTo(8*time.Second), func() { w.endMaintenance(m) })
		}
		w.hurtByBarsAgain()
	})
}

func (w *World) failCheck(m *machine) {
	w.fired(CheckFails)
	m.checkFails = true
	if !w.isChecked() {
		w.bar(m, election.BarCheck, true)
		return
	}
	m.illOf = w.checks.rng.IntN(len(w.checks.all)) // its runs say so
	w.say(m, "is ill: check %s has to fail", w.checks.all[m.illOf].Name)
}

func (w *World) passCheck(m *machine) {
	m.checkFails = false
	if !w.isChecked() {
		w.bar(m, election.BarCheck, false)
		return
	}
	w.say(m, "is well: its checks have to pass")
}

// bar tells the node, as the agent does: in the process that runs now.
func (w *World) bar(m *machine, b election.Bar, on bool) {
	e := election.Barred{Bar: b, On: on}
	w.say(m, "%v", e)
	w.step(m, e)
}

// maintain is written down before the node is told, and taken back if it refuses.
func (w *World) maintain(m *machine) {
	if !m.runs() {
		return
	}
	w.fired(OpMaintain)
	m.maintained = true
	w.command(m, election.Command{Verb: election.Maintain, Force: w.bars.rng.IntN(4) == 0, Token: maintainToken})
}

func (w *World) endMaintenance(m *machine) {
	m.maintained = false
	w.bar(m, election.BarMaintenance, false)
}

// beginBarred: a process begins with what its host had, and with checks of which none has
// passed yet.
func (w *World) beginBarred(m *machine) {
	if !w.bars.some {
		return
	}
	if m.maintained {
		w.bar(m, election.BarMaintenance, true)
	}
	if w.isChecked() {
		w.beginChecks(m)
		return
	}
	w.bar(m, election.BarCheck, true)
	life := m.life
	w.after(w.bars.upTo(300*time.Millisecond), func() {
		if m.life == life && !m.checkFails {
			w.bar(m, election.BarCheck, false)
		}
	})
}

// calmBars: all checks pass, and nobody works on a host.
func (w *World) calmBars() {
	for _, m := range w.machines {
		if m.checkFails {
			w.passCheck(m)
		}
		if m.maintained {
			w.endMaintenance(m)
		}
	}
}

// barInPeace has checks fail while nothing else does: of followers, which moves nobody; then
// of the leader, which is relieved if somebody else may lead, and stays if nobody may.
func (w *World) barInPeace() {
	b := &w.bars
	i := slices.IndexFunc(w.machines, func(m *machine) bool { return w.counts(m) && w.acts(m) })
	if !b.some || i < 0 || w.failure != nil || w.mixed != noFault || w.isJoining() {
		return
	}
	leader := w.machines[i]
	heirs := slices.DeleteFunc(slices.Clone(w.machines), func(m *machine) bool { return !w.mayRelieve(m, leader) })
	if len(heirs) == 0 {
		return
	}
	b.rng.Shuffle(len(heirs), func(i, j int) { heirs[i], heirs[j] = heirs[j], heirs[i] })
	isAlone, barred := b.rng.IntN(3) == 0, heirs[:b.rng.IntN(len(heirs))]
	if isAlone { // also those whose hold-down ends meanwhile
		barred = slices.DeleteFunc(slices.Clone(w.machines), func(m *machine) bool { return m == leader })
	}
	epoch := leader.epoch
	w.fired(BarredInPeace)
	for _, m := range barred {
		w.failCheck(m)
	}
	w.runUntil(w.now+int64(2*time.Second+2*w.longestLease()+w.checks.noticedWithin()), nil)
	w.i25NobodyIsMovedByFollowers(leader, epoch)
	w.failCheck(leader)
	w.i24BarredLeaderIsRelieved(leader, heirs[len(heirs)-1], isAlone)
	w.calmBars()
	if w.isChecked() {
		w.runUntil(w.now+int64(w.checks.noticedWithin()), nil)
	}
	w.agreeBy(w.now+int64(w.healedWithin()), 20*time.Millisecond)
}

// mayRelieve: m may lead in the leader's place, and is heard by it.
func (w *World) mayRelieve(m, leader *machine) bool {
	return m != leader && w.counts(m) && m.state == election.Follow && m.node.Status().Bars == 0 &&
		(w.mode != Quorum || slices.Contains(leader.roster(), m.id))
}

// isRenewed: a leader that nobody relieves claims a higher epoch, to go on.
func isRenewed(c election.Cause) bool { return c == election.ReMinted || c == election.ClaimStale }

// I25: a bar moves the leadership of its own host alone.
func (w *World) i25OwnBarsAlone(m *machine, e *election.Transition) {
	bars := m.node.Status().Bars
	if e.Cause == election.CheckFailed && !bars.Has(election.BarCheck) || e.Cause == election.Maintenance && !bars.Has(election.BarMaintenance) {
		w.fail(25, "n%d ends its leadership of %v for %s, and is ineligible for %q", m.number, e.Epoch, e.Cause, bars)
	}
}

// I25: what holds followers back moves nobody.
func (w *World) i25NobodyIsMovedByFollowers(leader *machine, e wire.Epoch) {
	if w.failure == nil && (leader.state != election.Lead || leader.epoch != e) && !w.isPreempted(leader) && !w.isByReturn(w.now) {
		w.sayStatus()
		w.fail(25, "n%d does not lead in %v any more though only followers were held back", leader.number, e)
	}
}

// isPreempted: the last leadership here was given up in favour of a better host.
func (w *World) isPreempted(m *machine) bool { return m.lastLost == election.Preempted }

// I24: a leader that is held back leads no longer than a hand-over takes, if somebody else
// may lead; else it stays.
func (w *World) i24BarredLeaderIsRelieved(leader *machine, heir *machine, isAlone bool) {
	epoch := leader.epoch
	if w.failure != nil || leader.state != election.Lead {
		return
	}
	if isAlone {
		w.runUntil(w.now+int64(2*time.Second+2*w.longestLease()+w.checks.noticedWithin()), nil)
		if w.failure == nil && (leader.state != election.Lead || leader.epoch != epoch) && !w.isByReturn(w.now) {
			w.sayStatus()
			w.fail(24, "n%d does not lead in %v any more though it alone may lead", leader.number, epoch)
		}
		w.passCheck(heir)
	}
	limit := w.now + int64(7*time.Second+w.hookTimes.timeout+2*w.longestLease()+w.checks.noticedWithin())
	took := w.runUntil(limit, func() bool {
		return slices.ContainsFunc(w.machines, func(m *machine) bool { return m != leader && w.acts(m) && m.epoch.Compare(epoch) > 0 })
	})
	if w.failure == nil && !took {
		w.sayStatus()
		w.fail(24, "n%d leads on in %v though its check fails and others may lead", leader.number, epoch)
	}
}
