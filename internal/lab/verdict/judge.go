// Package verdict says whether a cluster kept its promises (docs/hooks.md), from what its hooks wrote and what was done to
// it. It is a value: records in, breaches out.
package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Judge holds records against what the agents promise. A leadership lasts from the begin of the become hook to the end of
// the lose hook, or the death of the agent.
//
// In both modes:
//
//  1. Hooks alternate. On each node they form (become lose)*, one at a time and each to its end. The lose hook of a node
//     that was killed as the leader is run by its keeper, with the cause agent-died, or else in its next life, with the
//     cause unclean-restart, before anything else. It runs once more only if the keeper says that it failed or was cut. A
//     become hook that was killed at once may have written nothing.
//  2. Epochs rise, none is used twice, and each has one owner.
//  3. One leader at a time. After a kill, a stop or a hand-over, always. A frozen agent leaves its lose hook to its keeper:
//     while it is, and for a moment after, it may lead beside another one.
//  4. Who is cut off or wakes up too late steps down in time.
//  5. One leader in the end.
//
// In available mode a node that is cut off may lead beside another one until the network has healed, but a leader that
// is cut off alone has let go before another one takes over. Promises 2 and 3 count from the first agreement: before,
// agents that have not met yet are clusters of their own.
//
// In quorum mode nothing but frozen agents excuses two leaders, and who is cut off alone does not begin to lead.
func Judge(records []Record, r Rules) Verdict {
	c := newCourse(records, r)
	v := Verdict{Checks: append(c.checkPromisesOfHooks(), checkTimely(c))}
	switch {
	case r.Quorum:
		v.Checks = append(v.Checks, checkMinority(c))
	case r.ShortHooks:
		v.Checks = append(v.Checks, checkLetsGo(c))
	}
	aboutFaults := slices.Concat(v.Checks[2].Breaches, v.Checks[3].Breaches)
	if len(v.Checks) > 4 {
		aboutFaults = append(aboutFaults, v.Checks[4].Breaches...)
	}
	if r.OneInTheEnd {
		v.Checks = append(v.Checks, Check{Name: "one leader in the end", Breaches: checkEnd(c)})
	}
	v.Faults, v.Late = judgeFaults(c, aboutFaults), c.lateLetGo()
	return v
}

// JudgeHooks looks at promises 1 to 3 alone. Their order is that of the records: only what is printed needs their times.
func JudgeHooks(records []Record, r Rules) []Check {
	return newCourse(records, r).checkPromisesOfHooks()
}

func (c *course) checkPromisesOfHooks() []Check {
	return []Check{
		{Name: "hooks alternate on every node", Breaches: checkHooks(c)},
		{Name: "epochs rise", Breaches: checkEpochs(c)},
		{Name: "never two leaders at once", Breaches: checkOverlaps(c)},
	}
}

// Rules are what a verdict works with: the bounds, and what excuses two leaders.
type Rules struct {
	// Lease is how long a leader may act without acknowledgements.
	Lease time.Duration
	// Allowance is what a hook may take from its cause to its line, on a busy host.
	Allowance time.Duration
	// Heal is how long two parts of a network may take to find each other after the cable is back (protocol 2.5: 30 s).
	Heal time.Duration
	// Quorum: the agents run in quorum mode.
	Quorum bool
	// ShortHooks: a lose hook is shorter than the stop budget.
	ShortHooks bool
	// OneInTheEnd demands a leader in the end; a user who quits has not asked for one.
	OneInTheEnd bool
	// End is when the records were closed. The last record's time, if that is later.
	End time.Duration

	// Strict: nothing that befalls a node excuses two leaders, from the first record on; nor does its death excuse a hook
	// that comes late, or for a leadership that nobody has seen begin.
	Strict bool
	// MayOverlap: two may lead at the same time, in epochs of their own, whatever befalls them.
	MayOverlap bool
	// Guarded asks for more, of a run whose agents have all been stopped in the end: the death of an agent ends no
	// leadership, only its lose hook does, whoever runs it, and none is due in the end. A host that was frozen as a whole
	// is excepted.
	Guarded bool
	// Cut are the leaderships whose lose hook was ended since its time had ended, by the word of the keeper: a hook that
	// was killed cannot write so itself, nor, on a host so busy that its shell did not get to run, that it had begun.
	// Others lead then, and it runs again, unless this node leads again before, or its agent was told to stop: true says
	// that one of these was so. Nothing is asked of its end but that, and that only if Guarded.
	Cut map[Leadership]bool
	// Ended are the leaderships whose lose hook was ended, by the word of the keeper: its time had ended, however long that
	// was, or this node leads again. It cannot write so itself, and owes nothing until it runs again; true says as for Cut.
	// Nothing excuses another leader meanwhile.
	Ended map[Leadership]bool
	// Failed are the leaderships whose lose hook failed or was cut, however short its time was, by the word of the keeper:
	// it runs again, though it may have written its last line.
	Failed map[Leadership]bool
	// Asked are the leaderships whose lose hook was started while the agent that led was alive, by the word of the keeper.
	// If it is killed then, the first line may come after the next start, with the cause that was asked for.
	Asked map[Leadership]bool
	// Unheld: what Guarded says of the death of an agent holds only where something acted on the leadership's strength. Of
	// any other leader the rest of available mode need not wait for the lose hook (protocol M26).
	Unheld bool
}

// isCut: whether the lose hook of that leadership has ended, and when, nobody can say.
func (r *Rules) isCut(l Leadership) bool {
	_, ok := r.Cut[l]
	return ok
}

// hasEnded: the keeper says so, and the hook could not.
func (r *Rules) hasEnded(l Leadership) bool {
	_, ok := r.Ended[l]
	return ok || r.isCut(l)
}

// Leadership names one by its node and its epoch's counter.
type Leadership struct {
	Node    string
	Counter uint64
}

// Breach is one place where a promise was broken.
type Breach struct {
	At   time.Duration
	Text string
}

func (b Breach) String() string { return "+" + Seconds(b.At) + ": " + b.Text }

func breachf(at time.Duration, format string, args ...any) Breach {
	return Breach{at, fmt.Sprintf(format, args...)}
}

// Check is one promise and its breaches.
type Check struct {
	Name     string
	Breaches []Breach
	Untested string // what did not happen, so that nothing is known of the promise; "": it did
}

// Held reports whether the promise was kept.
func (c Check) Held() bool { return len(c.Breaches) == 0 }

// Word is the verdict on one promise.
func (c Check) Word() string {
	switch {
	case !c.Held():
		return "BROKEN"
	case c.Untested != "":
		return "-"
	}
	return "held"
}

// Verdict is the outcome for each promise and for each fault.
type Verdict struct {
	Checks []Check
	Faults []Fault
	Late   string // a note on leaders that were killed; "": none
}

// Held reports whether every promise was kept.
func (v Verdict) Held() bool {
	return !slices.ContainsFunc(v.Checks, func(c Check) bool { return !c.Held() })
}

// checkEnd is promise 5.
func checkEnd(c *course) []Breach {
	var leaders []string
	for _, r := range c.reigns {
		if r.open {
			leaders = append(leaders, r.Node)
		}
	}
	switch len(leaders) {
	case 0:
		return []Breach{breachf(c.End, "nobody leads")}
	case 1:
		return nil
	}
	return []Breach{breachf(c.End, "%s lead", strings.Join(leaders, " and "))}
}
