package holder

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The commands of whom an agent's death must leave nothing. Each writes "up" when
// it is as its name says.
var stubborn = map[string]string{
	"sleeps":                         "echo x >up; exec sleep 1000",
	"ignores TERM":                   "trap '' TERM; echo x >up; while :; do sleep 0.01; done",
	"closed its output":              "exec <&- >&- 2>&-; echo x >up; exec sleep 1000",
	"has stopped itself":             "echo x >up; kill -STOP $$",
	"has 200 children":               "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; echo x >up; wait",
	"has 200 children in sessions":   "trap '' TERM; i=0; while [ $i -lt 200 ]; do setsid sleep 1000 & i=$((i+1)); done; echo x >up; wait",
	"has children that ignore TERM":  "trap '' TERM; sleep 1000 & sleep 1000 & echo x >up; wait",
	"daemon: forked twice, setsid":   "setsid sh -c 'trap \"\" TERM; (sleep 1000 &) ; echo x >up' & while [ ! -s up ]; do sleep 0.01; done; sleep 1000",
	"forks in a loop":                "echo x >up; while :; do sleep 0.01 & wait; done",
	"forks in sessions in a loop":    "trap '' TERM; echo x >up; while :; do setsid sleep 1; done",
	"has its children in a pipeline": "echo x >up; yes | cat >/dev/null",
}

// kill -9 of the agent, with its whole process group: the holder is not in
// that group, ends the command, and the next start learns it.
func TestAgentKilled(t *testing.T) {
	t.Parallel()
	for name, script := range stubborn {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && !strings.Contains(name, "200 children") {
				t.Skip("one of many; without -short")
			}
			reaches(t, func(t *testing.T, cgroup string) {
				r := newRig(t)
				s := r.settings(script)
				s.Cgroup = cgroup
				a := r.agent(agentOrder{Config: s, Lease: patience, Every: 50 * time.Millisecond})
				a.report(Running)
				r.UntilFile("up")
				a.signal(unix.SIGKILL)
				r.lost(a.theRecord(), false)
			})
		})
	}
}

// lost checks that a holder has ended its command, and that nothing lives.
func (r *rig) lost(got Record, silent bool) {
	r.t.Helper()
	report := got.Report
	if report.Stage != Ended || report.Cause != AgentDied || report.Silent != silent || report.Err != "" {
		r.t.Errorf("record %+v", got)
	}
	if left := r.Living(); len(left) > 0 {
		r.t.Errorf("%d processes live", len(left))
	}
	if report.Cgroup != "" {
		if _, err := os.Stat(report.Cgroup); err == nil {
			r.t.Errorf("the cgroup %s is still there", report.Cgroup)
		}
	}
}

// An agent that is stopped says nothing and closes nothing: the deadline does it.
// When the agent goes on it learns of it. The command itself notes when it lived: what
// a busy machine does late is not its death, as it would be to who watches it.
func TestAgentStopped(t *testing.T) {
	t.Parallel()
	const lease, budget = 2 * time.Second, time.Second                                       // for a busy machine
	const lives = "while :; do read t rest </proc/uptime; echo $t >>lives; sleep 0.01; done" // of the clock that has the leases
	for name, script := range map[string]string{
		"heeds TERM":   "trap 'exit 0' TERM; " + lives,
		"ignores TERM": "trap '' TERM; " + lives,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			s := r.settings(script)
			s.Budget, s.Grace = budget, patience
			a := r.agent(agentOrder{Config: s, Lease: lease, Every: 20 * time.Millisecond})
			a.report(Running)
			r.UntilFile("lives")
			stopped := a.signal(unix.SIGSTOP)
			r.lost(r.theRecord(), true)
			if lived := r.lastLived().Sub(stopped); lived > lease {
				t.Errorf("it lived %v after the agent was stopped, want it dead within the lease of %v", lived, lease)
			}
			if took := now().Sub(stopped); took < lease-budget-100*time.Millisecond {
				t.Errorf("the agent was given up after %v, with a lease of %v", took, lease)
			}
			a.signal(unix.SIGCONT)
			if report := a.report(Ended); report.Cause != AgentDied || !report.Silent {
				t.Errorf("the agent learns %+v", report)
			}
		})
	}
}

// lastLived is what the command noted last of when it lived.
func (r *rig) lastLived() time.Time {
	r.t.Helper()
	times := strings.Fields(r.Text("lives"))
	seconds, err := strconv.ParseFloat(times[len(times)-1], 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return time.Unix(0, int64(seconds*float64(time.Second)))
}

// Holder and agent frozen together, over the deadline: on waking the holder ends the
// command at once.
func TestAllFrozen(t *testing.T) {
	const lease = 400 * time.Millisecond
	r := newRig(t)
	s := r.settings("trap '' TERM; echo x >up; while :; do sleep 0.01; done")
	s.Grace = patience
	a := r.agent(agentOrder{Config: s, Lease: lease, Every: 20 * time.Millisecond})
	holder := a.report(Running).Holder
	r.UntilFile("up")
	a.signal(unix.SIGSTOP)
	if err := unix.Kill(holder, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	wake := now().Add(lease)
	r.Until("the end of the lease", func() bool { return now().After(wake) })
	if err := unix.Kill(holder, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.lost(r.theRecord(), true)
}

// Agent and holder killed: the next start ends what is left.
func TestStarterAndHolderKilled(t *testing.T) {
	t.Parallel()
	reaches(t, func(t *testing.T, cgroup string) {
		r := newRig(t)
		s := r.settings("setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' & sleep 1000 & echo x >up; wait")
		s.Cgroup = cgroup
		a := r.agent(agentOrder{Config: s, Lease: patience, Every: 50 * time.Millisecond})
		running := a.report(Running)
		holder, death := running.Holder, r.death(running.Group)
		r.UntilFile("up")
		if err := unix.Kill(holder, unix.SIGSTOP); err != nil { // so that it does not see the agent's death
			t.Fatal(err)
		}
		a.signal(unix.SIGKILL)
		if err := unix.Kill(holder, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		death() // of the first process, without anybody's doing but the kernel's
		got := r.theRecord()
		if got.Report.Err != errKilled || got.Report.Holder != holder {
			t.Errorf("record %+v", got)
		}
		if left := r.Living(); len(left) > 0 {
			t.Errorf("%d processes live", len(left))
		}
	})
}

// The next start waits for a holder that still ends its command, and not for ever.
func TestRecoverWaitsForAHolder(t *testing.T) {
	r := newRig(t)
	s := r.settings("trap 'echo x >asked' TERM; echo x >up; while [ ! -s go ]; do sleep 0.01; done")
	s.Grace = patience
	a := r.agent(agentOrder{Config: s})
	a.report(Running)
	r.UntilFile("up")
	a.signal(unix.SIGKILL)
	r.UntilFile("asked")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if records, err := left(ctx, r.Path("records")); err == nil || len(records) != 0 || !strings.Contains(err.Error(), "its holder still works") {
		t.Errorf("%d records, %v", len(records), err)
	}
	if err := os.WriteFile(r.Path("go"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.lost(r.theRecord(), false)
	if err := r.theRecord().remove(); err != nil {
		t.Fatal(err)
	}
	if records := r.recovered(); len(records) != 0 {
		t.Errorf("records %+v after Remove", records)
	}
}

// The next start does not wait for ever for a holder that is stopped.
func TestRecoverEndsAHolderThatIsStopped(t *testing.T) {
	r := newRig(t)
	a := r.agent(agentOrder{Config: r.settings("exec sleep 1000")})
	holder := a.report(Running).Holder
	if err := unix.Kill(holder, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	a.signal(unix.SIGKILL)
	r.hurry()
	if got := r.theRecord().Report; got.Err != errKilled || got.Holder != holder {
		t.Errorf("report %+v", got)
	}
	if left := r.Living(); len(left) > 0 {
		t.Errorf("%d processes live", len(left))
	}
}

// hurry takes the patience out of the only record.
func (r *rig) hurry() {
	r.t.Helper()
	paths, _ := filepath.Glob(filepath.Join(r.Path("records"), recordPattern))
	file, err := os.OpenFile(paths[0], os.O_RDWR, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	defer file.Close()
	rec, ok, err := read(file)
	rec.Patience = time.Millisecond
	if err == nil && ok {
		w := record{file: file, Record: rec}
		err = w.note(rec.Report, false)
	}
	if err != nil || !ok {
		r.t.Fatal(ok, err)
	}
}
