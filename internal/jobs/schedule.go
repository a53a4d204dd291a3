package jobs

import (
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"
	"time"

	cron "github.com/netresearch/go-cron"
)

// Schedule is when a job is due. The zero Schedule is never due; make one with
// ParseSchedule. It is immutable, and its slots are whole seconds.
//
//	30 2 * * *     minute, hour, day of month, month, day of week, as crontab(5)
//	@hourly        and @daily, @midnight, @weekly, @monthly, @yearly, @annually
//	@every 90s     counted from the Unix epoch, so alike on every host
//	~ 3 * * 1~5    ~ is a number that depends on the job's name alone
//
// The two day fields are ORed unless one begins with *, as in every crontab.
//
// Where the clock is set forward or back, crontab's rule holds. A job whose
// minute or hour begins with * (or is ~/step) runs whenever the clock shows a
// time that matches: never in a skipped hour, twice in a repeated one. Any other
// job runs when the clock first shows its time or a later one: once right after
// a skipped hour, once in a repeated one.
type Schedule struct {
	text  string
	zone  *time.Location
	every time.Duration      // of @every; else zero
	spec  *cron.SpecSchedule // over civil time, see zone.go
	fixed bool               // runs at fixed times, which are made up
}

var (
	// ErrNever is returned for a schedule without a single slot, like the
	// 30th of February.
	ErrNever = errors.New("no date matches, so the job would never run")
	// ErrZoned is returned for a schedule that names a time zone itself.
	ErrZoned = errors.New("a schedule has no TZ=; set the job's timezone")
	// ErrLocal is returned for the zone "Local": the leader moves between hosts.
	ErrLocal = errors.New(`the time zone "Local" is not the same on every host; name one, such as UTC or Europe/Berlin`)
)

// parser reads the five fields. Day of month and day of week are ORed: without
// DowOrDom this parser ANDs them. Forty years lie between two days of the 29th
// of February on one weekday where a century has no leap day.
var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom).
	WithMaxSearchYears(50)

// star marks a day field that does not restrict (go-cron's own bit). The parser
// sets it for * alone; crontab for */2 too.
const star = 1 << 63

// named are the words for expressions.
var named = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

const every = "@every"

// ParseSchedule reads a schedule for the job of this name, whose times are in
// zone; nil is UTC. The error says what was expected, without naming the job.
func ParseSchedule(text, job string, zone *time.Location) (Schedule, error) {
	s := Schedule{text: strings.Join(strings.Fields(text), " "), zone: zone}
	switch {
	case zone == nil:
		s.zone = time.UTC
	case zone == time.Local:
		return Schedule{}, ErrLocal
	}
	var err error
	if rest, ok := strings.CutPrefix(s.text, every); ok {
		s.every, err = parseEvery(strings.TrimSpace(rest))
	} else {
		s.spec, s.fixed, err = parseFields(s.text, job)
	}
	if err != nil {
		return Schedule{}, err
	}
	return s, nil
}

func parseEvery(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d%time.Second != 0 {
		return 0, fmt.Errorf("%s %s: expected whole seconds of at least 1s, such as 90s or 1h30m", every, text)
	}
	return d, nil
}

func parseFields(text, job string) (spec *cron.SpecSchedule, fixed bool, err error) {
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return nil, false, ErrZoned
	}
	if strings.HasPrefix(text, "@") {
		expression, ok := named[text]
		if !ok {
			return nil, false, fmt.Errorf("%s: expected @hourly, @daily, @weekly, @monthly, @yearly or %s with a time", text, every)
		}
		text = expression
	}
	words := strings.Fields(text)
	if len(words) != len(fields) {
		return nil, false, fmt.Errorf("expected 5 fields (minute, hour, day of month, month, day of week), found %d", len(words))
	}
	fixed = !follows(words[0]) && !follows(words[1])
	spec, err = parseWords(words, job)
	return spec, fixed, err
}

// follows reports whether a minute or hour field makes a job follow the clock.
func follows(field string) bool {
	return strings.ContainsAny(field[:1], "*?") || strings.HasPrefix(field, "~/")
}

func parseWords(words []string, job string) (*cron.SpecSchedule, error) {
	var err error
	plain := make([]string, len(words))
	for i, w := range words {
		if plain[i], err = settle(w, i, job); err != nil {
			return nil, err
		}
	}
	parsed, err := parser.Parse(strings.Join(plain, " "))
	if err != nil {
		return nil, inField(plain, err)
	}
	spec := parsed.(*cron.SpecSchedule) // no descriptor gets this far
	spec.Location = time.UTC
	if strings.ContainsAny(words[2][:1], "*?") {
		spec.Dom |= star
	}
	if strings.ContainsAny(words[4][:1], "*?") {
		spec.Dow |= star
	}
	if spec.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, ErrNever
	}
	return spec, nil
}

// foreign says what to write for a form that Quartz or Jenkins knows, which the library takes for an option that nobody can
// enable; "": it is none.
func foreign(word string) string {
	switch {
	case strings.ContainsAny(word, "#"):
		return "take the days 15-21, or such, and look at the weekday in the command"
	case strings.HasPrefix(strings.ToUpper(word), "H"):
		return "~ takes a time for each job, as in ~ 3 * * *"
	case isLast.MatchString(word):
		return "take all days that it may be, and look in the command"
	}
	return ""
}

// isLast is L, L-3, 5L, LW or 15W: days counted from the end of a month, or working days.
var isLast = regexp.MustCompile(`(?i)^([0-9]*L|L-[0-9]+|[0-9]+W|LW)$`)

// inField names the field that the library found wrong, which it does not say.
func inField(words []string, err error) error {
	for i, w := range words {
		alone := []string{"*", "*", "*", "*", "*"}
		alone[i] = w
		if _, bad := parser.Parse(strings.Join(alone, " ")); bad != nil {
			if does := foreign(w); does != "" {
				return fmt.Errorf("%s: %q is of another cron, and not known here: %s", fields[i].name, w, does)
			}
			return fmt.Errorf("%s: %w", fields[i].name, bad)
		}
	}
	return err
}

// String gives the text that was parsed, with single spaces.
func (s Schedule) String() string { return s.text }

// Zone is where the job's clock hangs.
func (s Schedule) Zone() *time.Location {
	if s.zone == nil {
		return time.UTC
	}
	return s.zone
}

// Hash tells schedules apart; it is never zero. Slots that passed under another
// schedule are not missed ones of this.
func (s Schedule) Hash() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.text + "\x00" + s.Zone().String())) // cannot fail
	return h.Sum64() | 1
}

// Rules tells apart what hosts take the zone's clock for: their files may be of other
// years, and then one schedule has other slots on each. Zero where no clock matters.
// It is no part of Hash: new rules make no new schedule.
func (s Schedule) Rules() uint64 {
	if s.every > 0 || s.Zone() == time.UTC {
		return 0
	}
	return rules(s.zone)
}

// Next is the first slot after t, in UTC, or zero if there is none within 50
// years.
func (s Schedule) Next(t time.Time) time.Time {
	switch {
	case s.every > 0:
		step := int64(s.every / time.Second)
		return time.Unix((floorDiv(t.Unix(), step)+1)*step, 0).UTC()
	case s.spec == nil:
		return time.Time{}
	case s.fixed:
		return s.nextFixed(t)
	}
	return s.nextFollowing(t)
}

// nextFixed is the first instant that a clock first shows a time of the
// schedule, or passes it.
func (s Schedule) nextFixed(t time.Time) time.Time {
	c := s.spec.Next(shown(t, s.zone))
	if c.IsZero() {
		return time.Time{}
	}
	return reached(c, s.zone)
}

// nextFollowing is the next instant at which the clock shows a time of the
// schedule, be it for the second time.
func (s Schedule) nextFollowing(t time.Time) time.Time {
	c := civil(t, s.zone)
	for limit := t.AddDate(51, 0, 0); t.Before(limit); {
		_, end, offset := period(t, s.zone)
		next := s.spec.Next(c)
		if next.IsZero() {
			return time.Time{}
		}
		if at := instant(next, offset); end.IsZero() || at.Before(end) {
			return at
		}
		t, c = end, civil(end, s.zone).Add(-time.Nanosecond) // the end itself may match
	}
	return time.Time{}
}

// Last is the latest slot after after and not after until. It halves the time
// between, so an outage of a year costs no more than some tens of Next.
func (s Schedule) Last(after, until time.Time) (slot time.Time, ok bool) {
	slot = s.Next(after)
	if slot.IsZero() || slot.After(until) {
		return time.Time{}, false
	}
	for none := until; ; { // slot is one; there is none after none
		next := s.Next(slot)
		if next.IsZero() || next.After(until) {
			return slot, true
		}
		middle := s.Next(next.Add(none.Sub(next) / 2))
		if middle.IsZero() || middle.After(until) {
			slot, none = next, next.Add(none.Sub(next)/2)
		} else {
			slot = middle
		}
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
