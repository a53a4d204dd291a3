package sim

import (
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

// cut is how often keepers of a schedule are killed between two effects, from now on.
type cut struct {
	times int
	more  bool // of what leads to pairs that seldom come: see befalls and saying
}

// rarity is how often two effects come one after the other, in one step or in two, for each time
// that a keeper is killed between them. Measured so that each has its share (TestKeepersAreCutBetweenEffects).
var rarity = [effectKinds][effectKinds]int{
	noEffect:      {orphansEffect: 750, tellEffect: 1},
	noteEffect:    {noteEffect: 380, orphansEffect: 90, prepareEffect: 120, startEffect: 50, beginEffect: 120, freezeEffect: 40, endEffect: 450, boundEffect: 4, tellEffect: 280, cleanedEffect: 16, overEffect: 300},
	orphansEffect: {noteEffect: 280, prepareEffect: 20, endEffect: 500, tellEffect: 1, cleanedEffect: 60, overEffect: 1},
	prepareEffect: {noteEffect: 50, startEffect: 320},
	startEffect:   {noteEffect: 380, tellEffect: 1},
	beginEffect:   {noteEffect: 16, prepareEffect: 90, beginEffect: 100, freezeEffect: 2, tellEffect: 16},
	freezeEffect:  {prepareEffect: 80, boundEffect: 8, tellEffect: 4},
	endEffect:     {noteEffect: 580, prepareEffect: 4, beginEffect: 4, endEffect: 200, tellEffect: 40, cleanedEffect: 8, overEffect: 140},
	boundEffect:   {noteEffect: 1, endEffect: 1, boundEffect: 4, tellEffect: 6},
	tellEffect:    {noteEffect: 250, prepareEffect: 50, freezeEffect: 40, boundEffect: 4, tellEffect: 4},
	cleanedEffect: {noteEffect: 90, orphansEffect: 2},
}

// cutsBefore kills a keeper before it does something, if that is to be.
func (w *World) cutsBefore(k *keeper, next effectKind) bool {
	last, c := k.last, &w.keepers.cut
	w.pairs[last][next]++
	often := rarity[last][next]
	if c.more && k.host.frozen {
		often /= 20 // another keeper finds then what this one has done in the agent's stead
	}
	if !w.raging || c.times == 0 || !w.keepers.oneIn(max(often, 1)) {
		return false
	}
	c.times--
	w.keeperCuts[last][next]++
	w.say(k.host, "cut between %s and %s", effectNames[last], effectNames[next])
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
