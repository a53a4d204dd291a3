package e2e

import (
	"bufio"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Singleton jobs on real hosts: whatever happens to leaders, in quorum mode no
// slot is started twice.

// jobTable has a job every second for each policy about missed slots, and one
// that is always running. $STARTS is where they write what they do.
const jobTable = `
[[job]]
name = "skip"
schedule = "@every 1s"
command = 'echo "$BULLY_JOB $BULLY_JOB_SLOT $BULLY_NODE $BULLY_EPOCH" >>$STARTS'
timeout = "2s"

[[job]]
name = "once"
schedule = "@every 1s"
command = 'echo "$BULLY_JOB $BULLY_JOB_SLOT $BULLY_NODE $BULLY_EPOCH" >>$STARTS'
timeout = "2s"
missed = "once"

[[job]]
name = "all"
schedule = "@every 1s"
command = 'echo "$BULLY_JOB $BULLY_JOB_SLOT $BULLY_NODE $BULLY_EPOCH" >>$STARTS; sleep 0.2'
timeout = "2s"
missed = "all"
overlap = "allow"

[[job]]
name = "long"
schedule = "@every 5s"
command = 'echo "$BULLY_JOB $BULLY_JOB_SLOT $BULLY_NODE $BULLY_EPOCH" >>$STARTS; trap "" TERM; while :; do sleep 0.05; touch $STARTS.$BULLY_NODE; done'
timeout = "30s"
overlap = "replace"
`

// withJobs gives all hosts the table, and says where the jobs write.
func (l *lan) withJobs(table string) (starts string) {
	l.t.Helper()
	starts = filepath.Join(l.dir, "starts")
	file := filepath.Join(l.dir, "agent.toml")
	must(l.t, os.WriteFile(file, []byte(strings.ReplaceAll(table, "$STARTS", starts)), 0o600))
	l.options = append(l.options, "--config", file, "--hook-grace", "500ms")
	return starts
}

// jobStart is one line that a job has written.
type jobStart struct {
	job, host string
	slot      time.Time
	epoch     uint64
}

func readStarts(t *testing.T, path string) (all []jobStart) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var s jobStart
		var slot string
		_, err := fmt.Sscan(lines.Text(), &s.job, &slot, &s.host, &s.epoch)
		must(t, err)
		s.slot, err = time.Parse(time.RFC3339, slot)
		must(t, err)
		all = append(all, s)
	}
	return all
}

// judgeStarts fails the test if a slot was started twice, and says how many were
// started at all.
func judgeStarts(t *testing.T, starts []jobStart) {
	t.Helper()
	seen := map[string]map[time.Time]jobStart{}
	for _, s := range starts {
		if seen[s.job] == nil {
			seen[s.job] = map[time.Time]jobStart{}
		}
		if other, twice := seen[s.job][s.slot]; twice {
			t.Errorf("slot %v of job %s was started twice: on %s in epoch %d, and on %s in epoch %d",
				s.slot, s.job, other.host, other.epoch, s.host, s.epoch)
		}
		seen[s.job][s.slot] = s
	}
	for _, job := range slices.Sorted(maps.Keys(seen)) {
		slots := slices.SortedFunc(maps.Keys(seen[job]), time.Time.Compare)
		step := time.Second
		if job == "long" {
			step = 5 * time.Second
		}
		total := int(slots[len(slots)-1].Sub(slots[0])/step) + 1
		t.Logf("job %-4s: %d slots, %d run, %d missed, none twice", job, total, len(slots), total-len(slots))
	}
}

// A job every second, and a leader that dies again and again: two times in a run
// that everybody waits for, twenty times in ten minutes with BULLY_E2E=long.
func TestJobsOutliveTheirLeaders(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	kills, every := 2, 12*time.Second
	if os.Getenv("BULLY_E2E") == "long" {
		kills, every = 20, 30*time.Second
	}
	l := newLAN(t, 5, "--expect", "5")
	l.hasRoomToLetGo()
	starts := l.withJobs(jobTable)
	l.start()
	l.agreeOn(l.best())
	for range kills {
		// At any time within a second, since slots are at its beginning.
		time.Sleep(every/2 + time.Duration(rand.N(time.Second)))
		h := l.agree()
		h.kill()
		l.agree()
		time.Sleep(every / 2)
		h.start()
	}
	l.agreeOn(l.best())
	time.Sleep(5 * time.Second)
	all := readStarts(t, starts)
	judgeStarts(t, all)
	t.Logf("%d kills", kills)
	hosts := map[string]bool{}
	for _, s := range all {
		hosts[s.host] = true
	}
	if len(hosts) < 2 {
		t.Errorf("jobs ran on %v only", slices.Sorted(maps.Keys(hosts)))
	}
	if n := len(all); n < kills*int(every/time.Second) {
		t.Errorf("%d starts in all", n)
	}
	for _, h := range l.hosts {
		s, err := h.status()
		must(t, err)
		for _, note := range s.Notes {
			if strings.Contains(note, "job") {
				t.Errorf("%s notes: %s", h, note)
			}
		}
	}
	l.sayJobs(l.best())
}

// sayJobs prints what the leader counts and knows.
func (l *lan) sayJobs(h *host) {
	l.t.Helper()
	s, err := h.status()
	must(l.t, err)
	for _, name := range slices.Sorted(maps.Keys(s.Counters)) {
		if strings.HasPrefix(name, "job_") {
			l.t.Logf("%s counts %s: %d", h, name, s.Counters[name])
		}
	}
}

// What a job runs on a host that is cut off, whose agent is stopped, or killed, is
// dead before another host runs it: a leader that cannot end it has a holder that
// does.
func TestNoJobRunsOnTwoHosts(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	for name, fault := range map[string]struct{ begin, end func(l *lan, h *host) }{
		"killed":  {func(_ *lan, h *host) { h.kill() }, func(_ *lan, h *host) { h.start() }},
		"stopped": {func(_ *lan, h *host) { h.pause() }, func(_ *lan, h *host) { h.resume() }},
		"cut off": {func(l *lan, h *host) { l.cut(h) }, func(l *lan, h *host) { l.plug(h) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 3, "--expect", "3")
			l.hasRoomToLetGo()
			starts := l.withJobs(jobTable)
			l.start()
			best, next := l.best(), l.next()
			l.agreeOn(best)
			alive := func(h *host) time.Time { // when its long run last moved
				info, err := os.Stat(starts + "." + h.name)
				if err != nil {
					return time.Time{}
				}
				return info.ModTime()
			}
			l.eventually("the long job runs", patience, func() error {
				if time.Since(alive(best)) > time.Second {
					return fmt.Errorf("it does not")
				}
				return nil
			})
			fault.begin(l, best)
			others := slices.DeleteFunc(slices.Clone(l.hosts), func(h *host) bool { return h == best })
			l.agreeOn(next, others...)
			led := time.Now()
			if last := alive(best); last.After(led) {
				t.Errorf("the long job moves on %s %v after %s leads", best, last.Sub(led), next)
			}
			// The timeout of what vanished has ended after half a minute; until then it
			// blocks that job, and no other.
			l.eventually("the next leader runs jobs", patience, func() error {
				for _, s := range readStarts(t, starts) {
					if s.host == next.name && s.job == "all" {
						return nil
					}
				}
				return fmt.Errorf("nothing has started on it")
			})
			if last := alive(best); last.After(led) {
				t.Errorf("the long job moves on %s %v after %s leads", best, last.Sub(led), next)
			}
			fault.end(l, best)
			l.agreeOn(best)
			l.eventually("its host says that the run has ended", patience, func() error { // others may hear of it half a minute later
				runs, err := best.client.JobRuns(t.Context(), "long")
				if err != nil || len(runs) == 0 {
					return fmt.Errorf("%d runs, %v", len(runs), err)
				}
				if first := runs[0]; first.Outcome == "open" {
					return fmt.Errorf("it is %s", first.Phase)
				}
				return nil
			})
			judgeStarts(t, readStarts(t, starts))
		})
	}
}

// A planned hand-over waits until what jobs run has ended, with its grace, before
// the lose hook runs; nothing of it is cut off by the lease.
func TestHandOverWaitsForJobs(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	l := newLAN(t, 3, "--expect", "3", "--preempt", "never")
	l.hasRoomToLetGo()
	said := l.withJobs(`
[[job]]
name = "careful"
schedule = "@every 1s"
command = 'trap "sleep 1; echo careful 2026-01-01T00:00:00Z $BULLY_NODE $BULLY_EPOCH >>$STARTS; exit 0" TERM; touch $STARTS.begun; while :; do sleep 0.05; done'
timeout = "1m"
`)
	l.options = append(l.options, "--hook-grace", "5s")
	l.start()
	first := l.agree()
	l.knowEachOther()
	l.eventually("the job runs", patience, func() error {
		_, err := os.Stat(said + ".begun")
		return err
	})
	to := l.hosts[0]
	if to == first {
		to = l.hosts[1]
	}
	l.order(first, "step-down", "--to", to.name)
	l.agreeOn(to)
	if all := readStarts(t, said); len(all) == 0 || all[0].host != first.name {
		t.Errorf("the job was not left the time to end: %+v", all)
	}
	l.journal.order(on(first, loseBegin), on(first, loseEnd), on(to, becomeBegin).because("handed-over"))
	l.gap(on(first, loseEnd), on(to, becomeBegin))
}
