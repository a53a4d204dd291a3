package jobs

import (
	"fmt"
	"hash/fnv"
	"time"
)

// A civil time is what a wall clock shows, held in a time.Time in UTC so that
// arithmetic on it knows no zone.

// maxJump is more than any zone's clock was ever set forward or back at once:
// a day, where the date line was crossed.
const maxJump = 27 * time.Hour

// civil is what the clock of zone shows at t.
func civil(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// instant is when a clock that is offset ahead of UTC shows c.
func instant(c time.Time, offset int) time.Time {
	return c.Add(-time.Duration(offset) * time.Second)
}

// period is the time around t in which the zone's offset does not change:
// from start, which is included, to end. Either is zero where there is none.
func period(t time.Time, zone *time.Location) (start, end time.Time, offset int) {
	local := t.In(zone)
	start, end = local.ZoneBounds()
	_, offset = local.Zone()
	if !end.IsZero() && !end.After(t) {
		// Where a zone has a rule and no list, Go ends the period with the year, which it
		// takes for 365 days: on the last day of a leap year that has ended.
		end = end.Add(24 * time.Hour)
	}
	return start, end, offset
}

// shown is the latest civil time that the clock of zone has shown until t. In a
// repeated hour that is the end of the hour before it was repeated. One change
// is enough to look at: since 1970 no zone's clock was changed twice in six days.
func shown(t time.Time, zone *time.Location) time.Time {
	latest := civil(t, zone)
	if start, _, _ := period(t, zone); !start.IsZero() && t.Sub(start) < maxJump {
		if before := civil(start.Add(-time.Nanosecond), zone); before.After(latest) {
			return before
		}
	}
	return latest
}

// reached is the first instant at which the clock of zone shows c or a later
// time: the first of two in a repeated hour, the jump for a skipped one.
func reached(c time.Time, zone *time.Location) time.Time {
	at := c.Add(-maxJump)
	for {
		start, end, offset := period(at, zone)
		t := instant(c, offset)
		switch {
		case t.Before(start):
			return start
		case end.IsZero() || t.Before(end):
			return t
		}
		at = end
	}
}

// Within this time hosts compare what their zones' clocks do. It is the same whatever
// the host's own clock shows. Arbitrary: further ahead rules are guesses.
var (
	rulesFrom = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	rulesTo   = time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
)

// rules tells apart two sets of rules for one zone: when its clock was set, or will
// be, and to what. Files that say the same in other words are the same.
func rules(zone *time.Location) uint64 {
	h := fnv.New64a()
	last := -int(maxJump / time.Second)
	for at := rulesFrom; at.Before(rulesTo); {
		_, end, offset := period(at, zone)
		if offset != last {
			_, _ = fmt.Fprintln(h, at.Unix(), offset) // cannot fail
			last = offset
		}
		if end.IsZero() {
			break
		}
		at = end
	}
	return h.Sum64()
}
