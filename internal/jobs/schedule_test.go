package jobs

import (
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests need every zone; the binary embeds them itself

	"pgregory.net/rapid"
)

func zoneOf(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func scheduleOf(t *testing.T, text, zone string) Schedule {
	t.Helper()
	s, err := ParseSchedule(text, "backup", zoneOf(t, zone))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return s
}

// slotsOn is every slot of one civil day, as the zone's clock shows them.
func slotsOn(t *testing.T, s Schedule, day string) string {
	t.Helper()
	from, err := time.ParseInLocation(time.DateOnly, day, s.Zone())
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for at := from.Add(-time.Second); ; {
		at = s.Next(at)
		if at.In(s.Zone()).Format(time.DateOnly) != day {
			return strings.Join(shown, " ")
		}
		shown = append(shown, at.In(s.Zone()).Format("15:04 -0700"))
	}
}

// The cases on which four libraries were measured: what a clock that is set
// forward or back does to a schedule.
func TestClockChanges(t *testing.T) {
	const ny, santiago, cairo, howe = "America/New_York", "America/Santiago", "Africa/Cairo", "Australia/Lord_Howe"
	for _, c := range []struct{ zone, day, schedule, want string }{
		{ny, "2026-03-08", "30 2 * * *", "03:00 -0400"},
		{ny, "2026-03-08", "0,30 2 * * *", "03:00 -0400"},
		{ny, "2026-03-08", "0 2,3 * * *", "03:00 -0400"},
		{ny, "2026-03-08", "30 1,2,3 * * *", "01:30 -0500 03:00 -0400 03:30 -0400"},
		{ny, "2026-03-08", "*/30 2 * * *", ""},
		{ny, "2026-03-08", "0 */2 * * *", "00:00 -0500 04:00 -0400 06:00 -0400 08:00 -0400 10:00 -0400 12:00 -0400 14:00 -0400 16:00 -0400 18:00 -0400 20:00 -0400 22:00 -0400"},
		{ny, "2026-11-01", "30 1 * * *", "01:30 -0400"},
		{ny, "2026-11-01", "0,30 1 * * *", "01:00 -0400 01:30 -0400"},
		{ny, "2026-11-01", "*/30 1 * * *", "01:00 -0400 01:30 -0400 01:00 -0500 01:30 -0500"},
		{ny, "2026-11-01", "~/20 1 * * *", "01:14 -0400 01:34 -0400 01:54 -0400 01:14 -0500 01:34 -0500 01:54 -0500"},
		{ny, "2026-11-01", "30 0-2 * * *", "00:30 -0400 01:30 -0400 02:30 -0500"},
		{ny, "2026-11-01", "0 2 * * *", "02:00 -0500"},
		{santiago, "2026-09-06", "0 0 * * *", "01:00 -0300"},
		{santiago, "2026-09-06", "@daily", "01:00 -0300"},
		{cairo, "2026-04-24", "0 0 * * *", "01:00 +0300"},
		{cairo, "2026-04-24", "30 0,1 * * *", "01:00 +0300 01:30 +0300"},
		{howe, "2026-10-04", "15 2 * * *", "02:30 +1100"},
		{howe, "2026-10-04", "45 2 * * *", "02:45 +1100"},
		{howe, "2026-04-05", "45 1 * * *", "01:45 +1100"},
		{howe, "2026-04-05", "*/15 1 * * *", "01:00 +1100 01:15 +1100 01:30 +1100 01:45 +1100 01:30 +1030 01:45 +1030"},
		{"Antarctica/Troll", "2026-03-29", "0 2 * * *", "03:00 +0200"},
		{"Pacific/Apia", "2011-12-31", "30 2 * * *", "00:00 +1400 02:30 +1400"}, // the 30th was left out
		{"Europe/Berlin", "2026-10-25", "30 2 * * *", "02:30 +0200"},
		{"UTC", "2026-03-29", "30 2 * * *", "02:30 +0000"},
	} {
		if got := slotsOn(t, scheduleOf(t, c.schedule, c.zone), c.day); got != c.want {
			t.Errorf("%s, %s, %q:\n got %s\nwant %s", c.zone, c.day, c.schedule, got, c.want)
		}
	}
	for day, want := range map[string]int{"2026-03-08": 23, "2026-11-01": 25, "2026-07-01": 24} {
		for _, hourly := range []string{"0 * * * *", "@hourly", "@every 1h"} {
			if got := len(strings.Fields(slotsOn(t, scheduleOf(t, hourly, ny), day))) / 2; got != want {
				t.Errorf("%s on %s: %d slots, want %d", hourly, day, got, want)
			}
		}
	}
}

func TestDayFieldsAreORed(t *testing.T) {
	for schedule, want := range map[string]string{ // days of June 2026, which begins on a Monday
		"0 0 10 * 1":         "1 8 10 15 22 29",
		"0 0 10 6 *":         "10",
		"0 0 * * 1":          "1 8 15 22 29",
		"0 0 * * 0":          "7 14 21 28",
		"0 0 * * 7":          "7 14 21 28",
		"0 0 * * sun":        "7 14 21 28",
		"0 0 * * 5-7":        "5 6 7 12 13 14 19 20 21 26 27 28",
		"0 0 */10 * 1":       "1", // begins with *, so both must match
		"0 0 1-10 * */2":     "2 4 6 7 9",
		"0 0 1-30/10 * 1":    "1 8 11 15 21 22 29",
		"0 0 28-2 * *":       "1 2 28 29 30",
		"0 0 ? * wed":        "3 10 17 24",
		"0 0 31 * *":         "",
		"0 0 1,15 jun-jul ?": "1 15",
	} {
		s := scheduleOf(t, schedule, "UTC")
		var days []string
		for at := s.Next(time.Date(2026, 5, 31, 23, 59, 59, 0, time.UTC)); at.Month() == time.June && at.Year() == 2026; at = s.Next(at) {
			days = append(days, at.Format("2"))
		}
		if got := strings.Join(days, " "); got != want {
			t.Errorf("%q runs on %q, want %q", schedule, got, want)
		}
	}
}

func TestEveryCountsFromTheEpoch(t *testing.T) {
	for text, step := range map[string]int64{"@every 1s": 1, "@every 90s": 90, "@every 1h30m": 5400, "@every 7h": 25200} {
		s := scheduleOf(t, text, "America/New_York")
		at := time.Date(2026, 11, 1, 3, 0, 0, 1, time.UTC)
		for range 50 {
			next := s.Next(at)
			if next.Unix()%step != 0 || !next.After(at) || next.Unix()-at.Unix() > step {
				t.Fatalf("%s: after %v comes %v", text, at, next)
			}
			at = next
		}
	}
}

// An offset is part of what users rely on: it never changes.
func TestSpreadIsStable(t *testing.T) {
	at := func(text, job string) string {
		s, err := ParseSchedule(text, job, nil)
		if err != nil {
			t.Fatal(err)
		}
		var slots []string
		for slot := s.Next(time.Date(2025, 12, 31, 23, 59, 59, 0, time.UTC)); len(slots) < 3; slot = s.Next(slot) {
			slots = append(slots, slot.Format("01-02T15:04"))
		}
		return strings.Join(slots, " ")
	}
	for _, c := range []struct{ text, job, want string }{
		{"~ ~ * * *", "backup", "01-01T08:34 01-02T08:34 01-03T08:34"},
		{"~ ~ * * *", "report", "01-01T07:31 01-02T07:31 01-03T07:31"},
		{"~ 3 * * *", "backup", "01-01T03:34 01-02T03:34 01-03T03:34"},
		{"~/20 * * * *", "backup", "01-01T00:14 01-01T00:34 01-01T00:54"},
		{"10~14 0~3 ~ * *", "backup", "01-28T00:14 02-28T00:14 03-28T00:14"},
		{"0 0 * * ~", "backup", "01-01T00:00 01-08T00:00 01-15T00:00"},
	} {
		if got := at(c.text, c.job); got != c.want {
			t.Errorf("{%q, %q, %q},", c.text, c.job, got)
		}
	}
}

func TestSpreadStaysInItsBoundsAndSpreads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		field := rapid.IntRange(0, len(fields)-1).Draw(t, "field")
		f := fields[field]
		low := rapid.IntRange(f.low, f.high-1).Draw(t, "low")
		high := rapid.IntRange(low+1, f.high).Draw(t, "high")
		job := rapid.StringMatching(`[a-z0-9.-]{1,12}`).Draw(t, "job")
		if v := low + offset(job, field, high-low+1); v < low || v > high {
			t.Fatalf("%s chooses %d of %d to %d", job, v, low, high)
		}
	})
	minutes := make(map[int]bool)
	for i := range 600 {
		minutes[offset("job"+string(rune('a'+i%26))+string(rune('a'+i/26)), 0, 60)] = true
	}
	if len(minutes) < 55 {
		t.Errorf("600 jobs share %d minutes", len(minutes))
	}
}

func TestBadSchedules(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "expected 5 fields",
		"* * * *":                               "expected 5 fields",
		"* * * * * *":                           "expected 5 fields",
		"60 * * * *":                            "above maximum (59)",
		"* 24 * * *":                            "above maximum (23)",
		"0 0 0 * *":                             "below minimum (1)",
		"0 0 32 * *":                            "above maximum (31)",
		"0 0 * 13 *":                            "above maximum (12)",
		"0 0 * * 8":                             "above maximum (7)",
		"0 0 30 2 *":                            "would never run",
		"0 0 31 4,6,9,11 *":                     "would never run",
		"*/0 * * * *":                           "positive number",
		"*/70 * * * *":                          "must be less than range size",
		"*5 * * * *":                            "expected nothing or a step",
		"*-5 * * * *":                           "expected nothing or a step",
		"1,,2 * * * *":                          "nothing between commas",
		", * * * *":                             "nothing between commas",
		"x * * * *":                             "failed to parse int",
		"-1 * * * *":                            "failed to parse int",
		"1-2-3 * * * *":                         "too many hyphens",
		"1/2/3 * * * *":                         "too many slashes",
		"H * * * *":                             "is of another cron",
		"0 0 L * *":                             "is of another cron",
		"0 0 * * 5#2":                           "is of another cron",
		"~/70 * * * *":                          "expected a number from 1 to 59",
		"~/0 * * * *":                           "expected a number from 1",
		"~/x * * * *":                           "expected a number from 1",
		"30~10 * * * *":                         "within 0 to 59",
		"~60 * * * *":                           "within 0 to 59",
		"a~b * * * *":                           "expected a number before ~",
		"1~b * * * *":                           "expected a number after ~",
		"1~2~3 * * * *":                         "expected a number after ~",
		"@every":                                "expected whole seconds",
		"@every 0s":                             "expected whole seconds",
		"@every -1h":                            "expected whole seconds",
		"@every 1.5s":                           "expected whole seconds",
		"@every 100ms":                          "expected whole seconds",
		"@every 1d":                             "expected whole seconds",
		"@reboot":                               "expected @hourly",
		"@triggered":                            "expected @hourly",
		"TZ=UTC * * * * *":                      "set the job's timezone",
		"CRON_TZ=UTC @daily":                    "set the job's timezone",
		strings.Repeat("1,", 600) + "1 * * * *": "too long",
	} {
		if _, err := ParseSchedule(text, "backup", time.UTC); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := ParseSchedule("@daily", "backup", time.Local); !errors.Is(err, ErrLocal) {
		t.Errorf("the host's zone: %v", err)
	}
	if _, err := ParseSchedule("0 0 30 2 *", "backup", nil); !errors.Is(err, ErrNever) {
		t.Errorf("an impossible date: %v", err)
	}
}

func TestRareDatesAreFound(t *testing.T) {
	s := scheduleOf(t, "0 12 29 2 *", "UTC")
	if got := s.Next(time.Date(2097, 1, 1, 0, 0, 0, 0, time.UTC)); got.Year() != 2104 {
		t.Errorf("after 2097: %v", got)
	}
	if at := (Schedule{}).Next(time.Unix(0, 0)); !at.IsZero() {
		t.Errorf("the zero schedule is due at %v", at)
	}
}

func TestHashTellsSchedulesApart(t *testing.T) {
	seen := map[uint64]string{}
	for _, text := range []string{"0 1 * * *", "1 0 * * *", "@daily", "@every 1h"} {
		for _, zone := range []string{"UTC", "Europe/Berlin"} {
			h := scheduleOf(t, text, zone).Hash()
			if other := seen[h]; other != "" || h == 0 {
				t.Errorf("%s in %s: %x, as %s", text, zone, h, other)
			}
			seen[h] = text + " " + zone
		}
	}
	if scheduleOf(t, " 0  1 * * *", "UTC").Hash() != scheduleOf(t, "0 1 * * *", "UTC").Hash() {
		t.Error("spaces make another schedule")
	}
}

// Next is strictly later, and Last is what walking with Next finds.
func TestLastIsTheLastOfNext(t *testing.T) {
	zones := []string{"UTC", "America/New_York", "America/Santiago", "Africa/Cairo", "Australia/Lord_Howe", "Africa/Casablanca"}
	texts := []string{"30 2 * * *", "*/7 * * * *", "0 0 1 * 1", "@every 77m", "0 3 29 2 *", "5,50 1-3 * 3,10,11 *", "* 2 * * *"}
	var schedules []Schedule
	for _, zone := range zones {
		for _, text := range texts {
			schedules = append(schedules, scheduleOf(t, text, zone))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(schedules).Draw(t, "schedule")
		from := time.Unix(rapid.Int64Range(1.7e9, 1.9e9).Draw(t, "from"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns"))
		until := from.Add(time.Duration(rapid.Int64Range(0, int64(40*24*time.Hour)).Draw(t, "span")))
		var walked []time.Time
		for at := s.Next(from); !at.After(until); at = s.Next(at) {
			if len(walked) > 0 && !at.After(walked[len(walked)-1]) {
				t.Fatalf("%v: after %v comes %v", s, walked[len(walked)-1], at)
			}
			walked = append(walked, at)
		}
		last, ok := s.Last(from, until)
		if ok != (len(walked) > 0) || ok && !last.Equal(walked[len(walked)-1]) {
			t.Fatalf("%v in (%v, %v]: last %v %t, walked to %v", s, from, until, last, ok, walked[max(0, len(walked)-3):])
		}
	})
}

// Whatever a file says gives an error or slots that rise.
func FuzzParseSchedule(f *testing.F) {
	for _, text := range []string{"30 2 * * *", "~/7 1~3 */2 jan-mar 1,7", "@every 90s", "@daily", "0 0 29 2 ?", "5/10 22-2 28-2 * *"} {
		f.Add(text)
	}
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSchedule(text, "backup", zone)
		if err != nil {
			return
		}
		at := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
		for range 20 {
			next := s.Next(at)
			if next.IsZero() || !next.After(at) || next.Nanosecond() != 0 {
				t.Fatalf("%q: after %v comes %v", text, at, next)
			}
			if last, ok := s.Last(at, next); !ok || !last.Equal(next) {
				t.Fatalf("%q: the last slot until %v is %v, %t", text, next, last, ok)
			}
			at = next
		}
	})
}

// ruled is a zone by the name of Europe/Berlin with such rules, in the words of TZ,
// as a file of the system holds them.
func ruled(t *testing.T, rules string) *time.Location {
	t.Helper()
	head := "TZif2" + strings.Repeat("\x00", 15+4*4) + "\x00\x00\x00\x01" + "\x00\x00\x00\x04" // one type, four letters
	block := head + "\x00\x00\x0e\x10\x00\x00" + "CET\x00"
	zone, err := time.LoadLocationFromTZData("Europe/Berlin", []byte(block+block+"\n"+rules+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// A zone that is a rule and no list has the same slots, also at the end of a leap year.
func TestTheEndOfALeapYear(t *testing.T) {
	listed, ruled := zoneOf(t, "Europe/Berlin"), ruled(t, "CET-1CEST,M3.5.0,M10.5.0/3")
	for _, text := range []string{"30 2 * * *", "0 0 1 * *", "*/20 * * * *", "0 12 31 12 *"} {
		a, _ := ParseSchedule(text, "backup", listed)
		b, _ := ParseSchedule(text, "backup", ruled)
		for at := time.Date(2028, 12, 28, 0, 0, 0, 0, time.UTC); at.Year() < 2029 || at.YearDay() < 5; at = at.Add(50 * time.Minute) {
			if want, got := a.Next(at), b.Next(at); !got.Equal(want) {
				t.Fatalf("%s after %v: %v, want %v", text, at, got, want)
			}
		}
	}
}

// Hosts whose zones' clocks are set at other times are told apart, whatever words the
// rules are in; the schedule is the same.
func TestRulesOfAZone(t *testing.T) {
	parse := func(text string, zone *time.Location) Schedule {
		s, err := ParseSchedule(text, "backup", zone)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const daily = "30 2 * * *"
	here := parse(daily, zoneOf(t, "Europe/Berlin"))
	for rules, isSame := range map[string]bool{
		"CET-1CEST,M3.5.0,M10.5.0/3":  true,
		"AAA-1BBB,M3.5.0/2,M10.5.0/3": true,
		"CET-1CEST,M3.4.0,M10.5.0/3":  false,
		"CET-1":                       false,
		"CEST-2":                      false,
	} {
		there := parse(daily, ruled(t, rules))
		if there.Hash() != here.Hash() || (there.Rules() == here.Rules()) != isSame {
			t.Errorf("%s: rules %x and %x", rules, here.Rules(), there.Rules())
		}
	}
	if a, b := parse("@every 90s", here.Zone()), parse("@every 90s", ruled(t, "CET-1")); a.Rules() != b.Rules() {
		t.Error("a zone matters to @every")
	}
	if r := parse(daily, nil).Rules(); r != 0 {
		t.Errorf("UTC has rules %x", r)
	}
}

// Forms of Quartz and Jenkins are named as such, with what to write: there is no option that a user could enable.
func TestFormsOfOtherCrons(t *testing.T) {
	for text, want := range map[string]string{
		"0 0 L * *":   `day of month: "L" is of another cron, and not known here: take all days`,
		"0 0 15W * *": `day of month: "15W" is of another cron, and not known here: take all days`,
		"0 0 * * 5L":  `day of week: "5L" is of another cron, and not known here: take all days`,
		"0 0 * * 5#3": `day of week: "5#3" is of another cron, and not known here: take the days 15-21`,
		"H 0 * * *":   `minute: "H" is of another cron, and not known here: ~ takes a time for each job`,
	} {
		_, err := ParseSchedule(text, "x", nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "option") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
