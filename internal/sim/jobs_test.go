package sim

import "testing"

// Schedules with jobs do what jobs are about, often enough to break what could
// break; usual ones, in which most happens.
func TestJobsAreTried(t *testing.T) {
	count := uint64(75)
	if isLong() {
		count = 1000
	}
	var total JobCounts
	with := uint64(0)
	for seed := uint64(1); seed <= count; seed++ {
		r := Run(Options{Seed: seed, Usual: true})
		if total.Add(&r.Jobs); r.Jobs.Frames > 0 {
			with++
		}
	}
	t.Logf("%d of %d schedules have jobs: %+v", with, count, total)
	for what, c := range map[string]struct{ is, least uint64 }{
		"schedules with jobs": {with, count / 3},
		"claims":              {total.Claims, 10 * count},
		"starts":              {total.Starts, 10 * count},
		"retries":             {total.Retries, count},
		"unclaimed":           {total.Unclaimed, count / 100},
		"lost":                {total.Lost, count / 20},
		"refused starts":      {total.Refused, count / 300},
		"ledgers not saved":   {total.Unsaved, count / 10},
		"ledgers lost":        {total.Forgotten, count / 30},
	} {
		if c.is < c.least {
			t.Errorf("%s: %d in %d schedules, want at least %d", what, c.is, count, c.least)
		}
	}
}

// Jobs have chance and disks of their own, and datagrams too where ports are clear: a seed plays the same election with
// them and without. Sealed ports have one session for both.
func TestJobsDoNotMoveTheElection(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		with, without := Run(Options{Seed: seed, Port: ClearPort}), Run(Options{Seed: seed, Port: ClearPort, noJobs: true})
		isSame := with.Steps == without.Steps && with.Frames == without.Frames && with.Faults == without.Faults
		if !isSame || with.Lasted != without.Lasted {
			t.Errorf("seed %d: %d steps and %d frames with jobs, %d and %d without", seed, with.Steps, with.Frames,
				without.Steps, without.Frames)
		}
	}
}

func BenchmarkSchedules(b *testing.B) {
	for _, c := range []struct {
		name   string
		noJobs bool
	}{{"with", false}, {"without", true}} {
		b.Run(c.name+"-jobs", func(b *testing.B) {
			seed := uint64(0)
			var steps uint64
			for b.Loop() {
				seed++
				r := Run(Options{Seed: seed%200 + 1, noJobs: c.noJobs})
				steps += r.Steps
			}
			b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
		})
	}
}
