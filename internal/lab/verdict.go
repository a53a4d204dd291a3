package lab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// judge holds the records of a lab against what the agents promise (README, Hooks). A leadership lasts from the begin of
// the become hook to the end of the lose hook, or the death of the agent.
//
// In both modes:
//
//  1. Hooks alternate. On each node they form (become lose)*. The lose hook of a node that was killed as the leader is run
//     by its guard, with the cause agent-died, or else by its next life, with the cause unclean-restart. A lose hook
//     runs once more if it failed, or if agent and guard cannot know of each other that it need not (repeats).
//  2. Epochs rise, and none is used twice.
//  3. One leader at a time. After a kill, a stop or a hand-over, always. A frozen agent leaves its lose hook to its guard:
//     while it is, and for a moment after, it may lead beside another one.
//  4. Who is cut off or wakes up too late steps down in time.
//  5. One leader in the end.
//
// In available mode a node that is cut off may lead beside another one until the network has healed, but a leader that
// is cut off alone has let go before another one takes over. Promises 2 and 3 count from the first agreement: before,
// agents that have not met yet are clusters of their own.
//
// In quorum mode nothing but frozen agents excuses two leaders, and who is cut off alone does not begin to lead.
func judge(records []record, r rules) verdict {
	if len(records) > 0 {
		r.end = max(r.end, records[len(records)-1].at)
	}
	c := newCourse(records, r)
	v := verdict{checks: []check{
		{name: "hooks alternate on every node", breaches: checkHooks(c)},
		{name: "epochs rise", breaches: checkEpochs(c)},
		{name: "never two leaders at once", breaches: checkOverlaps(c)},
		checkTimely(c),
	}}
	switch {
	case r.quorum:
		v.checks = append(v.checks, checkMinority(c))
	case r.shortHooks:
		v.checks = append(v.checks, checkLetsGo(c))
	}
	aboutFaults := slices.Concat(v.checks[2].breaches, v.checks[3].breaches)
	if len(v.checks) > 4 {
		aboutFaults = append(aboutFaults, v.checks[4].breaches...)
	}
	if r.oneInTheEnd {
		v.checks = append(v.checks, check{name: "one leader in the end", breaches: checkEnd(c)})
	}
	v.faults, v.late = judgeFaults(c, aboutFaults), c.lateLetGo()
	return v
}

// rules are the bounds that a verdict works with.
type rules struct {
	// lease is how long a leader may act without acknowledgements.
	lease time.Duration
	// allowance is what a hook may take from its cause to its line in the FIFO, on a busy host.
	allowance time.Duration
	// heal is how long two parts of a network may take to find each other after the cable is back (protocol 2.5: 30 s).
	heal time.Duration
	// quorum: the agents run in quorum mode.
	quorum bool
	// shortHooks: a lose hook is shorter than the stop budget.
	shortHooks bool
	// oneInTheEnd demands a leader in the end; a user who quits has not asked for one.
	oneInTheEnd bool
	// end is when the records were closed. The last record's time, if that is later.
	end time.Duration
}

func (l *lab) rules() rules {
	return rules{lease: leases[l.Profile], allowance: 250 * time.Millisecond, heal: 30 * time.Second, // allowance: arbitrary
		quorum: l.isQuorum(), shortHooks: l.LoseHook < l.stopBudget()}
}

// breach is one place where a promise was broken.
type breach struct {
	at   time.Duration
	text string
}

func (b breach) String() string { return "+" + seconds(b.at) + ": " + b.text }

func breachf(at time.Duration, format string, args ...any) breach {
	return breach{at, fmt.Sprintf(format, args...)}
}

// check is one promise and its breaches.
type check struct {
	name     string
	breaches []breach
	untested string // what did not happen in this lab, so that nothing is known of the promise; "": it did
}

func (c check) held() bool { return len(c.breaches) == 0 }

// word is the verdict on one promise.
func (c check) word() string {
	switch {
	case !c.held():
		return "BROKEN"
	case c.untested != "":
		return "-"
	}
	return "held"
}

// verdict is the outcome for each promise and for each fault.
type verdict struct {
	checks []check
	faults []faultVerdict
	late   string // a note on leaders that were killed; "": none
}

// held reports whether every promise was kept.
func (v verdict) held() bool {
	return !slices.ContainsFunc(v.checks, func(c check) bool { return !c.held() })
}

// course is the records as leaderships and times out of reach.
type course struct {
	rules
	records []record
	reigns  []reign
	away    map[string][]window
	agreed  time.Duration // first agreement; the end of time if there was none
}

// window is a stretch of time, [from, to).
type window struct{ from, to time.Duration }

func (w window) contains(at time.Duration) bool { return w.from <= at && at < w.to }

// reign is one leadership as the hooks saw it: from the begin of the become hook to the end of the lose hook or the death
// of the agent.
type reign struct {
	window
	node  string
	epoch epoch
	open  bool // still on at the end
}

const never = time.Duration(1<<63 - 1)

func newCourse(records []record, r rules) *course {
	c := &course{rules: r, records: records, away: map[string][]window{}, agreed: never}
	if c.quorum {
		c.agreed = 0 // strangers that have not met have no quorum
	} else if i := slices.IndexFunc(records, func(r record) bool { return r.what == agreed }); i >= 0 {
		c.agreed = records[i].at
	}
	c.findReigns()
	c.findAbsences()
	return c
}

func (c *course) findReigns() {
	present := map[string]int{} // node → index of its open reign
	alive := map[string]bool{}
	for _, r := range c.records {
		switch r.what {
		case started:
			alive[r.node] = true
		case became:
			// The line of an agent that has just been killed is late, and nobody's leadership.
			if !alive[r.node] {
				continue
			}
			c.endReign(present, r)
			present[r.node] = len(c.reigns)
			c.reigns = append(c.reigns, reign{window{r.at, c.end + 1}, r.node, r.epoch, true})
		case lost:
			c.endReign(present, r)
		case killed, exited:
			c.endReign(present, r)
			alive[r.node] = false
		}
	}
}

func (c *course) endReign(present map[string]int, r record) {
	if i, ok := present[r.node]; ok {
		c.reigns[i].to, c.reigns[i].open = r.at, false
		delete(present, r.node)
	}
}

// findAbsences notes when a node was out of reach, with the time that it gets to find out that it was.
func (c *course) findAbsences() {
	for i, r := range c.records {
		switch r.what {
		case paused:
			grace := c.allowance
			if !c.quorum {
				grace += c.lease // it may still have to hear of the other
			}
			c.absent(i, grace, continued, killed, exited)
		case cut, dropped:
			if !c.quorum {
				c.absent(i, c.heal, plugged, killed, exited)
			}
		}
	}
}

// absent notes that the node of record i is away until one of the given kinds of record comes, and then some.
func (c *course) absent(i int, grace time.Duration, until ...what) {
	node, w := c.records[i].node, window{c.records[i].at, never}
	if back, ok := c.next(i, node, until...); ok {
		w.to = back.at + grace
	}
	c.away[node] = append(c.away[node], w)
}

// next is the first record of node and one of the given kinds after record i.
func (c *course) next(i int, node string, kinds ...what) (record, bool) {
	for _, r := range c.records[i+1:] {
		if r.node == node && slices.Contains(kinds, r.what) {
			return r, true
		}
	}
	return record{}, false
}

// anybodyAway reports whether some node was out of reach at a time.
func (c *course) anybodyAway(at time.Duration) bool {
	for _, windows := range c.away {
		if slices.ContainsFunc(windows, func(w window) bool { return w.contains(at) }) {
			return true
		}
	}
	return false
}

// checkEpochs is promise 2. While a node is away, either side may count for itself; on one node epochs rise always.
func checkEpochs(c *course) (breaches []breach) {
	var highest record
	last := map[string]epoch{}
	used := map[epoch]bool{}
	for _, r := range c.records {
		if r.what != became {
			continue
		}
		switch {
		case used[r.epoch]:
			breaches = append(breaches, breachf(r.at, "%s became leader of epoch %d a second time", r.node, r.epoch.counter))
		case r.epoch.counter <= last[r.node].counter:
			breaches = append(breaches, breachf(r.at, "%s became leader of epoch %d after its epoch %d", r.node, r.epoch.counter, last[r.node].counter))
		case r.epoch.compare(highest.epoch) <= 0 && r.at > c.agreed && !c.anybodyAway(r.at):
			breaches = append(breaches, breachf(r.at, "%s became leader of epoch %d after epoch %d of %s",
				r.node, r.epoch.counter, highest.epoch.counter, highest.node))
		}
		used[r.epoch], last[r.node] = true, r.epoch
		if r.epoch.compare(highest.epoch) > 0 {
			highest = r
		}
	}
	return breaches
}

// checkOverlaps is promise 3, for each pair of leaderships.
func checkOverlaps(c *course) (breaches []breach) {
	for i, a := range c.reigns {
		for _, b := range c.reigns[i+1:] {
			if a.node == b.node {
				continue
			}
			both := window{max(a.from, b.from, c.agreed), min(a.to, b.to)}
			for _, w := range without(both, slices.Concat(c.away[a.node], c.away[b.node])) {
				breaches = append(breaches, breachf(w.from, "%s (epoch %d) and %s (epoch %d) both led for %s",
					a.node, a.epoch.counter, b.node, b.epoch.counter, span(w.to-w.from)))
			}
		}
	}
	return breaches
}

// without is what remains of w outside all the excuses, in order.
func without(w window, excuses []window) (rest []window) {
	slices.SortFunc(excuses, func(a, b window) int { return cmp.Compare(a.from, b.from) })
	for _, e := range excuses {
		if e.to <= w.from || e.from >= w.to {
			continue
		}
		if e.from > w.from {
			rest = append(rest, window{w.from, e.from})
		}
		w.from = e.to
	}
	if w.from < w.to {
		rest = append(rest, w)
	}
	return rest
}

// checkTimely is promise 4: a leader that was cut off has lost its leadership a lease later, and one that slept for
// longer than a lease loses it when it wakes.
func checkTimely(c *course) check {
	out := check{name: "a leader out of reach steps down in time", untested: "no leader was out of reach for long enough"}
	for i, r := range c.records {
		if !r.what.isCut() && r.what != paused {
			continue
		}
		at := slices.IndexFunc(c.reigns, func(x reign) bool { return x.node == r.node && x.contains(r.at) })
		if at < 0 || c.others(r) == 0 && !c.quorum {
			continue
		}
		back, isBack := c.next(i, r.node, plugged, continued, killed, exited)
		if !c.reigns[at].open && (!isBack || c.reigns[at].to < back.at) {
			out.untested = "" // it stepped down while it was away
		}
		due, ok := c.dueToLose(i)
		if !ok {
			continue
		}
		out.untested = ""
		if c.reigns[at].to <= due {
			continue
		}
		out.breaches = append(out.breaches, breachf(due, "%s was still leader of epoch %d %s after: %s",
			r.node, c.reigns[at].epoch.counter, span(due-r.at), r.what))
	}
	return out
}

// dueToLose is by when the leader of record i, which put it out of reach, must have stepped down; false if it need not
// or not yet.
func (c *course) dueToLose(i int) (time.Duration, bool) {
	r := c.records[i]
	if r.what.isCut() {
		due := r.at + c.lease + c.allowance
		back, ok := c.next(i, r.node, plugged)
		return due, due <= c.end && !(ok && back.at < due)
	}
	back, ok := c.next(i, r.node, continued, killed, exited)
	due := back.at + c.allowance
	return due, ok && back.what == continued && back.at-r.at > c.lease && due <= c.end
}

// others counts whom r's node had to lead: an agent alone leads on (protocol 4.5).
func (c *course) others(r record) int {
	alive := map[string]bool{}
	for _, x := range c.records {
		if x.at >= r.at {
			break
		}
		switch x.what {
		case started:
			alive[x.node] = true
		case killed, exited:
			delete(alive, x.node)
		}
	}
	delete(alive, r.node)
	return len(alive)
}

// checkEnd is promise 5.
func checkEnd(c *course) []breach {
	var leaders []string
	for _, r := range c.reigns {
		if r.open {
			leaders = append(leaders, r.node)
		}
	}
	switch len(leaders) {
	case 0:
		return []breach{breachf(c.end, "nobody leads")}
	case 1:
		return nil
	}
	return []breach{breachf(c.end, "%s lead", strings.Join(leaders, " and "))}
}
