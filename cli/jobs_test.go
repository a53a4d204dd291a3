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
	run := control.JobRun{Job: "backup", Host: "alpha", Slot: at, Phase: "ended", Outcome: "timed-out", Exit: 143, Attempt: 1,
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
