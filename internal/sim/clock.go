package sim

import "time"

// True time is nanoseconds since the start of a schedule. It is nobody's clock:
// every machine has one of its own, which started at another point and runs at
// another rate.

// epoch is what a machine's clock shows at its zero.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// clock is a machine's boot-time clock: it counts through suspend, and neither
// stops nor jumps, except on a virtual machine whose host stops it. Its rate is that
// of the hardware, as a time service slews it.
type clock struct {
	since   int64 // true time from which the rate holds
	shown   int64 // what it showed then, ns after epoch
	raw     int64 // rate error of the hardware, in millionths
	slew    int64 // what the time service adds, in millionths
	stopped bool
}

// ppm is the rate error of what it shows, in millionths.
func (c *clock) ppm() int64 { return c.raw + c.slew }

// at is what the clock shows at a true time, in ns after epoch.
func (c *clock) at(now int64) int64 {
	if c.stopped {
		return c.shown
	}
	d := now - c.since
	return c.shown + d + d/1_000_000*c.ppm() + d%1_000_000*c.ppm()/1_000_000
}

// time is at as the Node takes it.
func (c *clock) time(now int64) time.Time { return epoch.Add(time.Duration(c.at(now))) }

// when is the earliest true time at which the clock shows t or more, not before
// now.
func (c *clock) when(t time.Time, now int64) int64 {
	if t.Before(epoch) || c.stopped {
		return now
	}
	ahead := int64(t.Sub(epoch)) - c.at(now)
	if ahead <= 0 {
		return now
	}
	at := now + ahead - ahead/1_000_000*c.ppm()*1_000_000/(1_000_000+c.ppm())
	for c.at(at) < int64(t.Sub(epoch)) {
		at += max(1, (int64(t.Sub(epoch))-c.at(at))/2)
	}
	return at
}

// setRates changes the rates from now on.
func (c *clock) setRates(now, raw, slew int64) {
	c.since, c.shown, c.raw, c.slew = now, c.at(now), raw, slew
}

// stop lets the clock stand still, as on a virtual machine that is paused.
func (c *clock) stop(now int64) { c.shown, c.since, c.stopped = c.at(now), now, true }

// start lets it go on from where it stood.
func (c *clock) start(now int64) { c.since, c.stopped = now, false }
