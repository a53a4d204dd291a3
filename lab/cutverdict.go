package lab

import "slices"

// What judge holds against leaders that were cut off: in each mode a promise of its own.

// checkLetsGo looks at the first that takes over from a leader that was cut off alone. With just one other nobody can
// tell which of the two is cut off.
func checkLetsGo(c *course) (breaches []breach) {
	for i, r := range c.records {
		if !r.what.isCut() || c.others(r) < 2 || c.anybodyElseAway(r) {
			continue
		}
		at := slices.IndexFunc(c.reigns, func(x reign) bool { return x.node == r.node && x.contains(r.at) })
		next := slices.IndexFunc(c.reigns, func(x reign) bool { return x.node != r.node && x.from > r.at })
		back, isBack := c.next(i, r.node, plugged)
		if at < 0 || next < 0 || isBack && back.at < c.reigns[next].from {
			continue
		}
		if old, heir := c.reigns[at], c.reigns[next]; old.to > heir.from {
			breaches = append(breaches, breachf(heir.from, "%s became leader of epoch %d before %s, cut off, had let go of epoch %d",
				heir.node, heir.epoch.counter, old.node, old.epoch.counter))
		}
	}
	return breaches
}

func (c *course) anybodyElseAway(r record) bool {
	for node, windows := range c.away {
		if node != r.node && slices.ContainsFunc(windows, func(w window) bool { return w.contains(r.at) }) {
			return true
		}
	}
	return false
}

// checkMinority finds who began to lead while it was cut off. What it had won before the cut it may begin with.
func checkMinority(c *course) (breaches []breach) {
	for i, r := range c.records {
		if !r.what.isCut() {
			continue
		}
		off := window{r.at + c.allowance, never}
		if back, ok := c.next(i, r.node, plugged, killed, exited); ok {
			off.to = back.at
		}
		for _, x := range c.reigns {
			if x.node == r.node && off.contains(x.from) {
				breaches = append(breaches, breachf(x.from, "%s became leader of epoch %d while it was cut off", x.node, x.epoch.counter))
			}
		}
	}
	return breaches
}
