package jobs

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// A voter that has no such job in its table forgets the job after a while, or to
// make room, and not that it may have witnessed the slot.
func TestJ1_WhatPruneDropsIsNotWitnessedAgain(t *testing.T) {
	for name, forget := range map[string]func(*Ledger) time.Time{
		"after a month": func(*Ledger) time.Time { return clock("12:00").Add(31 * 24 * time.Hour) },
		"to make room": func(l *Ledger) time.Time {
			now := clock("12:05")
			for i := range MaxJobs {
				l.raise(fmt.Sprintf("other-%d", i), SlotOf(now), 1)
			}
			return now
		},
	} {
		var l Ledger
		claim := Claim{Job: "monthly", Schedule: 1, Run: Run{Key: Key{Slot: SlotOf(clock("12:00")), Epoch: 5, Owner: here},
			Phase: Claimed, Claimed: MillisOf(clock("12:00")), Timeout: 1}}
		if why := l.Admit(clock("12:00"), claim); why != ReasonNone {
			t.Fatalf("%s: %v", name, why)
		}
		now := forget(&l)
		l.Prune(now, nil)
		if _, known := l.Entry("monthly"); known {
			t.Fatalf("%s: the job is still known", name)
		}
		claim.Run.Epoch, claim.Run.Owner = 9, there
		if why := l.Admit(now, claim); why != ReasonForgot {
			t.Errorf("%s: %v", name, why)
		}
		claim.Run.Slot = SlotOf(now) + 1
		if why := l.Admit(now, claim); why != ReasonNone {
			t.Errorf("%s: a new slot: %v", name, why)
		}
	}
}

// No election gives such an epoch, which would depose all that follow.
func TestAQuestionOfNoEpochIsRefused(t *testing.T) {
	s := NewScheduler(SchedulerConfig{Self: here}, nil)
	q := Message{Kind: wire.LedgerQuery, Epoch: maxEpoch + 1, Owner: there}
	if got := words(s.Step(clock("12:00"), Heard{From: there, Message: q, Known: maxEpoch + 1})); got != "refused" || s.ledger.fence != 0 {
		t.Errorf("%s, fence %d", got, s.ledger.fence)
	}
	q.Epoch = maxEpoch
	if got := words(s.Step(clock("12:00"), Heard{From: there, Message: q, Known: maxEpoch + 1})); got != "save send" {
		t.Errorf("the last one: %s", got)
	}
}

// fullLedger knows as many jobs as there may be, none of them in a table.
func fullLedger(now time.Time) *Ledger {
	var l Ledger
	for i := range MaxJobs {
		l.raise(fmt.Sprintf("old-%d", i), SlotOf(now), 1)
	}
	return &l
}

func TestAPauseFindsRoomInAFullLedger(t *testing.T) {
	s := NewScheduler(SchedulerConfig{Self: here, Table: everyTen(t, nil)}, fullLedger(clock("11:00")))
	effects := s.Step(clock("12:00"), SetPaused{Job: "a", Paused: true, Token: 3})
	saved := ofKind[Save](effects)
	if len(saved) != 1 || ofKind[Reply](effects)[0].Err != nil {
		t.Fatalf("%v", effects)
	}
	disk, err := Parse(saved[0].Bytes)
	if e, _ := disk.Entry("a"); err != nil || !e.Switch.Paused || len(disk.Jobs()) != MaxJobs {
		t.Errorf("%v, %d jobs, %v", e, len(disk.Jobs()), err)
	}
}

// outage is a new leader of so many jobs, each of which has missed a year.
func outage(tb testing.TB, missed Missed) (*Scheduler, time.Time) {
	tb.Helper()
	now := clock("12:00:30")
	var table []Job
	var l Ledger
	for i := range MaxJobs {
		name := fmt.Sprintf("job-%d", i)
		schedule, err := ParseSchedule("* * * * *", name, nil)
		if err != nil {
			tb.Fatal(err)
		}
		table = append(table, Job{Name: name, Schedule: schedule, Missed: missed, Overlap: OverlapQueue})
		l.raise(name, SlotOf(now.AddDate(-1, 0, 0)), schedule.Hash())
	}
	return NewScheduler(SchedulerConfig{Self: here, Table: table, Settle: time.Millisecond}, &l), now
}

// settleAll steps as long as something is due, and gives the effects of each step.
func settleAll(tb testing.TB, s *Scheduler, now time.Time) (steps [][]Effect) {
	tb.Helper()
	s.Step(now, Leading{Epoch: 5, Since: now})
	now = now.Add(time.Millisecond)
	for at := now; !at.After(now); at = s.Deadline() {
		steps = append(steps, slices.Clone(s.Step(now, Tick{})))
		if len(steps) > 10*MaxJobs {
			tb.Fatal("there is always something due")
		}
	}
	return steps
}

// The first step of a leader after a long outage is no longer than others, and
// nothing is left out.
func TestAStepDecidesABoundedNumberOfJobs(t *testing.T) {
	s, now := outage(t, MissedOnce)
	begun := map[string]int{}
	for _, effects := range settleAll(t, s, now) {
		begins := ofKind[Begin](effects)
		if len(begins) > maxDecided || len(ofKind[Save](effects)) > 1 {
			t.Errorf("a step begins %d", len(begins))
		}
		for _, b := range begins {
			begun[b.Job.Name]++
		}
	}
	for i := range MaxJobs {
		if n := begun[fmt.Sprintf("job-%d", i)]; n != 1 {
			t.Errorf("job-%d has begun %d times", i, n)
		}
	}
	// What ends with the leadership ends in one step, however much that is.
	table := s.Jobs()
	if ends := ofKind[End](s.Step(now.Add(time.Second), NotLeading{})); len(ends) != len(table) {
		t.Errorf("%d commands of %d end", len(ends), len(table))
	}
}

func BenchmarkStepAfterAnOutage(b *testing.B) {
	for _, missed := range []Missed{MissedSkip, MissedOnce, MissedAll} {
		b.Run(missed.String(), func(b *testing.B) {
			var longest time.Duration
			steps := 0
			for b.Loop() {
				b.StopTimer()
				s, now := outage(b, missed)
				b.StartTimer()
				s.Step(now, Leading{Epoch: 5, Since: now})
				now = now.Add(time.Millisecond)
				for at := now; !at.After(now); at = s.Deadline() {
					began := time.Now()
					s.Step(now, Tick{})
					longest = max(longest, time.Since(began))
					steps++
				}
			}
			b.ReportMetric(float64(longest.Microseconds()), "µs-longest")
			b.ReportMetric(float64(steps)/float64(b.N), "steps/op")
		})
	}
}
