package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a container without time zones must know Europe/Berlin, too

	"github.com/bully-agent/bully-agent/internal/jobs"
)

// Job is one [[job]]: what package jobs decides about, and the command, which it need not know.
type Job struct {
	jobs.Job
	Command Command // not zero

	schedule, timezone string // as written
	item
}

const jobName = "job"

// job is the one that is being read.
func (c *Config) job() *Job { return &c.Jobs[len(c.Jobs)-1] }

// maxDeadline is arbitrary, and wide: a slot older than that interests nobody.
const maxDeadline = 366 * 24 * time.Hour

var jobKeys = []itemKey{
	{"name", `name = "backup"`, label(func(c *Config) *string { return &c.job().Name })},
	{"schedule", `schedule = "30 2 * * *"`, anyText(func(c *Config) *string { return &c.job().schedule }, "a schedule")},
	{"timezone", "", zone(func(c *Config) *string { return &c.job().timezone })},
	{"command", `command = ["/usr/local/bin/backup"]`, command(func(c *Config) *Command { return &c.job().Command })},
	{"timeout", "", wholeSeconds(func(c *Config) *time.Duration { return &c.job().Timeout }, jobs.MaxTimeout)},
	{"overlap", "", policy(func(c *Config) *jobs.Overlap { return &c.job().Overlap },
		jobs.OverlapForbid, jobs.OverlapQueue, jobs.OverlapReplace, jobs.OverlapAllow)},
	{"missed", "", policy(func(c *Config) *jobs.Missed { return &c.job().Missed },
		jobs.MissedSkip, jobs.MissedOnce, jobs.MissedAll)},
	{"starting_deadline", "", duration(func(c *Config) *time.Duration { return &c.job().StartingDeadline }, 0, maxDeadline)},
	{"retries", "", integer(func(c *Config) *int { return &c.job().Retries }, 0, jobs.MaxRetries)},
	{"retry_delay", "", duration(func(c *Config) *time.Duration { return &c.job().RetryDelay }, time.Millisecond, jobs.MaxDelay)},
	{"on_loss", "", policy(func(c *Config) *jobs.OnLoss { return &c.job().OnLoss }, jobs.OnLossKill, jobs.OnLossFinish)},
}

// applyJobs reads the [[job]] tables. Their schedules wait for derive, since the time zone may come from elsewhere.
func (l *loader) applyJobs(tables []arrayTable) {
	for i, t := range tables {
		if i == jobs.MaxJobs {
			l.report(wrong("it is the %dth job: expected at most %d", i+1, jobs.MaxJobs).at(t.place, jobName))
			return
		}
		l.config.Jobs = append(l.config.Jobs, Job{item: newItem(jobName, t)})
		j := l.config.job()
		l.applyItem(&j.item, jobKeys, t.entries)
		l.checkItemCommand(&j.item, j.Command)
		for i := range l.config.Jobs[:len(l.config.Jobs)-1] { // the ledger of runs tells them apart by the name
			twin := &l.config.Jobs[i]
			l.checkTwin(&j.item, j.Name, twin.Name == j.Name, &twin.item)
		}
	}
}

// deriveJobs makes the schedules, and lets package jobs judge the whole.
func (l *loader) deriveJobs() {
	for i := range l.config.Jobs {
		j := &l.config.Jobs[i]
		l.deriveSchedule(j)
		if j.failed["schedule"] || j.failed["timezone"] || j.failed["name"] {
			continue // Check would say again that there is none
		}
		for _, bad := range split(j.Check()) {
			key, _, _ := strings.Cut(bad.Error(), " ")
			key = strings.TrimSuffix(key, ":")
			l.reportItem(&j.item, key, wrong("%s", strings.TrimLeft(strings.TrimPrefix(bad.Error(), key), ": ")))
		}
	}
}

func split(err error) []error {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		return several.Unwrap()
	}
	return nil
}

func (l *loader) deriveSchedule(j *Job) {
	name := j.timezone
	if name == "" {
		name = l.config.Timezone
		j.failed["timezone"] = j.failed["timezone"] || l.failed["timezone"]
	}
	if j.failed["schedule"] || j.failed["timezone"] {
		return
	}
	at, err := time.LoadLocation(name)
	if err == nil {
		j.Schedule, err = jobs.ParseSchedule(j.schedule, j.Name, at)
	}
	if err == nil {
		return
	}
	bad := wrong("%s: %s", quote(j.schedule), cut(err.Error()))
	if errors.Is(err, jobs.ErrNever) {
		bad.hint("choose a day that the month has")
	}
	l.reportItem(&j.item, "schedule", bad)
}

// wholeSeconds reads a time of at least a second: shorter ones are no matter of jobs.
func wholeSeconds(at func(*Config) *time.Duration, most time.Duration) field {
	f := duration(at, time.Second, most)
	return field{get: f.get, parse: func(l *loader, v value) *Error {
		if err := f.parse(l, v); err != nil {
			return err
		}
		if d := *at(l.config); d%time.Second != 0 {
			return wrong("%s is not in whole seconds: expected 1s–%s", shortDuration(d), shortDuration(most))
		}
		return nil
	}}
}

// zone reads the name of a time zone. The host's own is refused: the leader moves between hosts.
func zone(at func(*Config) *string) field {
	const expected = "one of the IANA time zone database, such as UTC or Europe/Berlin"
	return stringField(at, expected, func(s string, _ value) (string, *Error) {
		if s == "Local" {
			return "", wrong("%s is not the same on every host: expected %s", quote(s), expected)
		}
		if _, err := time.LoadLocation(s); err != nil || s == "" {
			return "", wrong("%s is not a time zone: expected %s", quote(s), expected)
		}
		return s, nil
	})
}

// anyText reads a string that is judged later.
func anyText(at func(*Config) *string, expected string) field {
	return stringField(at, expected, func(s string, _ value) (string, *Error) { return s, nil })
}

// policy reads one of a few words that stand for values.
func policy[T fmt.Stringer](at func(*Config) *T, all ...T) field {
	words := make([]string, len(all))
	for i, p := range all {
		words[i] = p.String()
	}
	return field{
		parse: func(l *loader, v value) *Error {
			var word string
			if err := oneOf(func(*Config) *string { return &word }, words...).parse(l, v); err != nil {
				return err
			}
			*at(l.config) = all[slices.Index(words, word)]
			return nil
		},
		get: func(c *Config) any { return (*at(c)).String() },
	}
}
