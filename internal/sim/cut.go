package sim

import (
	"math/rand/v2"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
)

// effectKind is a kind of what Lanes want done, of what the world sees something.
type effectKind uint8

const (
	noEffect effectKind = iota // and before the first
	noteEffect
	orphansEffect
	prepareEffect
	startEffect
	beginEffect
	freezeEffect
	endEffect
	boundEffect
	tellEffect
	cleanedEffect
	overEffect

	effectKinds
)

var effectNames = [effectKinds]string{"begin", "note", "end-orphans", "prepare", "start", "have", "freeze", "yield", "bound", "tell", "cleaned", "over"}

func kindOf(e hooks.LaneEffect) effectKind {
	switch e.(type) {
	case hooks.Note:
		return noteEffect
	case hooks.EndOrphans:
		return orphansEffect
	case hooks.Prepare:
		return prepareEffect
	case hooks.Start:
		return startEffect
	case hooks.BeginResource:
		return beginEffect
	case hooks.Freeze:
		return freezeEffect
	case hooks.EndResource:
		return endEffect
	case hooks.Bound:
		return boundEffect
	case hooks.Tell:
		return tellEffect
	case hooks.Cleaned:
		return cleanedEffect
	case hooks.Over:
		return overEffect
	}
	return noEffect
}

// Pairs counts by an effect of Lanes and the next one.
type Pairs [effectKinds][effectKinds]uint64

// Add adds the counts of another schedule.
func (p *Pairs) Add(other *Pairs) {
	for i := range p {
		for j, n := range other[i] {
			p[i][j] += n
		}
	}
}

// cut says before which effects of a schedule's keepers one is killed. A place is the number of such an effect, by which the same
// schedule is cut there again.
type cut struct {
	effects uint64   // so far, of all keepers
	at      []uint64 // places to come, in order
	aim     *aim     // finds more of them; nil: nothing does
	more    bool     // of what leads to pairs that seldom come: see befalls and saying
}

// drawPlaces has a few keepers killed somewhere.
func (c *cut) drawPlaces(k *keepers) {
	place := uint64(0)
	for range 1 + k.rng.IntN(4) {
		place += 1 + k.rng.Uint64N(100)
		c.at = append(c.at, place)
	}
}

// isPlace reports whether a keeper is to be killed between two effects that come now.
func (c *cut) isPlace(last, next effectKind) bool {
	for len(c.at) > 0 && c.at[0] < c.effects {
		c.at = c.at[1:] // nothing could be killed there
	}
	return len(c.at) > 0 && c.at[0] == c.effects || c.aim != nil && c.aim.takes(last, next)
}

// aim spreads the kills of many schedules over all pairs of effects: what seldom comes is always taken, and the rest now and then.
type aim struct {
	rng    *rand.Rand
	played uint64 // schedules, with this one
	came   Pairs  // when a keeper could be killed
	cuts   Pairs
}

func newAim(seed uint64) *aim { return &aim{rng: rand.New(rand.NewPCG(seed, 0xc07))} }

// takes draws one of those times that a pair comes in a schedule, or every other time of one that seldom comes: what it leads to comes
// seldom, too, and would never come else. A pair that was taken in a sixteenth of the schedules is left alone for now.
func (a *aim) takes(last, next effectKind) bool {
	a.came[last][next]++
	came, cuts := a.came[last][next], &a.cuts[last][next]
	if *cuts > a.played/16 || a.rng.Uint64N(2+came/a.played) > 0 {
		return false
	}
	*cuts++
	return true
}

// cutsBefore kills a keeper before it does something, if that is to be.
func (w *World) cutsBefore(k *keeper, next effectKind) bool {
	last, c := k.last, &w.keepers.cut
	w.pairs[last][next]++
	c.effects++
	if !w.raging || !c.isPlace(last, next) {
		return false
	}
	w.keeperCuts[last][next]++
	w.cutAt = append(w.cutAt, c.effects)
	w.say(k.host, "cut between %s and %s, at %d", effectNames[last], effectNames[next], c.effects)
	w.killOne(k, KeeperCut)
	return true
}

// befalls has something befall an agent now and then, a moment after its keeper has done something. The keeper's threads say
// late what they have done, so that something comes before that.
func (w *World) befalls(k *keeper, doing effectKind) {
	m := k.host
	k.isLate = false
	if !w.keepers.cut.more || !w.raging || !w.keepers.oneIn(m.befallenOnceIn(doing)) {
		return
	}
	k.isLate = true
	what := func() { w.killAgent(m) }
	switch {
	case w.resources.some && w.keepers.oneIn(4):
		what = func() { w.configureAnew(m) }
	case w.keepers.oneIn(2):
		what = func() { w.abdicate(m) }
	case w.keepers.oneIn(3):
		what = func() { w.freeze(m, Freeze, w.base.Lease+w.keepers.upTo(w.base.Lease)) }
	}
	w.after(w.moment(), what)
}

func (m *machine) befallenOnceIn(doing effectKind) int {
	isExchange := !m.hooks.acting.IsZero() && m.hooks.loseBegun != m.hooks.acting
	switch {
	case doing == prepareEffect || doing == startEffect:
		return 12
	case doing == endEffect && isExchange:
		return 3
	}
	return 60
}

func (w *World) abdicate(m *machine) {
	if w.raging && m.runs() && !m.isBlocked() && m.node.Status().State == election.Lead {
		w.command(m, election.Command{Verb: election.Abdicate, Cause: election.AgentFrozen, Token: 6})
	}
}
