package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestASlotRunsOnce(t *testing.T) {
	r := rigOf(t, "@hourly", nil)
	if got := r.next(); !got.Equal(clock("12:00")) {
		t.Errorf("next look at %v", got)
	}
	r.at("11:59:59").due()
	got := r.at("12:00:00").due("start 12:00 on-time")
	if run := got[0].Run; run.Owner != here || run.Epoch != 1 || run.Timeout != 600 || run.Phase != Claimed {
		t.Errorf("claims %v", run)
	}
	r.due()
	r.begins()
	if got := r.next(); !got.Equal(clock("12:10")) {
		t.Errorf("next look at %v, want the timeout", got)
	}
	r.at("12:03")
	r.ends(0)
	r.due()
	if run := r.run(); run.Phase != Ended || run.Outcome != Succeeded || run.Attempt != 1 {
		t.Errorf("recorded: %v", run)
	}
	r.at("13:00:00").due("start 13:00 on-time")
}

func TestOnlyALeaderThatSettledDecides(t *testing.T) {
	r := rigOf(t, "@hourly", nil)
	r.losesLeadership()
	r.at("12:00:00").due("wait not-leading")
	if !r.next().IsZero() {
		t.Errorf("a follower looks again at %v", r.next())
	}
	r.becomesLeader("11:59:59")
	r.due("wait settling until 12:00:01")
	r.at("12:00:01").due("start 12:00 on-time") // late, but not missed
}

// A claim that no majority acknowledged: the slot is skipped.
func TestAnUnclaimedSlotIsNotTriedAgain(t *testing.T) {
	r := rigOf(t, "@hourly", nil)
	r.at("12:00:00").due("start 12:00 on-time")
	r.at("12:00:03").put(r.run().Refused(r.now))
	r.due()
	if run := r.run(); run.Phase != Ended || run.Outcome != Unclaimed || run.Attempt != 0 {
		t.Errorf("recorded: %v", run)
	}
	r.at("13:00").due("start 13:00 on-time")
}

func TestANewOrChangedScheduleMissedNothing(t *testing.T) {
	r := rigOf(t, "@hourly", func(j *Job) { j.Missed = MissedAll })
	changed, _ := ParseSchedule("*/10 * * * *", "backup", nil)
	r.job.Schedule = changed
	r.at("14:05").due("adopt 14:05 schedule-changed")
	r.at("14:10").due("start 14:10 on-time")
}

// Also in the very second of a slot, and for every ledger that is merged.
func TestAChangeInTheSecondOfASlotWins(t *testing.T) {
	r := rigOf(t, "@hourly", nil)
	r.at("12:00").due("start 12:00 on-time")
	other := r.ledger.Clone()
	r.job.Schedule, _ = ParseSchedule("*/10 * * * *", "backup", nil)
	got := Due(r.now, []Job{r.job}, &r.ledger, r.lead)
	r.expect(got, []string{"adopt 12:00:01 schedule-changed"})
	r.ledger.Apply(got[0])
	r.ledger.Merge(other)
	r.due("wait ledger-ahead-of-clock until 12:00:01")
	r.at("12:00:01").due()
	r.at("12:10").due("skip 12:10 overlap")
}

func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		policy             Overlap
		at13, at14, at1430 string // the job runs from 12:00 to 14:30
	}{
		{OverlapForbid, "skip 13:00 overlap", "skip 14:00 overlap", ""},
		{OverlapQueue, "wait 13:00 overlap", "wait 13:00 overlap, wait 14:00 overlap", "start 13:00 on-time, wait 14:00 overlap"},
		{OverlapAllow, "start 13:00 on-time", "start 14:00 on-time", ""},
	} {
		t.Run(c.policy.String(), func(t *testing.T) {
			r := rigOf(t, "@hourly", func(j *Job) { j.Overlap, j.Timeout = c.policy, 0 })
			r.at("12:00").due("start 12:00 on-time")
			r.begins()
			r.at("13:00").due(lines(c.at13)...)
			r.at("14:00").due(lines(c.at14)...)
			r.at("14:30")
			r.ends(0)
			r.due(lines(c.at1430)...)
		})
	}
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ", ")
}

func TestReplaceEndsTheRunFirst(t *testing.T) {
	r := rigOf(t, "@hourly", func(j *Job) { j.Overlap, j.Timeout, j.Retries = OverlapReplace, 0, 3 })
	r.at("12:00").due("start 12:00 on-time")
	r.begins()
	r.at("13:00").due("stop 12:00 replaced", "wait 13:00 replacing")
	r.at("13:00:04").due("wait 13:00 replacing")
	r.ends(143)
	r.due("start 13:00 on-time")
	if run := r.runs()[0]; run.Outcome != Replaced || run.Exit != 143 || run.Phase != Ended {
		t.Errorf("recorded: %v", run)
	}
	r.begins()
	r.at("13:30")
	r.ends(1)
	r.at("14:00").due("retry 13:00 retrying", "stop 13:00 replaced", "wait 14:00 replacing")
}

// A retry that is due, or not yet, gives way to a newer slot.
func TestReplaceEndsARunThatWaits(t *testing.T) {
	r := rigOf(t, "@hourly", func(j *Job) { j.Overlap, j.Retries, j.RetryDelay = OverlapReplace, 1, time.Hour })
	r.at("12:00").due("start 12:00 on-time")
	r.begins()
	r.at("12:05")
	r.ends(1)
	r.at("13:00").due("wait 12:00 retrying until 13:05", "give up 12:00 replaced", "start 13:00 on-time")
	if run := r.runs()[0]; run.Outcome != Failed || run.Phase != Ended {
		t.Errorf("recorded: %v", run)
	}
}

func TestAllowIsBounded(t *testing.T) {
	r := rigOf(t, "@every 1m", func(j *Job) { j.Overlap, j.Timeout = OverlapAllow, 0 })
	r.at("11:50").due()
	for i := range MaxActive {
		r.now = clock("11:51").Add(time.Duration(i) * time.Minute)
		r.due("start " + shortTime(r.now) + " on-time")
		r.begins()
	}
	r.at("12:07").due("wait 12:07 too-many-runs")
	r.ends(0)
	r.due("start 12:07 on-time")
}

func TestMissed(t *testing.T) {
	for _, c := range []struct {
		policy Missed
		change func(*Job)
		since  string // when this host leads again, after 11:55
		then   string
	}{
		{MissedSkip, nil, "14:20", "skip 14:00 +2 missed"},
		{MissedOnce, nil, "14:20", "skip 13:00 +1 superseded, start 14:00 missed"},
		{MissedAll, nil, "14:20", "start 12:00 missed, wait 13:00 overlap, wait 14:00 overlap"},
		{MissedAll, func(j *Job) { j.Overlap = OverlapAllow }, "14:20", "start 12:00 missed, start 13:00 missed, start 14:00 missed"},
		{MissedOnce, func(j *Job) { j.StartingDeadline = 10 * time.Minute }, "14:20", "skip 14:00 +2 starting-deadline"},
		{MissedAll, func(j *Job) { j.StartingDeadline = 100 * time.Minute }, "14:20", "skip 12:00 starting-deadline, start 13:00 missed, wait 14:00 overlap"},
		{MissedOnce, nil, "14:00", "skip 13:00 +1 superseded, start 14:00 on-time"},
		{MissedSkip, nil, "13:59:59", "skip 13:00 +1 missed, start 14:00 on-time"},
		{MissedSkip, nil, "14:00:30", "skip 13:00 +1 missed, start 14:00 on-time"}, // the failover
		{MissedSkip, nil, "14:00:31", "skip 14:00 +2 missed"},
		{MissedOnce, nil, "14:00:31", "skip 13:00 +1 superseded, start 14:00 missed"},
		{MissedSkip, func(j *Job) { j.StartingDeadline = 20 * time.Second }, "14:00:30", "skip 14:00 +2 starting-deadline"},
		{MissedAll, func(j *Job) { j.Overlap = OverlapReplace }, "14:00", "skip 13:00 +1 superseded, start 14:00 on-time"},
		{MissedAll, nil, "2d3:30", "skip 17:00 +5 too-many-waiting, start 18:00 missed, wait 19:00 overlap, wait 20:00 overlap, " +
			"wait 21:00 overlap, wait 22:00 overlap, wait 23:00 overlap, wait 2d00:00 overlap, wait 2d01:00 overlap, wait 2d02:00 overlap, wait 2d03:00 overlap"},
	} {
		t.Run(fmt.Sprint(c.policy, " ", c.since, " ", c.then), func(t *testing.T) {
			r := rigOf(t, "@hourly", c.change)
			r.job.Missed = c.policy
			r.losesLeadership()
			r.becomesLeader(c.since)
			r.now = clock(c.since).Add(settleTime)
			r.due(lines(c.then)...)
		})
	}
}

// What ran before the failover does not run again, and what came during a run of the
// host that vanished is forbidden as ever.
func TestASlotOfTheFailover(t *testing.T) {
	r := rigOf(t, "@every 10s", nil)
	r.losesLeadership()
	r.elsewhere("12:00", Running)
	r.becomesLeader("12:00:05")
	r.at("12:00:07").due()
	r.becomesLeader("12:00:12")
	r.at("12:00:14").due("skip 12:00:10 blocked-by-another-host")
	r = rigOf(t, "@every 10s", func(j *Job) { j.Overlap = OverlapQueue })
	r.losesLeadership()
	r.becomesLeader("12:00:05")
	r.at("12:00:07").due("skip 11:59:30 +56 missed", "start 11:59:40 on-time", "wait 11:59:50 overlap", "wait 12:00 overlap")
}

// Made-up slots run one after the other; what comes meanwhile waits behind
// them, and is not forbidden.
func TestCatchingUp(t *testing.T) {
	r := rigOf(t, "@hourly", func(j *Job) { j.Missed, j.Timeout = MissedAll, 0 })
	r.losesLeadership()
	r.becomesLeader("13:50")
	r.at("13:51").due("start 12:00 missed", "wait 13:00 overlap")
	r.begins()
	r.at("14:00").due("wait 13:00 overlap", "wait 14:00 overlap")
	r.at("14:10")
	r.ends(0)
	r.due("start 13:00 missed", "wait 14:00 overlap")
	r.begins()
	r.at("14:20").due("wait 14:00 overlap")
	r.ends(0)
	r.due("start 14:00 on-time")
	r.begins()
	r.at("15:00").due("skip 15:00 overlap") // caught up: forbidden as ever
}

func TestAnOutageOfAYearIsCheap(t *testing.T) {
	r := rigOf(t, "@every 1s", func(j *Job) { j.Missed = MissedOnce })
	r.losesLeadership()
	r.becomesLeader("11:50")
	r.now = r.now.AddDate(1, 0, 0)
	r.lead.Since = r.now.Add(-settleTime)
	got := Due(r.now, []Job{r.job}, &r.ledger, r.lead)
	if len(got) != 2 || got[0].Do != Skip || got[0].Count != MaxCount || got[1].Do != Start {
		t.Errorf("after a year: %v", got)
	}
	allocated := testing.AllocsPerRun(10, func() { Due(r.now, []Job{r.job}, &r.ledger, r.lead) })
	if allocated > 50 {
		t.Errorf("%v allocations", allocated)
	}
}

func TestStartingDeadlineOfASlotThatWaits(t *testing.T) {
	r := rigOf(t, "@hourly", func(j *Job) { j.Overlap, j.Timeout, j.StartingDeadline = OverlapQueue, 0, 15*time.Minute })
	r.at("12:00").due("start 12:00 on-time")
	r.begins()
	r.at("13:00").due("wait 13:00 overlap")
	if got := r.next(); !got.Equal(clock("13:15").Add(time.Millisecond)) {
		t.Errorf("next look at %v", got)
	}
	r.at("13:15").due("wait 13:00 overlap")
	r.at("13:16").due("skip 13:00 starting-deadline")
}

func TestTimeout(t *testing.T) {
	r := rigOf(t, "@hourly", nil)
	r.at("12:00").due("start 12:00 on-time")
	r.begins()
	r.at("12:09:59").due()
	r.at("12:10").due("stop 12:00 timeout")
	r.at("12:10:05").due()
	r.ends(137)
	r.due()
	if run := r.run(); run.Outcome != TimedOut || run.Phase != Ended || run.Exit != 137 {
		t.Errorf("recorded: %v", run)
	}
}

// A job that sets no timeout may run for a day.
func TestDefaultTimeout(t *testing.T) {
	r := rigOf(t, "@daily", func(j *Job) { j.Timeout = 0 })
	r.at("2d00:00").due("start 2d00:00 on-time")
	r.begins()
	r.at("2d23:59:59").due()
	r.at("3d00:00").due("stop 2d00:00 timeout", "skip 3d00:00 overlap")
}

func TestRetriesBackOff(t *testing.T) {
	r := rigOf(t, "@hourly", func(j *Job) { j.Retries, j.RetryDelay = 3, time.Minute })
	r.at("12:00").due("start 12:00 on-time")
	r.begins()
	for i, wait := range []string{"12:02", "12:05", "12:10"} { // 1, 2 and 4 minutes after a run of one
		r.now = r.now.Add(time.Minute)
		r.ends(1)
		r.due("wait 12:00 retrying until " + wait)
		if got := r.next(); !got.Equal(clock(wait)) {
			t.Errorf("next look at %v", got)
		}
		r.at(wait).due("retry 12:00 retrying")
		if run := r.run(); run.Phase != Running || int(run.Attempt) != i+2 {
			t.Errorf("recorded: %v", run)
		}
	}
	r.ends(1)
	r.due()
	if run := r.run(); run.Phase != Ended || run.Outcome != Failed || run.Attempt != 4 {
		t.Errorf("recorded: %v", run)
	}
	if d := r.job.delay(200); d != MaxDelay {
		t.Errorf("the delay grows to %v", d)
	}
}

func TestRetriesAreOfOneLeadership(t *testing.T) {
	r := rigOf(t, "@hourly", func(j *Job) { j.Retries = 3 })
	r.at("12:00").due("start 12:00 on-time")
	r.begins()
	r.ends(1)
	r.losesLeadership()
	r.at("12:00:02").due("give up 12:00 leadership-lost", "wait not-leading")
	r.becomesLeader("12:00:03")
	r.at("12:00:30").due()
	if run := r.run(); run.Phase != Ended || run.Outcome != Failed {
		t.Errorf("recorded: %v", run)
	}
}

// Also if nobody looked between the one leadership and the next.
func TestNothingIsLeftOfAnEarlierLeadership(t *testing.T) {
	r := rigOf(t, "@hourly", func(j *Job) { j.Retries = 3 })
	r.at("12:00").due("start 12:00 on-time")
	r.becomesLeader("12:01")
	r.at("12:01:10").due("give up 12:00 leadership-lost")
	r.at("13:00").due("start 13:00 on-time")
	r.begins()
	r.ends(1)
	r.becomesLeader("13:01")
	r.at("13:01:10").due("give up 13:00 leadership-lost")
}

func TestAPausedJobStartsNothing(t *testing.T) {
	r := rigOf(t, "@hourly", func(j *Job) { j.Missed, j.Retries = MissedAll, 3 })
	r.at("12:00").due("start 12:00 on-time")
	r.begins()
	if !r.ledger.Pause("backup", true, r.now) || r.ledger.Pause("backup", true, r.now) {
		t.Error("pausing twice is not once")
	}
	r.ends(1)
	r.at("12:30").due("wait 12:00 paused", "wait paused")
	r.at("14:00").due("wait 12:00 paused", "wait paused")
	r.at("14:30").ledger.Pause("backup", false, r.now)
	r.due("retry 12:00 retrying") // and no slot of the pause
	r.ends(0)
	r.at("15:00").due("start 15:00 on-time")
}

func TestLossOfLeadership(t *testing.T) {
	for policy, want := range map[OnLoss][]string{
		OnLossKill:   {"stop 12:00 leadership-lost", "wait not-leading"},
		OnLossFinish: {"wait not-leading"},
	} {
		t.Run(policy.String(), func(t *testing.T) {
			r := rigOf(t, "@hourly", func(j *Job) { j.OnLoss, j.Retries = policy, 2 })
			r.at("12:00").due("start 12:00 on-time")
			r.begins()
			r.losesLeadership()
			r.at("12:00:01").due(want...)
			if policy == OnLossFinish {
				r.at("12:10").due("stop 12:00 timeout", "wait not-leading")
				return
			}
			r.at("12:00:02")
			r.ends(143)
			r.due("wait not-leading")
			if run := r.run(); run.Phase != Ended || run.Outcome != Killed {
				t.Errorf("recorded: %v", run)
			}
		})
	}
}

// A leader that lost its lease between claim and start does not start.
func TestAClaimEndsWithItsLeadership(t *testing.T) {
	r := rigOf(t, "@hourly", nil)
	r.at("12:00").due("start 12:00 on-time")
	r.losesLeadership()
	r.due("give up 12:00 leadership-lost", "wait not-leading")
	if run := r.run(); run.Outcome != Unclaimed {
		t.Errorf("recorded: %v", run)
	}
}

// A leader that is leader again in another epoch may not go on as if nothing
// had been.
func TestARunOfAnEarlierEpochIsStopped(t *testing.T) {
	r := rigOf(t, "@hourly", nil)
	r.at("12:00").due("start 12:00 on-time")
	r.begins()
	r.becomesLeader("12:01")
	r.at("12:01:10").due("stop 12:00 leadership-lost")
}

func TestTheRunOfAVanishedHostBlocksThenIsLost(t *testing.T) {
	const over = "12:12" // an attempt may have begun as late as 12:01, when its leader had to have gone
	for _, phase := range []Phase{Claimed, Running} {
		t.Run(phase.String(), func(t *testing.T) {
			r := rigOf(t, "*/5 * * * *", func(j *Job) { j.Missed = MissedOnce })
			r.losesLeadership()
			r.elsewhere("12:00", phase)
			r.becomesLeader("12:01")
			r.at("12:01:10").due()
			r.at("12:05").due("skip 12:05 blocked-by-another-host")
			r.at("12:10:59").due("skip 12:10 blocked-by-another-host") // ten minutes and a tenth
			if got := r.next(); !got.Equal(clock(over)) {
				t.Errorf("next look at %v", got)
			}
			r.at(over).due("lose 12:00 vanished")
			r.at("12:15").due("start 12:15 on-time")
			if run := r.runs()[0]; run.Phase != Lost || run.Outcome != Vanished {
				t.Errorf("recorded: %v", run)
			}
		})
	}
}

// The host comes back and says otherwise, before or after it counted as lost.
func TestAHostThatComesBackCorrectsWhatWasAssumed(t *testing.T) {
	for _, lost := range []bool{false, true} {
		r := rigOf(t, "@hourly", nil)
		r.losesLeadership()
		run := r.elsewhere("12:00", Running)
		r.becomesLeader("12:01")
		r.at("12:05").due()
		if lost {
			r.at("12:12").due("lose 12:00 vanished")
		}
		r.at("12:13").put(run.Finished(clock("12:04"), 0, &r.job))
		r.due()
		if got := r.run(); got.Phase != Ended || got.Outcome != Succeeded {
			t.Errorf("after it was lost (%t): %v", lost, got)
		}
		r.at("13:00").due("start 13:00 on-time")
	}
}

// Every attempt has the timeout anew, and how many there are is for its own host
// to know: this one's file may say otherwise.
func TestARetryElsewhereBlocksForAsLong(t *testing.T) {
	r := rigOf(t, "@hourly", nil)
	r.losesLeadership()
	run := r.elsewhere("12:00", Running)
	r.put(run.Finished(clock("12:05"), 1, &Job{Retries: 1}).Began(clock("12:06")))
	r.becomesLeader("12:07")
	r.at("12:17:59").due()
	r.at("12:18").due("lose 12:00 vanished")
}

// A missed slot waits for the run of the vanished host; a current one does not.
func TestAMissedSlotIsNotForbidden(t *testing.T) {
	r := rigOf(t, "@hourly", func(j *Job) { j.Missed, j.Timeout = MissedOnce, 3*time.Hour })
	r.losesLeadership()
	r.elsewhere("12:00", Running)
	r.becomesLeader("13:05")
	r.at("13:06").due("wait 13:00 blocked-by-another-host")
	r.at("14:00").due("skip 13:00 superseded", "skip 14:00 blocked-by-another-host")
}

// A record is enough, also if its slot is above the floor.
func TestASlotWithARecordIsSettled(t *testing.T) {
	r := rigOf(t, "@hourly", func(j *Job) { j.Missed, j.Overlap = MissedAll, OverlapAllow })
	r.losesLeadership()
	for _, slot := range []string{"12:00", "14:00"} {
		r.put(Run{Key: Key{Slot: SlotOf(clock(slot)), Owner: there}, Phase: Claimed, Claimed: MillisOf(clock(slot)), Timeout: 86400})
	}
	r.becomesLeader("15:30")
	r.job.StartingDeadline = time.Hour
	r.at("15:31").due("skip 13:00 starting-deadline", "start 15:00 missed")
	r.job.StartingDeadline = 0
	r.at("16:00").due("start 16:00 on-time")
}

// What the run claimed for itself counts, not what this host's file says.
func TestTheTimeoutIsTheClaimants(t *testing.T) {
	r := rigOf(t, "@hourly", nil)
	r.losesLeadership()
	r.elsewhere("12:00", Running)
	r.job.Timeout = time.Second
	r.becomesLeader("12:01")
	r.at("12:05").due()
	r.at("12:12").due("lose 12:00 vanished")
}

func TestReplaceCannotEndARunElsewhere(t *testing.T) {
	r := rigOf(t, "@hourly", func(j *Job) { j.Overlap, j.Timeout = OverlapReplace, 2*time.Hour })
	r.losesLeadership()
	r.elsewhere("12:00", Running)
	r.becomesLeader("12:01")
	r.at("13:00").due("wait 13:00 blocked-by-another-host")
	r.at("14:00").due("skip 13:00 superseded", "wait 14:00 blocked-by-another-host")
	r.at("14:02").due("lose 12:00 vanished", "start 14:00 on-time")
}

func TestAClockThatIsSetBackRepeatsNothing(t *testing.T) {
	r := rigOf(t, "@hourly", func(j *Job) { j.Missed, j.Overlap = MissedAll, OverlapAllow })
	r.at("12:00").due("start 12:00 on-time")
	r.at("13:00").due("start 13:00 on-time")
	r.at("11:58").due("wait ledger-ahead-of-clock until 13:00")
	r.at("12:00").due("wait ledger-ahead-of-clock until 13:00")
	if got := r.next(); !got.Equal(clock("13:00")) {
		t.Errorf("next look at %v", got)
	}
	r.at("13:00").due()
	r.at("14:00").due("start 14:00 on-time")
}

func TestManual(t *testing.T) {
	byHand := func(r *rig, want ...string) {
		t.Helper()
		got := Manual(r.now, &r.job, &r.ledger, r.lead)
		r.expect(got, want)
		for _, d := range got {
			r.ledger.Apply(d)
		}
	}
	r := rigOf(t, "@hourly", nil)
	r.ledger.Pause("backup", true, r.now)
	byHand(r.at("11:55"), "start 11:55 by hand manual")
	byHand(r, "wait 11:55 taken until 11:55:01")
	byHand(r.at("11:56"), "wait 11:56 overlap")
	r.ledger.Pause("backup", false, r.now)
	r.begins()
	r.at("12:00").due("skip 12:00 overlap")
	r.ends(0)
	r.at("13:00").due("start 13:00 on-time") // a run by hand settles no slot
	byHand(r, "wait 13:00 overlap")
	r.put(r.run().Refused(r.now))
	byHand(r, "start 13:00 by hand manual")
	r.job.Overlap = OverlapReplace
	r.begins()
	byHand(r.at("13:01"), "stop 13:00 by hand replaced", "wait 13:01 replacing")
	r.ends(143)
	byHand(r.at("13:01:05"), "start 13:01:05 by hand manual")
	r.losesLeadership()
	byHand(r.at("13:02"), "wait not-leading")
	r.becomesLeader("13:03")
	byHand(r.at("13:03:01"), "wait settling until 13:03:02")
}

func TestTheTableIsAnsweredInItsOrder(t *testing.T) {
	var table []Job
	for _, name := range []string{"zeta", "alpha", "mid"} {
		s, _ := ParseSchedule("@hourly", name, nil)
		table = append(table, Job{Name: name, Schedule: s})
	}
	var l Ledger
	lead := Leadership{Self: here, Leading: true, Epoch: 1, Since: clock("11:00")}
	for range 2 {
		got := Due(clock("11:30"), table, &l, lead)
		if len(got) != 3 || got[0].Job != "zeta" || got[1].Job != "alpha" || got[2].Job != "mid" {
			t.Errorf("%v", got)
		}
		for _, d := range got {
			if l.Apply(d); d.Do != Adopt {
				t.Errorf("%v", d)
			}
		}
		l = Ledger{}
	}
}

func TestCheckNamesTheKey(t *testing.T) {
	good := rigOf(t, "@hourly", nil).job
	for want, spoil := range map[string]func(*Job){
		"name ":              func(j *Job) { j.Name = "a/b" },
		"name \"\"":          func(j *Job) { j.Name = "" },
		"schedule":           func(j *Job) { j.Schedule = Schedule{} },
		"timeout -1s":        func(j *Job) { j.Timeout = -time.Second },
		"timeout 1.5s":       func(j *Job) { j.Timeout = 1500 * time.Millisecond },
		"timeout 769h":       func(j *Job) { j.Timeout = 769 * time.Hour },
		"overlap":            func(j *Job) { j.Overlap = 9 },
		"missed":             func(j *Job) { j.Missed = 9 },
		"starting_deadline ": func(j *Job) { j.StartingDeadline = -1 },
		"retries 99":         func(j *Job) { j.Retries = 99 },
		"retry_delay -1s":    func(j *Job) { j.RetryDelay = -time.Second },
		"on_loss":            func(j *Job) { j.OnLoss = 9 },
	} {
		j := good
		spoil(&j)
		if err := j.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
}

// Every word that users see has one.
func TestEveryWordIsWritten(t *testing.T) {
	for i := Wait; i <= Lose; i++ {
		expectWord(t, i)
	}
	for i := ReasonNone; i <= ReasonOver; i++ {
		expectWord(t, i)
	}
	for i := Claimed; i <= Ended; i++ {
		expectWord(t, i)
	}
	for i := Outcome(0); i <= Vanished; i++ {
		expectWord(t, i)
	}
}

func expectWord(t *testing.T, w fmt.Stringer) {
	t.Helper()
	if w.String() == "" || w.String() == "unknown" {
		t.Errorf("%T %d has no word", w, w)
	}
}

// BenchmarkDue is the usual case: a full table of which nothing is due.
func BenchmarkDue(b *testing.B) {
	var table []Job
	var l Ledger
	zone, _ := time.LoadLocation("Europe/Berlin")
	lead := Leadership{Self: here, Leading: true, Epoch: 1, Since: clock("11:00")}
	for i := range MaxJobs {
		name := fmt.Sprintf("job%d", i)
		s, _ := ParseSchedule("~ ~ * * *", name, zone)
		table = append(table, Job{Name: name, Schedule: s})
		l.raise(name, SlotOf(clock("11:00")), s.Hash())
	}
	for b.Loop() {
		Due(clock("11:30"), table, &l, lead)
		Next(clock("11:30"), table, &l, lead)
	}
}

// The last attempt began after this leader came, by the clock of its host: it has its
// time all the same.
func TestJ3_ALaterAttemptHasItsTime(t *testing.T) {
	r := rigOf(t, "@hourly", nil)
	r.losesLeadership()
	run := r.elsewhere("12:00", Running)
	r.put(run.Finished(clock("12:05"), 1, &Job{Retries: 1}).Began(clock("12:07:30")))
	r.becomesLeader("12:07")
	r.at("12:18:29").due()
	r.at("12:18:30").due("lose 12:00 vanished")
}

// The floor is the highest slot that is settled, and not the lowest that is open.
func TestTheFloorIsSettled(t *testing.T) {
	e := Entry{Floor: 1000}
	if !e.settled(1000) || e.settled(1001) {
		t.Errorf("with the floor at 1000, settled are 1000: %t, 1001: %t", e.settled(1000), e.settled(1001))
	}
}
