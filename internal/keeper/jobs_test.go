package keeper

import (
	"context"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/hookrun"
)

// works is a desk whose keeper runs jobs.
func (r *rig) works() *desk {
	r.t.Helper()
	d := r.open(r.config(nil))
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if err := d.Jobs().Recover(ctx); err != nil {
		r.t.Fatal(err)
	}
	stop := make(chan struct{})
	go func() { defer close(stop); _ = d.Jobs().Run(context.Background()) }()
	r.t.Cleanup(func() { d.end(); <-stop })
	return d
}

// begin configures the job, and begins a run of it.
func (d *desk) begin(id, script string) {
	d.reload(d.settings.with(id, "cd "+d.Dir.Name+"; "+script))
	d.Jobs().Begin(jobOrder(d.owner, id))
}

func (d *desk) ends() hooks.JobResult {
	d.t.Helper()
	select {
	case res := <-d.Jobs().Results():
		return res
	case <-time.After(patience):
		d.t.Fatalf("no run has ended\n%s", d.log)
		return hooks.JobResult{}
	}
}

// A command runs as package hookrun says, though in another process, and ends when it is
// told to.
func TestAJobRuns(t *testing.T) {
	r := newRig(t)
	d := r.works()
	d.Renew(clock().Add(patience), false)
	d.begin("free", "echo said; exit 3")
	if res := d.ends(); res != (hooks.JobResult{ID: "free", Job: "free", Exit: 3}) {
		t.Errorf("result %+v", res)
	}
	rows, err := d.Jobs().Rows("free")
	if err != nil || len(rows) != 1 || rows[0].Exit != 3 {
		t.Fatalf("rows %+v (%v)", rows, err)
	}
	if out, err := d.Jobs().Output(rows[0]); err != nil || string(out) != "said\n" {
		t.Errorf("output %q (%v)", out, err)
	}
	d.begin("free", "echo x >up; exec sleep 1000")
	r.UntilFile("up")
	d.Jobs().End("free", hooks.JobTimedOut)
	if res := d.ends(); res.Cause != hooks.JobTimedOut || res.Exit != 143 {
		t.Errorf("result %+v", res)
	}
	d.begin("tied", "echo x >tied; exec sleep 1000")
	r.UntilFile("tied")
	d.Jobs().Lost("leadership-lost")
	if res := d.ends(); res.Cause != "leadership-lost" {
		t.Errorf("result %+v", res)
	}
	d.Renew(clock().Add(-time.Second), false)
	d.begin("free", "echo x >late")
	if res := d.ends(); !res.TooLate || r.Text("late") != "" {
		t.Errorf("a lease that has ended: %+v", res)
	}
}

// An attempt has the time that its agent asks for, and never longer than the job's own: to ask
// for none is to ask for more.
func TestAnAttemptHasNoLongerThanItsJob(t *testing.T) {
	for _, tt := range []struct{ own, asked, want time.Duration }{
		{10 * time.Second, 0, 10 * time.Second},
		{10 * time.Second, -1, 10 * time.Second},
		{10 * time.Second, 5 * time.Second, 5 * time.Second},
		{10 * time.Second, 10 * time.Second, 10 * time.Second},
		{10 * time.Second, 20 * time.Second, 10 * time.Second},
		{0, 0, 0},
		{0, -1, 0},
		{0, 20 * time.Second, 20 * time.Second},
	} {
		if got := (Job{Timeout: tt.own}).within(tt.asked); got != tt.want {
			t.Errorf("of a job with %v an attempt that is to have %v has %v, want %v", tt.own, tt.asked, got, tt.want)
		}
	}
}

// A lease that is renewed while a leadership ends is that of what is told to end.
func TestAJobInAPlannedEnd(t *testing.T) {
	r := newRig(t)
	d := r.works()
	d.settings.Hooks.Grace = patience
	d.Renew(clock().Add(patience), false)
	d.begin("tied", "trap 'sleep 2; exit 5' TERM; echo x >up; while :; do sleep 0.01; done")
	r.UntilFile("up")
	d.Renew(clock().Add(time.Second), false)
	d.Jobs().Lost("leadership-lost")
	for range 20 {
		d.Ending(clock().Add(time.Second), false)
		time.Sleep(100 * time.Millisecond)
	}
	d.Ending(clock().Add(patience), false)
	if res := d.ends(); res.Exit != 5 {
		t.Errorf("result %+v, want that it had its grace", res)
	}
}

// The agent is killed: all that it ran ends at once, tied to the leadership or not, and
// what it printed is kept.
func TestAgentKilledWithJobs(t *testing.T) {
	r := newRig(t)
	script := func(name string) string {
		return "cd " + r.Dir.Name + "; echo said; echo $$ >" + name + "; exec sleep 1000"
	}
	a := r.agent(agentOrder{Lease: patience, Job: script("tied"), Free: script("free")}, r.config(scripts{hooks.LoseLeadership: note}))
	tied, free := r.death(r.PID("tied")), r.death(r.PID("free"))
	a.signal(unix.SIGKILL)
	tied()
	free()
	r.untilQuiet()
	r.ordered("lose-leadership:agent-died:7")
	rows, err := hookrun.HistoryIn(r.Path("state")).Rows("")
	if err != nil || len(rows) != 2 || rows[0].Cause != hooks.CauseAgentDied || rows[0].Err != "" || rows[0].Printed != 5 {
		t.Errorf("rows %+v (%v)", rows, err)
	}
}

// The agent is stopped: what is tied to the leadership is dead when the lease has ended,
// and the rest goes on.
func TestAgentStoppedWithJobs(t *testing.T) {
	const lease = time.Second
	r := newRig(t)
	script := func(name string) string { return "cd " + r.Dir.Name + "; echo $$ >" + name + "; " + stubborn }
	a := r.agent(agentOrder{Lease: lease, Job: script("tied"), Free: script("free")}, r.config(nil))
	tied, free := r.death(r.PID("tied")), r.PID("free")
	stopped := a.signal(unix.SIGSTOP)
	// What is added is for a loaded machine, not for the code: nobody else would ever end it.
	if took := tied().Sub(stopped); took > lease+time.Second/2 {
		t.Errorf("it died %v after the agent was stopped, want within the lease of %v", took, lease)
	}
	if err := unix.Kill(free, 0); err != nil {
		t.Errorf("what is not tied: %v", err)
	}
}

// The keeper is killed: what it ran is dead when the agent hears of it, and nothing
// begins before.
func TestKeeperKilledWithJobs(t *testing.T) {
	r := newRig(t)
	d := r.works()
	d.begin("free", "echo $$ >pid; setsid sleep 1000 & "+stubborn)
	death := r.death(r.PID("pid"))
	r.kill(d.Status().Process, unix.SIGKILL)
	res := d.ends()
	if res.ID != "free" || res.Cause != hooks.JobKeeperDied || res.Exit != 137 || !strings.Contains(res.Err, "keeper") {
		t.Errorf("result %+v", res)
	}
	death()
	if left := r.Living(); len(left) > 0 {
		t.Errorf("%d processes live", len(left))
	}
	d.begin("again", "exit 4")
	if res := d.ends(); res.Exit != 4 {
		t.Errorf("result %+v", res)
	}
}
