package jobs

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A second implementation of crontab's rule, as slow as it is plain: it goes
// through a year minute by minute, looks at the clock, and keeps every minute
// that the clock has shown.

type wallMinute struct {
	minute, hour, day, month, weekday int
	ordinal                           int // minutes of the civil calendar, to see jumps
}

type realYear struct {
	start time.Time
	wall  []wallMinute // what the clock shows at each real minute
}

func yearOf(zone *time.Location, year int) realYear {
	start := time.Date(year-1, 12, 30, 0, 0, 0, 0, time.UTC)
	y := realYear{start: start}
	for at := start; at.Before(time.Date(year+1, 1, 3, 0, 0, 0, 0, time.UTC)); at = at.Add(time.Minute) {
		y.wall = append(y.wall, lookAtClock(at.In(zone)))
	}
	return y
}

func lookAtClock(local time.Time) wallMinute {
	year, month, day := local.Date()
	hour, minute, _ := local.Clock()
	days := int(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / 86400)
	return wallMinute{minute, hour, day, int(month), int(local.Weekday()), days*1440 + hour*60 + minute}
}

// slowField is the set of a field's values, read without the parser under test.
func slowField(text string, low, high int) map[int]bool {
	set := map[int]bool{}
	for _, part := range strings.Split(text, ",") {
		bounds, step := part, 1
		if before, after, ok := strings.Cut(part, "/"); ok {
			bounds = before
			step, _ = strconv.Atoi(after)
		}
		from, to := low, high
		if bounds != "*" {
			left, right, ranged := strings.Cut(bounds, "-")
			from, _ = strconv.Atoi(left)
			if to = from; ranged {
				to, _ = strconv.Atoi(right)
			}
		}
		for v := from; v <= to; v += step {
			set[v] = true
		}
	}
	return set
}

type slowCron struct {
	minute, hour, day, month, weekday map[int]bool
	either, follows                   bool
}

func slowCronOf(text string) slowCron {
	w := strings.Fields(text)
	c := slowCron{slowField(w[0], 0, 59), slowField(w[1], 0, 23), slowField(w[2], 1, 31), slowField(w[3], 1, 12), slowField(w[4], 0, 7), false, false}
	if c.weekday[7] {
		c.weekday[0] = true
	}
	c.either = w[2][0] != '*' && w[4][0] != '*'
	c.follows = w[0][0] == '*' || w[1][0] == '*'
	return c
}

func (c slowCron) matches(w wallMinute) bool {
	if !c.minute[w.minute] || !c.hour[w.hour] || !c.month[w.month] {
		return false
	}
	if c.either {
		return c.day[w.day] || c.weekday[w.weekday]
	}
	return c.day[w.day] && c.weekday[w.weekday]
}

// runs is every real minute of the year in which crond would start the job.
func (c slowCron) runs(y realYear, year int) []time.Time {
	var runs []time.Time
	newest := y.wall[0].ordinal - 1
	for i, w := range y.wall {
		due := c.follows && c.matches(w)
		for ; newest < w.ordinal; newest++ { // minutes shown or passed for the first time
			if !c.follows && c.matches(civilMinute(y, i, newest+1)) {
				due = true
			}
		}
		if at := y.start.Add(time.Duration(i) * time.Minute); due && at.Year() == year {
			runs = append(runs, at)
		}
	}
	return runs
}

// civilMinute is what a clock shows that has come to this ordinal.
func civilMinute(y realYear, i, ordinal int) wallMinute {
	if y.wall[i].ordinal == ordinal {
		return y.wall[i]
	}
	return lookAtClock(time.Unix(int64(ordinal)*60, 0).UTC())
}

var yearSpecs = []string{
	"30 2 * * *", "30 1 * * *", "0,30 1 * * *", "0 * * * *", "*/30 * * * *", "0 0 * * *", "0 0 1 * 1", "15 2 * * *",
	"*/7 1-3 * * *", "0 */2 * * *", "59 23 31 12 *", "0 0 29 2 *", "10-50/20 0-4 * 3,4,9,10,11 0", "5 4 */3 * 1-5", "45 1,2 1-7 * 6,7", "30 0 13 * 5",
}

var yearZones = []struct {
	name  string
	years []int
}{
	{"UTC", []int{2028}},
	{"America/New_York", []int{2026, 2027}},
	{"America/Santiago", []int{2026}},
	{"Africa/Cairo", []int{2026}},
	{"Australia/Lord_Howe", []int{2026}},
	{"Europe/Berlin", []int{2028}},
	{"Europe/Dublin", []int{2026}},     // its winter is the exception
	{"Africa/Casablanca", []int{2026}}, // back and forth around Ramadan
	{"Antarctica/Troll", []int{2026}},  // two hours at once
	{"Pacific/Apia", []int{2011}},      // left out a day
	{"Asia/Kathmandu", []int{2026}},    // 5:45 ahead
	{"America/Caracas", []int{2007}},   // set back by half an hour, once
}

// Whole years, in every zone that has bitten somebody: the schedule gives the
// minutes that the slow implementation gives, no more and no fewer. A year has every third schedule, and the next year those beside
// them; BULLY_SIM=long (make schedules) has each year and each schedule meet.
func TestWholeYears(t *testing.T) {
	every, turn := 3, 0
	if os.Getenv("BULLY_SIM") == "long" {
		every = 1
	}
	for _, z := range yearZones {
		zone := zoneOf(t, z.name)
		for _, year := range z.years {
			y := yearOf(zone, year)
			turn++
			for i, text := range yearSpecs {
				if (i+turn)%every != 0 {
					continue
				}
				s := scheduleOf(t, text, z.name)
				runs := slowCronOf(text).runs(y, year)
				if diff := firstDifference(slots(s, year), runs); diff != "" {
					t.Errorf("%s %d %q: %s", z.name, year, text, diff)
				}
				if diff := askAroundChanges(s, runs, year); diff != "" {
					t.Errorf("%s %d %q: %s", z.name, year, text, diff)
				}
			}
		}
	}
}

func slots(s Schedule, year int) []time.Time {
	var all []time.Time
	start := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
	for at := s.Next(start.Add(-time.Nanosecond)); at.Year() == year; at = s.Next(at) {
		all = append(all, at)
	}
	return all
}

// askAroundChanges asks what is next at any time of the days on which the clock
// is set, not only at slots.
func askAroundChanges(s Schedule, runs []time.Time, year int) string {
	change := time.Date(year, 1, 2, 0, 0, 0, 0, time.UTC)
	for {
		if _, change = change.In(s.Zone()).ZoneBounds(); change.IsZero() || change.Year() > year {
			return ""
		}
		for at := change.Add(-5 * time.Hour); at.Before(change.Add(27 * time.Hour)); at = at.Add(7*time.Minute + time.Second) {
			i, _ := slices.BinarySearchFunc(runs, at.Add(1), time.Time.Compare)
			if got := s.Next(at); i < len(runs) && !got.Equal(runs[i]) {
				return fmt.Sprintf("after %v comes %v, should be %v", at, got, runs[i])
			}
		}
	}
}

func firstDifference(fast, slow []time.Time) string {
	for i := range max(len(fast), len(slow)) {
		switch {
		case i >= len(fast):
			return fmt.Sprintf("misses %v (%d of %d)", slow[i], i, len(slow))
		case i >= len(slow):
			return fmt.Sprintf("invents %v (%d of %d)", fast[i], i, len(slow))
		case !fast[i].Equal(slow[i]):
			return fmt.Sprintf("slot %d is %v, should be %v", i, fast[i], slow[i])
		}
	}
	return ""
}

// The slow implementation knows the cases that were measured by hand.
func TestTheSlowImplementationIsRight(t *testing.T) {
	zone := zoneOf(t, "America/New_York")
	y := yearOf(zone, 2026)
	for _, c := range []struct {
		text string
		runs int
		has  time.Time
	}{
		{"30 2 * * *", 365, time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC)},
		{"30 1 * * *", 365, time.Date(2026, 11, 1, 5, 30, 0, 0, time.UTC)},
		{"0 * * * *", 8760, time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC)},
		{"*/30 2 * * *", 2 * 364, time.Date(2026, 3, 9, 6, 0, 0, 0, time.UTC)},
	} {
		runs := slowCronOf(c.text).runs(y, 2026)
		if len(runs) != c.runs || !slices.Contains(runs, c.has) {
			t.Errorf("%q: %d runs, want %d; has %v: %t", c.text, len(runs), c.runs, c.has, slices.Contains(runs, c.has))
		}
	}
}
