package hooks

import "time"

// Patience says how long to wait before what has failed is tried again: First, and twice as long after each failure, Most in the end.
// What was well for Most begins with First again. What succeeds for a moment, again and again, is no reason to try it
// as often as that.
type Patience struct {
	First, Most time.Duration

	last time.Duration // zero: nothing has failed
	well time.Time     // since when it is well; zero: it is not
}

// Failed gives the wait before the next try.
func (p *Patience) Failed(now time.Time) time.Duration {
	if !p.well.IsZero() && now.Sub(p.well) >= p.Most {
		p.last = 0
	}
	p.well = time.Time{}
	p.last = min(max(2*p.last, p.First), p.Most)
	return p.last
}

// Succeeded: it is well from now on.
func (p *Patience) Succeeded(now time.Time) {
	if p.well.IsZero() {
		p.well = now
	}
}
