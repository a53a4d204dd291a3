package sim

import (
	"math/rand/v2"
	"time"

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
	switch e := e.(type) {
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
		if isCheck(e.Lane) { // nothing that a keeper leaves there matters to the next
			return noEffect
		}
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
func (c *cut) isPlace(k *keeper, next effectKind) bool {
	for len(c.at) > 0 && c.at[0] < c.effects {
		c.at = c.at[1:] // nothing could be killed there
	}
	return len(c.at) > 0 && c.at[0] == c.effects || c.aim != nil && c.aim.takes(k.last, next, k.host.frozen)
}

// aim spreads the kills of many schedules over all pairs of effects: of what seldom comes most is taken, and of the rest some.
type aim struct {
	rng    *rand.Rand
	played uint64 // schedules, with this one
	came   Pairs  // when a keeper could be killed
	cuts   Pairs
	isWild bool   // one effect in so many as wildly says is cut, whatever it is
	next   uint64 // so many effects from now there is another kill; 0: there is none
}

const wildly = 30

func newAim(seed uint64) *aim { return &aim{rng: rand.New(rand.NewPCG(seed, 0xc07))} }

// begin begins a schedule. A quarter of them are wild.
func (a *aim) begin() {
	a.played++
	a.isWild, a.next = a.rng.Uint64N(4) == 0, 0
}

// takes draws one of those times that a pair comes in a schedule, or most of one that seldom comes: what that leads to comes seldom,
// too, and would never come if all were taken. A pair that was taken in a sixteenth of the schedules is left alone for now, except while
// the agent is frozen: another keeper finds then what this one has done in the agent's stead. A third of the kills have another soon
// after: of the keeper that is back, mostly.
func (a *aim) takes(last, next effectKind, isFrozen bool) bool {
	a.came[last][next]++
	came, cuts := a.came[last][next], &a.cuts[last][next]
	often := a.rng.Uint64N(2+came/a.played) == 0
	if came < a.played/16 {
		often = a.rng.Uint64N(8) > 0
	}
	isDue := *cuts <= a.played/16 && often ||
		isFrozen && a.rng.Uint64N(8) == 0 || a.isWild && a.rng.Uint64N(wildly) == 0
	if a.next > 0 {
		a.next--
		isDue = isDue || a.next == 0
	}
	if isDue {
		*cuts++
		a.next = a.rng.Uint64N(3) / 2 * (1 + a.rng.Uint64N(16))
	}
	return isDue
}

// cutsBefore kills a keeper before it does something, if that is to be.
func (w *World) cutsBefore(k *keeper, next effectKind) bool {
	last, c := k.last, &w.keepers.cut
	w.pairs[last][next]++
	c.effects++
	if !w.raging || !c.isPlace(k, next) {
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
func (w *World) befalls(k *keeper, doing hooks.LaneEffect) {
	m := k.host
	k.isLate = false
	if !w.keepers.cut.more || !w.raging || !w.keepers.oneIn(m.befallenOnceIn(doing)) {
		return
	}
	k.isLate = true
	what := func() { w.killAgent(m) }
	start, _ := doing.(hooks.Start)
	switch {
	case start.Event.Kind == hooks.LoseLeadership && m.hooks.obstacle.atStart: // it is bounded, fails, and is tried again
	case m.frozen: // the next keeper tells the agent what this one has done in its stead
		what = func() { w.killKeeper(m, KeeperDies) }
	case w.resources.some && w.keepers.oneIn(4):
		what = func() { w.configureAnew(m) }
	case w.resources.some && w.keepers.oneIn(4):
		what = func() { w.takeOne(k) }
	case w.keepers.oneIn(2):
		what = func() { w.abdicate(m) }
	case w.keepers.oneIn(3):
		what = func() { w.freeze(m, Freeze, w.base.Lease+w.keepers.upTo(w.base.Lease)) }
	}
	w.after(w.moment(), what)
}

func (m *machine) befallenOnceIn(doing hooks.LaneEffect) int {
	isExchange := !m.hooks.acting.IsZero() && m.hooks.loseBegun != m.hooks.acting
	switch e := doing.(type) {
	case hooks.Prepare, hooks.BeginResource:
		return 12
	case hooks.Start:
		if m.hooks.obstacle.atStart {
			return 2
		}
		return 12
	case hooks.EndResource:
		if isExchange {
			return 3
		}
	case hooks.Note:
		switch {
		case e.Page.Done != nil && m.frozen:
			return 2
		case e.IsBegin && isExchange:
			return 3
		}
	}
	return 60
}

// takeOne takes something for good that a keeper keeps.
func (w *World) takeOne(k *keeper) {
	for _, t := range k.tenants {
		if !k.isOver && !k.host.suspended && t.isKept && t.isHere {
			w.fired(ResourceLost)
			w.vanish(k.host, t.thing, "is taken away")
			t.plan++
			w.failed(k, t, t.plan)
			return
		}
	}
}

// looking is what a thread takes to see whether a command can be run. Before a become hook it may be long: the file system may
// be slow, and what happens meanwhile is seen before the hook starts.
func (w *World) looking(k *keeper, kind hooks.Kind) time.Duration {
	if w.keepers.cut.more && kind == hooks.BecomeLeader && w.keepers.oneIn(4) {
		return w.keepers.upTo(2 * hooks.FirstPause)
	}
	return w.saying(k)
}

func (w *World) abdicate(m *machine) {
	if w.raging && m.runs() && !m.isBlocked() && m.node.Status().State == election.Lead {
		w.command(m, election.Command{Verb: election.Abdicate, Cause: election.AgentFrozen, Token: 6})
	}
}
