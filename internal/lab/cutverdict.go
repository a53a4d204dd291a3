package lab

import (
	"fmt"
	"slices"
)

// What judge holds against leaders that were cut off: in each mode a promise of its own.

// checkLetsGo looks at the first that takes over from a leader that was cut off alone. With just one other nobody can
// tell which of the two is cut off.
func checkLetsGo(c *course) check {
	out := check{name: "a leader that is cut off lets go before another takes over", untested: "none was cut off from two others"}
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
		out.untested = ""
		if old, heir := c.reigns[at], c.reigns[next]; old.to > heir.from {
			out.breaches = append(out.breaches, breachf(heir.from, "%s became leader of epoch %d before %s, cut off, had let go of epoch %d",
				heir.node, heir.epoch.counter, old.node, old.epoch.counter))
		}
	}
	return out
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
func checkMinority(c *course) check {
	out := check{name: "nobody begins to lead while it is cut off", untested: "nobody was"}
	for i, r := range c.records {
		if !r.what.isCut() {
			continue
		}
		out.untested = ""
		off := window{r.at + c.allowance, never}
		if back, ok := c.next(i, r.node, plugged, killed, exited); ok {
			off.to = back.at
		}
		for _, x := range c.reigns {
			if x.node == r.node && off.contains(x.from) {
				out.breaches = append(out.breaches, breachf(x.from, "%s became leader of epoch %d while it was cut off", x.node, x.epoch.counter))
			}
		}
	}
	return out
}

// lateLetGo says after how many kills the next leader had begun while the lose hook of the dead one was still to end. A
// killed agent leads no more, so that is no breach; but what its hook releases two hosts had.
func (c *course) lateLetGo() string {
	killedLeaders, late := 0, 0
	for i, r := range c.records {
		if r.what != killed || !slices.ContainsFunc(c.reigns, func(x reign) bool { return x.node == r.node && x.to == r.at }) {
			continue
		}
		killedLeaders++
		next := slices.IndexFunc(c.reigns, func(x reign) bool { return x.node != r.node && x.from > r.at })
		if end, ok := c.next(i, r.node, lost); next >= 0 && (!ok || end.at > c.reigns[next].from) {
			late++
		}
	}
	if late == 0 {
		return ""
	}
	return fmt.Sprintf("after %d of %d kills of a leader the next one began before the dead one's lose hook had ended", late, killedLeaders)
}
