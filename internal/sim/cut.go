package sim

import (
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
	times  int
	seldom int  // between those that seldom come one after the other, besides
	agent  bool // agents die when their become hook begins, now and then
}

// rarity is how often two effects come one after the other, in one step or in two, for each time
// that a keeper is killed between them. Measured so that each has its share (TestKeepersAreCutBetweenEffects).
var rarity = [effectKinds][effectKinds]int{
	noEffect:      {orphansEffect: 500},
	noteEffect:    {noteEffect: 300, orphansEffect: 70, prepareEffect: 200, startEffect: 30, boundEffect: 6, tellEffect: 250, cleanedEffect: 70, overEffect: 300},
	orphansEffect: {noteEffect: 500, prepareEffect: 15, tellEffect: 1, cleanedEffect: 3, overEffect: 2},
	prepareEffect: {noteEffect: 30, startEffect: 250, tellEffect: 1},
	startEffect:   {noteEffect: 300, boundEffect: 1, tellEffect: 1},
	boundEffect:   {noteEffect: 1, boundEffect: 6, tellEffect: 12},
	tellEffect:    {noteEffect: 200, prepareEffect: 70, boundEffect: 6, tellEffect: 1, overEffect: 1},
	cleanedEffect: {noteEffect: 70},
}

// cutsBefore kills a keeper before it does something, if that is to be.
func (w *World) cutsBefore(k *keeper, next effectKind) bool {
	last, c := k.last, &w.keepers.cut
	w.pairs[last][next]++
	often, left := max(rarity[last][next], 1), &c.times
	if often == 1 && c.seldom > 0 {
		left = &c.seldom
	}
	if !w.raging || *left == 0 || !w.keepers.oneIn(often) {
		return false
	}
	*left--
	w.keeperCuts[last][next]++
	w.say(k.host, "cut between %s and %s", effectNames[last], effectNames[next])
	w.killOne(k, KeeperCut)
	return true
}
