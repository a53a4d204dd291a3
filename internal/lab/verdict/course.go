package verdict

import (
	"cmp"
	"slices"
	"time"
)

// course is the records as leaderships and times out of reach.
type course struct {
	Rules
	records []Record
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
	Leadership
	open bool // still on at the end
	held bool // something acted on its strength
}

const never = time.Duration(1<<63 - 1)

func newCourse(records []Record, r Rules) *course {
	c := &course{Rules: r, records: inOrder(records), away: map[string][]window{}, agreed: never}
	if len(c.records) > 0 {
		c.End = max(c.End, c.records[len(c.records)-1].At)
	}
	switch i := slices.IndexFunc(c.records, func(r Record) bool { return r.What == Agreed }); {
	case c.Quorum, c.Strict:
		c.agreed = 0 // strangers that have not met have no quorum
	case i >= 0:
		c.agreed = c.records[i].At
	}
	c.findReigns()
	if !c.Strict {
		c.findAbsences()
	}
	return c
}

// inOrder gives the records times that rise: who writes them may read the clock a moment before.
func inOrder(records []Record) []Record {
	records = slices.Clone(records)
	last := time.Duration(-1)
	for i := range records {
		last = max(records[i].At, last+1)
		records[i].At = last
	}
	return records
}

func (c *course) findReigns() {
	present := map[string]int{} // node → index of its open reign
	dead := map[string]bool{}
	for _, r := range c.records {
		switch r.What {
		case Started:
			dead[r.Node] = false
		case Became:
			// The line of an agent that has just been killed is late, and nobody's leadership.
			if dead[r.Node] && !c.Strict {
				continue
			}
			c.endReign(present, r)
			present[r.Node] = len(c.reigns)
			c.reigns = append(c.reigns, reign{window{r.At, c.End + 1}, Leadership{r.Node, r.Epoch.Counter}, true, false})
		case Acting, Released:
			if i, ok := present[r.Node]; ok {
				c.reigns[i].held = r.What == Acting
			}
		case Lost, Frozen, KeeperGone: // docs/hooks.md: "both die, or the host loses its power | the next start"
			c.endReign(present, r)
		case Killed, Exited:
			if i, ok := present[r.Node]; !c.Guarded || ok && c.Unheld && !c.reigns[i].held {
				c.endReign(present, r)
			}
			dead[r.Node] = !c.Guarded
		}
	}
}

func (c *course) endReign(present map[string]int, r Record) {
	if i, ok := present[r.Node]; ok {
		c.reigns[i].to, c.reigns[i].open = r.At, false
		delete(present, r.Node)
	}
}

// findAbsences notes when a node was out of reach, with the time that it gets to find out that it was.
func (c *course) findAbsences() {
	for i, r := range c.records {
		switch r.What {
		case Paused:
			grace := c.Allowance
			if !c.Quorum {
				grace += c.Lease // it may still have to hear of the other
			}
			c.absent(i, grace, Continued, Killed, Exited)
		case Cut, Dropped:
			if !c.Quorum {
				c.absent(i, c.Heal, Plugged, Killed, Exited)
			}
		}
	}
}

// absent notes that the node of record i is away until one of the given kinds of record comes, and then some.
func (c *course) absent(i int, grace time.Duration, until ...What) {
	node, w := c.records[i].Node, window{c.records[i].At, never}
	if back, ok := c.next(i, node, until...); ok {
		w.to = back.At + grace
	}
	c.away[node] = append(c.away[node], w)
}

// next is the first record of node and one of the given kinds after record i.
func (c *course) next(i int, node string, kinds ...What) (Record, bool) {
	for _, r := range c.records[i+1:] {
		if r.Node == node && slices.Contains(kinds, r.What) {
			return r, true
		}
	}
	return Record{}, false
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
func checkEpochs(c *course) (breaches []Breach) {
	var highest Record
	last := map[string]uint64{} // node → counter of its last leadership, also of one whose become hook wrote nothing
	used := map[Epoch]bool{}
	owners := map[string]string{} // epoch's owner → node
	for _, r := range c.records {
		if r.What == Losing {
			last[r.Node] = max(last[r.Node], r.Epoch.Counter)
		}
		if r.What != Became {
			continue
		}
		owner, known := owners[r.Epoch.Owner]
		switch {
		case used[r.Epoch]:
			breaches = append(breaches, breachf(r.At, "%s became leader of epoch %d a second time", r.Node, r.Epoch.Counter))
		case known && owner != r.Node:
			breaches = append(breaches, breachf(r.At, "%s became leader of epoch %d, whose owner %s is %s", r.Node, r.Epoch.Counter, r.Epoch.Owner, owner))
		case r.Epoch.Counter <= last[r.Node]:
			breaches = append(breaches, breachf(r.At, "%s became leader of epoch %d after its epoch %d", r.Node, r.Epoch.Counter, last[r.Node]))
		case r.Epoch.Compare(highest.Epoch) <= 0 && r.At > c.agreed && !c.MayOverlap && !c.anybodyAway(r.At):
			breaches = append(breaches, breachf(r.At, "%s became leader of epoch %d after epoch %d of %s",
				r.Node, r.Epoch.Counter, highest.Epoch.Counter, highest.Node))
		}
		used[r.Epoch], last[r.Node], owners[r.Epoch.Owner] = true, max(last[r.Node], r.Epoch.Counter), r.Node
		if r.Epoch.Compare(highest.Epoch) > 0 {
			highest = r
		}
	}
	return breaches
}

// checkOverlaps is promise 3, for each pair of leaderships.
func checkOverlaps(c *course) (breaches []Breach) {
	if c.MayOverlap {
		return nil
	}
	for i, a := range c.reigns {
		if c.isCut(a.Leadership) {
			continue // nobody can say when it ended
		}
		for _, b := range c.reigns[i+1:] {
			if a.Node == b.Node {
				continue
			}
			both := window{max(a.from, b.from, c.agreed), min(a.to, b.to)}
			for _, w := range without(both, slices.Concat(c.away[a.Node], c.away[b.Node])) {
				breaches = append(breaches, breachf(w.from, "%s (epoch %d) and %s (epoch %d) both led for %s",
					a.Node, a.Counter, b.Node, b.Counter, Span(w.to-w.from)))
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
