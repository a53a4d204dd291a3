package verdict

import (
	"fmt"
	"slices"
	"time"
)

// What Judge holds against leaders out of reach: promise 4, and in each mode one of its own.

// checkTimely is promise 4: a leader that was cut off has lost its leadership a lease later, and one that slept for
// longer than a lease loses it when it wakes.
func checkTimely(c *course) Check {
	out := Check{Name: "a leader out of reach steps down in time", Untested: "no leader was out of reach for long enough"}
	for i, r := range c.records {
		if !r.What.IsCut() && r.What != Paused {
			continue
		}
		at := slices.IndexFunc(c.reigns, func(x reign) bool { return x.Node == r.Node && x.contains(r.At) })
		if at < 0 || c.others(r) == 0 && !c.Quorum {
			continue
		}
		back, isBack := c.next(i, r.Node, Plugged, Continued, Killed, Exited)
		if !c.reigns[at].open && (!isBack || c.reigns[at].to < back.At) {
			out.Untested = "" // it stepped down while it was away
		}
		due, ok := c.dueToLose(i)
		if !ok {
			continue
		}
		out.Untested = ""
		if c.reigns[at].to <= due {
			continue
		}
		out.Breaches = append(out.Breaches, breachf(due, "%s was still leader of epoch %d %s after: %s",
			r.Node, c.reigns[at].Counter, Span(due-r.At), r.What))
	}
	return out
}

// dueToLose is by when the leader of record i, which put it out of reach, must have stepped down; false if it need not
// or not yet.
func (c *course) dueToLose(i int) (time.Duration, bool) {
	r := c.records[i]
	if r.What.IsCut() {
		due := r.At + c.Lease + c.Allowance
		back, ok := c.next(i, r.Node, Plugged)
		return due, due <= c.End && !(ok && back.At < due)
	}
	back, ok := c.next(i, r.Node, Continued, Killed, Exited)
	due := back.At + c.Allowance
	return due, ok && back.What == Continued && back.At-r.At > c.Lease && due <= c.End
}

// others counts whom r's node had to lead: an agent alone leads on (protocol 4.5).
func (c *course) others(r Record) int {
	alive := map[string]bool{}
	for _, x := range c.records {
		if x.At >= r.At {
			break
		}
		switch x.What {
		case Started:
			alive[x.Node] = true
		case Killed, Exited:
			delete(alive, x.Node)
		}
	}
	delete(alive, r.Node)
	return len(alive)
}

// checkLetsGo looks at the first that takes over from a leader that was cut off alone. With just one other nobody can
// tell which of the two is cut off.
func checkLetsGo(c *course) Check {
	out := Check{Name: "a leader that is cut off lets go before another takes over", Untested: "none was cut off from two others"}
	for i, r := range c.records {
		if !r.What.IsCut() || c.others(r) < 2 || c.anybodyElseAway(r) {
			continue
		}
		at := slices.IndexFunc(c.reigns, func(x reign) bool { return x.Node == r.Node && x.contains(r.At) })
		next := slices.IndexFunc(c.reigns, func(x reign) bool { return x.Node != r.Node && x.from > r.At })
		back, isBack := c.next(i, r.Node, Plugged)
		if at < 0 || next < 0 || isBack && back.At < c.reigns[next].from {
			continue
		}
		out.Untested = ""
		if old, heir := c.reigns[at], c.reigns[next]; old.to > heir.from {
			out.Breaches = append(out.Breaches, breachf(heir.from, "%s became leader of epoch %d before %s, cut off, had let go of epoch %d",
				heir.Node, heir.Counter, old.Node, old.Counter))
		}
	}
	return out
}

func (c *course) anybodyElseAway(r Record) bool {
	for node, windows := range c.away {
		if node != r.Node && slices.ContainsFunc(windows, func(w window) bool { return w.contains(r.At) }) {
			return true
		}
	}
	return false
}

// checkMinority finds who began to lead while it was cut off. What it had won before the cut it may begin with.
func checkMinority(c *course) Check {
	out := Check{Name: "nobody begins to lead while it is cut off", Untested: "nobody was"}
	for i, r := range c.records {
		if !r.What.IsCut() {
			continue
		}
		out.Untested = ""
		off := window{r.At + c.Allowance, never}
		if back, ok := c.next(i, r.Node, Plugged, Killed, Exited); ok {
			off.to = back.At
		}
		for _, x := range c.reigns {
			if x.Node == r.Node && off.contains(x.from) {
				out.Breaches = append(out.Breaches, breachf(x.from, "%s became leader of epoch %d while it was cut off", x.Node, x.Counter))
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
		if r.What != Killed || !slices.ContainsFunc(c.reigns, func(x reign) bool { return x.Node == r.Node && x.to == r.At }) {
			continue
		}
		killedLeaders++
		next := slices.IndexFunc(c.reigns, func(x reign) bool { return x.Node != r.Node && x.from > r.At })
		if end, ok := c.next(i, r.Node, Lost); next >= 0 && (!ok || end.At > c.reigns[next].from) {
			late++
		}
	}
	if late == 0 {
		return ""
	}
	return fmt.Sprintf("after %d of %d kills of a leader the next one began before the dead one's lose hook had ended", late, killedLeaders)
}
