package jobs

import (
	"testing"
	"time"
)

// A leader whose disk fails says that jobs are due: from the start on that it had to
// take back, or from the next slot on. A wish is nothing that others could do better.
func TestJobsThatWaitForTheDisk(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, nil)...)
	stalled := func(at string, want bool) {
		t.Helper()
		w.runTo(at)
		w.step(w.host(1), Tick{})
		if got := w.host(1).s.Stalled(); got != want {
			t.Errorf("at %s: stalled %t", at, got)
		}
	}
	w.runTo("12:00:06")
	w.host(1).full = true
	w.step(w.host(1), Ask{Job: "a", Token: 7}) // that a disk is full is found by writing
	w.has("give up 12:00:06 by hand disk-failed")
	stalled("12:00:09", false)
	stalled("12:00:11", true)
	w.host(1).full = false
	w.step(w.host(1), SaveRecovered{})
	stalled("12:00:13", false)
	w.host(1).full = true
	w.runTo("12:00:20")
	w.has("save fails", "give up 12:00:20 disk-failed")
	stalled("12:00:21", true)
	w.step(w.host(1), SaveRecovered{}) // and fails
	stalled("12:00:22", true)
	w.step(w.host(1), NotLeading{})
	stalled("12:00:31", false)
}

// What runs when the disk fails goes on. That it has ended is told though it cannot be
// written down, or it would block the next leader until its timeout.
func TestWhatIsOverIsToldWithoutADisk(t *testing.T) {
	for _, isFullBefore := range []bool{true, false} {
		w := ready(t, 3, true, everyTen(t, func(j *Job) { j.Timeout = time.Hour })...)
		w.lasts = 5 * time.Second
		w.runTo("12:00:12")
		w.has("begins 12:00:10")
		w.host(1).full = true
		if isFullBefore { // and known to be
			w.step(w.host(1), Ask{Job: "a", Token: 7})
			w.step(w.host(1), SetPaused{Job: "a", Paused: true, Token: 8})
		}
		w.runTo("12:00:16")
		w.has("run 12:00:10 ended succeeded")
		w.step(w.host(1), NotLeading{})
		w.lead(2, 2)
		w.runTo("12:00:21")
		w.has("begins 12:00:20")
		if e, _ := w.host(2).s.Entry("a"); e.Switch.Paused {
			t.Error("told of a pause that is on no disk")
		}
	}
}
