package lab

import (
	"slices"
	"time"
)

// faultVerdict is what came of one fault.
type faultVerdict struct {
	fault     record
	led       bool   // the node was the leader
	successor string // who led next before the next fault; "" if nobody else did
	gap       time.Duration
	breaches  []breach // in the time up to the next fault
}

// judgeFaults looks at each fault up to the next one: who took over, how soon, and which breaches fall into that time.
func judgeFaults(c *course, breaches []breach) (verdicts []faultVerdict) {
	for i, r := range c.records {
		if !r.what.isFault() {
			continue
		}
		f := faultVerdict{fault: r}
		until := window{r.at, c.nextFault(i)}
		f.led = slices.ContainsFunc(c.reigns, func(x reign) bool {
			return x.node == r.node && (x.contains(r.at) || x.to == r.at)
		})
		for _, x := range c.reigns {
			if x.node != r.node && until.contains(x.from) {
				f.successor, f.gap = x.node, x.from-r.at
				break
			}
		}
		for _, b := range breaches {
			if until.contains(b.at) {
				f.breaches = append(f.breaches, b)
			}
		}
		verdicts = append(verdicts, f)
	}
	return verdicts
}

func (c *course) nextFault(i int) time.Duration {
	for _, r := range c.records[i+1:] {
		if r.what.isFault() {
			return r.at
		}
	}
	return never
}

// outcome is the fault's result in words.
func (f faultVerdict) outcome() string {
	switch {
	case len(f.breaches) > 0:
		return f.breaches[0].text
	case !f.led:
		return "did not lead, the leader stayed"
	case f.successor == "":
		return "nobody else took over"
	}
	return f.successor + " led " + span(f.gap) + " later"
}
