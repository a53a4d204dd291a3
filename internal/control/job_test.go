package control

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeJobs is a JobBackend that says what a test puts into it.
type fakeJobs struct {
	jobs  []Job
	runs  []JobRun
	asked struct {
		next     int
		job, run string
	}
}

func (f *fakeJobs) Jobs(_ context.Context, next int) ([]Job, error) {
	f.asked.next = next
	return slices.Clone(f.jobs), nil
}

func (f *fakeJobs) JobRuns(_ context.Context, job string) ([]JobRun, error) {
	f.asked.job = job
	return f.runs, nil
}

func (f *fakeJobs) JobOutput(_ context.Context, run string) (string, error) {
	f.asked.run = run
	if run != "backup-7-00112233-1763692200" {
		return "", &APIError{Status: http.StatusNotFound, Message: "no such run", Code: "unknown_run"}
	}
	return "done\n", nil
}

var (
	slotOfTest = time.Date(2026, 11, 21, 2, 30, 0, 0, time.FixedZone("", 3600))
	jobOfTest  = Job{Name: "backup", Schedule: "30 2 * * *", Timezone: "Europe/Berlin", Paused: true, State: "paused", Why: "paused",
		Until: slotOfTest, Next: []time.Time{slotOfTest}, Last: &runOfTest, Open: []JobRun{runOfTest}, TimeoutSeconds: 7200,
		Overlap: "forbid", Missed: "once", OnLoss: "kill", Retries: 2}
	runOfTest = JobRun{Job: "backup", Run: "backup-7-00112233-1763692200", Host: "alpha", Slot: slotOfTest, Manual: true,
		Epoch: Epoch{Counter: 7, Owner: "00112233-4455-4677-8899-aabbccddeeff"}, Phase: "ended", Outcome: "failed", Attempt: 3, Exit: new(1),
		Started: slotOfTest, Ended: slotOfTest.Add(time.Minute), Printed: 12, Err: "no"}
)

func TestJobsAreAskedFor(t *testing.T) {
	b := &fakeAgent{fakeJobs: fakeJobs{jobs: []Job{jobOfTest, {Name: "tidy"}}, runs: []JobRun{runOfTest}}}
	client := Dial(serveAgent(t, b, nil).path)
	ctx := t.Context()
	jobs, err := client.Jobs(ctx, 5)
	if err != nil || len(jobs) != 2 || b.asked.next != 5 {
		t.Fatalf("%d jobs with %d slots, %v", len(jobs), b.asked.next, err)
	}
	got, want := jobs[0], jobOfTest
	for _, times := range [][2]*time.Time{{&got.Until, &want.Until}, {&got.Next[0], &want.Next[0]}} {
		if !times[0].Equal(*times[1]) || times[0].Format(time.RFC3339) != times[1].Format(time.RFC3339) {
			t.Errorf("time %v, want %v, with its offset", times[0], times[1])
		}
	}
	if got.Name != want.Name || got.Last.Outcome != "failed" || *got.Open[0].Exit != 1 || got.TimeoutSeconds != 7200 {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if jobs[1].Next == nil || jobs[1].Open == nil {
		t.Error("a client meets null where it expects to iterate")
	}
	runs, err := client.JobRuns(ctx, "backup")
	if err != nil || len(runs) != 1 || b.asked.job != "backup" || runs[0].Run != runOfTest.Run {
		t.Errorf("runs %+v, %v", runs, err)
	}
	if text, err := client.JobOutput(ctx, runOfTest.Run); err != nil || text != "done\n" {
		t.Errorf("output %q, %v", text, err)
	}
	var refusal *APIError
	if _, err := client.JobOutput(ctx, "x"); !errors.As(err, &refusal) || refusal.Code != "unknown_run" {
		t.Errorf("output of an unknown run: %v", err)
	}
	for _, next := range []int{-1, MaxNextSlots + 1} {
		if _, err := client.Jobs(ctx, next); !errors.As(err, &refusal) || refusal.Status != http.StatusBadRequest {
			t.Errorf("%d slots: %v", next, err)
		}
	}
}

func TestJobCommandsNameTheirJob(t *testing.T) {
	var said []string
	b := &fakeAgent{command: func(_ context.Context, name string, args map[string]string) error {
		said = append(said, strings.TrimSpace(name+" "+args["job"]+" "+args["from_now"]))
		return nil
	}}
	client := Dial(serveAgent(t, b, nil).path)
	ctx := t.Context()
	if err := errors.Join(client.RunJob(ctx, "a"), client.PauseJob(ctx, "b"), client.ResumeJob(ctx, "c"),
		client.ResumeJobFromNow(ctx, "d")); err != nil {
		t.Error(err)
	}
	if want := []string{"job-run a", "job-pause b", "job-resume c", "job-resume d true"}; !reflect.DeepEqual(said, want) {
		t.Errorf("commands %q, want %q", said, want)
	}
}
