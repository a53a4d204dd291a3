package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/control"
)

// The history says what went wrong beside the exit code.
func TestJobHistorySaysWhy(t *testing.T) {
	at := time.Date(2026, 11, 21, 2, 30, 0, 0, time.UTC)
	run := control.JobRun{Job: "backup", Host: "alpha", Slot: at, Phase: "ended", Outcome: "timed-out", Exit: new(143), Attempt: 1,
		Started: at, Ended: at.Add(time.Hour)}
	plain := runsText([]control.JobRun{run})
	if strings.Contains(plain, "guard") {
		t.Fatalf("history of a run without a note:\n%s", plain)
	}
	run.Err = "ended by its guard"
	if text := runsText([]control.JobRun{run}); !strings.HasSuffix(text, "  ended by its guard\n") {
		t.Errorf("history:\n%s", text)
	}
}

// Of a run whose agent ended nobody knows how, or when.
func TestJobHistoryOfAnInterruptedRun(t *testing.T) {
	at := time.Date(2026, 11, 21, 2, 30, 0, 0, time.UTC)
	text := runsText([]control.JobRun{{Job: "backup", Host: "alpha", Slot: at, Phase: "ended", Outcome: "interrupted",
		Attempt: 1, Started: at, Ended: at.Add(time.Hour)}})
	if row := strings.Fields(strings.Split(text, "\n")[1]); row[4] != "-" || row[len(row)-1] != "-" {
		t.Errorf("history:\n%s", text)
	}
}

// What a job waits for has a date if that is not soon.
func TestJobStateSaysUntilWhen(t *testing.T) {
	now := time.Date(2026, 11, 21, 23, 59, 0, 0, time.UTC)
	for until, want := range map[time.Time]string{
		now.Add(2 * time.Minute): "waiting: settling until 00:01:00Z",
		now.Add(48 * time.Hour):  "waiting: settling until 2026-11-23T23:59:00Z",
	} {
		if got := jobState(control.Job{State: "waiting", Why: "settling", Until: until}, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
