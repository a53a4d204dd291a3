package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// The history says what went wrong beside the exit code.
func TestJobHistorySaysWhy(t *testing.T) {
	at := time.Date(2026, 11, 21, 2, 30, 0, 0, time.UTC)
	run := control.JobRun{Job: "backup", Host: "alpha", Slot: at, Phase: "ended", Outcome: "timed-out", Exit: new(143), Attempt: 1,
		Started: at, Ended: at.Add(time.Hour)}
	plain := runsText([]control.JobRun{run})
	if strings.Contains(plain, "holder") {
		t.Fatalf("history of a run without a note:\n%s", plain)
	}
	run.Err = "ended by its holder"
	if text := runsText([]control.JobRun{run}); !strings.HasSuffix(text, "  ended by its holder\n") {
		t.Errorf("history:\n%s", text)
	}
}

// Of a run whose agent ended nobody knows how, or when.
func TestJobHistoryOfAnInterruptedRun(t *testing.T) {
	at := time.Date(2026, 11, 21, 2, 30, 0, 0, time.UTC)
	text := runsText([]control.JobRun{{Job: "backup", Host: "alpha", Slot: at, Phase: "ended", Outcome: "interrupted",
		Attempt: 1, Started: at, Ended: at.Add(time.Hour)}})
	if row := strings.Fields(strings.Split(text, "\n")[1]); row[6] != "-" || row[len(row)-1] != "-" {
		t.Errorf("history:\n%s", text)
	}
}

// The clock of the host that ran it may have been ahead, a little or by hours: nothing ended in the future.
func TestLastRunByAClockThatWasAhead(t *testing.T) {
	abroad(t)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for ended, want := range map[time.Time]string{
		now.Add(5 * time.Millisecond): "succeeded on alpha 0s ago",
		now.Add(2 * time.Hour):        "succeeded on alpha, at 2026-11-21 16:00:00.000 +0200 by its clock",
	} {
		if got := lastRun(&control.JobRun{Host: "alpha", Outcome: "succeeded", Ended: ended}, now); got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
}

// abroad puts this host two hours east of UTC.
func abroad(t *testing.T) {
	here := time.Local
	time.Local = time.FixedZone("abroad", 2*60*60)
	t.Cleanup(func() { time.Local = here })
}

// Another host's run says all of the job's state: that this host does not lead is no reason beside it.
func TestJobStateOfAnotherHostsRun(t *testing.T) {
	for isLed, want := range map[bool]string{true: "waiting for the leader to start it", false: "waiting for a leader"} {
		if got := jobState(control.Job{State: "waiting", Why: "not-leading"}, isLed, time.Now()); got != want {
			t.Errorf("without a run: %q, expected %q", got, want)
		}
	}
	open := []control.JobRun{{Host: "beta", Phase: "running"}}
	for why, want := range map[string]string{"not-leading": "running on beta", "paused": "running on beta: paused"} {
		if got := jobState(control.Job{State: "running", Why: why, Open: open}, true, time.Now()); got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
}

// One rule for all times that people are shown: this host's, with the offset.
func TestTimesAreThisHostsWithTheirOffset(t *testing.T) {
	abroad(t)
	at := time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC)
	const want = "2026-11-22 00:30:00"
	run := control.JobRun{Job: "backup", Slot: at, Started: at, Ended: at, Phase: "ended", Outcome: "succeeded"}
	for what, text := range map[string]string{
		"events":            eventText(control.Event{Time: at}),
		"history":           historyText("alpha", []control.Leadership{{From: at, To: at}}, at),
		"slots of the past": runsText([]control.JobRun{run}),
		"until":             untilText(at, at.Add(-24*time.Hour)),
	} {
		if strings.Count(text, want) != strings.Count(text, "+0200") || !strings.Contains(text, want) {
			t.Errorf("%s: %q", what, text)
		}
	}
}

// What a job waits for has a date if that is not soon.
func TestJobStateSaysUntilWhen(t *testing.T) {
	abroad(t)
	now := time.Date(2026, 11, 21, 21, 59, 0, 0, time.UTC)
	for until, want := range map[time.Time]string{
		now.Add(2 * time.Minute): "waiting: settling until 00:01:00 +0200",
		now.Add(48 * time.Hour):  "waiting: settling until 2026-11-23 23:59:00 +0200",
	} {
		if got := jobState(control.Job{State: "waiting", Why: "settling", Until: until}, true, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
