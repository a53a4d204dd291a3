package verdict

import (
	"slices"
	"time"
)

// Fault is a fault and what came of it.
type Fault struct {
	Record
	Led       bool   // the node was the leader
	Successor string // who led next before the next fault; "" if nobody else did
	Gap       time.Duration
	Breaches  []Breach // in the time up to the next fault
}

// judgeFaults looks at each fault up to the next one: who took over, how soon, and which breaches fall into that time.
func judgeFaults(c *course, breaches []Breach) (verdicts []Fault) {
	for i, r := range c.records {
		if !r.What.IsFault() {
			continue
		}
		f := Fault{Record: r}
		until := window{r.At, c.nextFault(i)}
		f.Led = slices.ContainsFunc(c.reigns, func(x reign) bool {
			return x.Node == r.Node && (x.contains(r.At) || x.to == r.At)
		})
		for _, x := range c.reigns {
			if x.Node != r.Node && until.contains(x.from) {
				f.Successor, f.Gap = x.Node, x.from-r.At
				break
			}
		}
		for _, b := range breaches {
			if until.contains(b.At) {
				f.Breaches = append(f.Breaches, b)
			}
		}
		verdicts = append(verdicts, f)
	}
	return verdicts
}

func (c *course) nextFault(i int) time.Duration {
	for _, r := range c.records[i+1:] {
		if r.What.IsFault() {
			return r.At
		}
	}
	return never
}

// Outcome is the fault's result in words.
func (f Fault) Outcome() string {
	switch {
	case len(f.Breaches) > 0:
		return f.Breaches[0].Text
	case !f.Led:
		return "did not lead, the leader stayed"
	case f.Successor == "":
		return "nobody else took over"
	}
	return f.Successor + " led " + Span(f.Gap) + " later"
}
