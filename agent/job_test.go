package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// jobLog is what the jobs of all hosts have done.
type jobLog struct {
	mu     sync.Mutex
	starts []string // "job slot host", in order
}

func (l *jobLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.starts)
}

// twice names the first (job, slot) that was started more than once.
func (l *jobLog) twice() string {
	seen := map[string]string{}
	for _, line := range l.all() {
		i := strings.LastIndexByte(line, ' ')
		if other, again := seen[line[:i]]; again {
			return line + " and " + other
		}
		seen[line[:i]] = line[i+1:]
	}
	return ""
}

// fakeJobs runs jobs without processes: each takes a while of fake time, unless
// it is ended, as what is tied to the leadership is when that is lost.
type fakeJobs struct {
	host    string
	log     *jobLog
	takes   time.Duration
	results chan hooks.JobResult

	mu      sync.Mutex
	running map[string]*fakeRun
	ended   []string // "job cause", of what was ended
	onLost  func()   // nil: nothing
	known   []string // jobs that Sweep was told of, out of a and b
}

type fakeRun struct {
	hooks.JobAttempt
	timer *time.Timer
}

func newFakeJobs(host string, log *jobLog, takes time.Duration) *fakeJobs {
	return &fakeJobs{host: host, log: log, takes: takes, results: make(chan hooks.JobResult, 64), running: map[string]*fakeRun{}}
}

func (f *fakeJobs) Begin(o hooks.JobAttempt) {
	f.log.mu.Lock()
	f.log.starts = append(f.log.starts, fmt.Sprintf("%s %d %s", o.Job, o.Slot.Unix(), f.host))
	f.log.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[o.ID] = &fakeRun{o, time.AfterFunc(f.takes, func() { f.finish(o.ID, "", 0) })}
}

// finish ends a run, if it goes on.
func (f *fakeJobs) finish(id, cause string, exit uint8) {
	f.report(hooks.JobResult{ID: id, Exit: exit}, cause)
}

// report is finish with all that a holder may say.
func (f *fakeJobs) report(res hooks.JobResult, cause string) {
	id := res.ID
	f.mu.Lock()
	run := f.running[id]
	delete(f.running, id)
	if run != nil && cause != "" {
		f.ended = append(f.ended, run.Job+" "+cause)
	}
	f.mu.Unlock()
	if run != nil {
		run.timer.Stop()
		res.Job = run.Job
		f.results <- res
	}
}

func (f *fakeJobs) End(id, cause string) { f.finish(id, cause, 143) }

func (f *fakeJobs) Lost(cause string) {
	if f.onLost != nil {
		f.onLost()
	}
	for _, id := range f.open(func(r *fakeRun) bool { return r.Tied }) {
		f.finish(id, cause, 143)
	}
}

func (f *fakeJobs) open(isMeant func(*fakeRun) bool) (ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, run := range f.running {
		if isMeant(run) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Run ends with the agent, and so does all that it runs.
func (f *fakeJobs) Run(ctx context.Context) error {
	<-ctx.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, run := range f.running {
		run.timer.Stop()
		delete(f.running, id)
	}
	return nil
}

func (f *fakeJobs) endings() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ended)
}

func (f *fakeJobs) Sweep(known []string) {
	for _, job := range []string{"a", "b"} {
		if slices.Contains(known, job) {
			f.known = append(f.known, job)
		}
	}
}

func (f *fakeJobs) Recover(context.Context) error       { return nil }
func (f *fakeJobs) Results() <-chan hooks.JobResult     { return f.results }
func (f *fakeJobs) Rows(string) ([]hooks.JobRun, error) { return nil, nil }
func (f *fakeJobs) Output(hooks.JobRun) ([]byte, error) { return nil, nil }

// someJob is a job that runs every so often.
func someJob(name, schedule string, change func(*jobs.Job)) Job {
	s, err := jobs.ParseSchedule(schedule, name, nil)
	if err != nil {
		panic(err)
	}
	j := Job{Job: jobs.Job{Name: name, Schedule: s, Timeout: time.Minute}, Command: hooks.Command{Shell: "true"}}
	if change != nil {
		change(&j.Job)
	}
	return j
}

// withJobs gives all hosts a table, and runs that take a while.
func (c *cluster) withJobs(takes time.Duration, table ...Job) *jobLog {
	log := &jobLog{}
	for _, h := range c.hosts {
		also := h.settings
		h.settings = func(cfg *Config) {
			h.jobs = newFakeJobs(h.name, log, takes)
			cfg.JobRunner, cfg.Jobs = h.jobs, table
			cfg.Reload = func() (Reloaded, error) { return Reloaded{Jobs: table, Seeds: cfg.Seeds, Priority: h.priority}, nil }
			if also != nil {
				also(cfg)
			}
		}
	}
	return log
}

// job is how h shows a job.
func (c *cluster) job(h *testHost, name string) control.Job {
	c.t.Helper()
	all, err := h.agent.Jobs(context.Background(), 2)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, j := range all {
		if j.Name == name {
			return j
		}
	}
	c.t.Fatalf("%s shows no job %s", h.name, name)
	return control.Job{}
}

// isNoted reports whether the status of h has a note with these words.
func isNoted(h *testHost, words string) bool {
	return slices.ContainsFunc(h.agent.Status().Notes, func(n string) bool { return strings.Contains(n, words) })
}

// A job every second in quorum mode, and a leader that is killed again and
// again: no slot is started twice, and somebody goes on.
func TestNoSlotRunsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.expecting(3)
		log := c.withJobs(300*time.Millisecond,
			someJob("once", "@every 1s", func(j *jobs.Job) { j.Missed = jobs.MissedOnce }),
			someJob("all", "@every 1s", func(j *jobs.Job) { j.Missed, j.Overlap = jobs.MissedAll, jobs.OverlapAllow }))
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(c.hosts[2])
		kills := 6
		if testing.Short() {
			kills = 2
		}
		for range kills {
			time.Sleep(10 * time.Second)
			before := len(log.all())
			h := c.leader()
			c.kill(h)
			time.Sleep(15 * time.Second)
			if after := len(log.all()); after < before+10 {
				t.Errorf("%d starts in 15 s after a kill", after-before)
			}
			c.start(h)
		}
		time.Sleep(10 * time.Second)
		if twice := log.twice(); twice != "" {
			t.Errorf("a slot was started twice: %s", twice)
		}
		first, last := slotRange(log.all(), "all")
		n := 0
		for _, line := range log.all() {
			if strings.HasPrefix(line, "all ") {
				n++
			}
		}
		t.Logf("%d kills, %d slots, %d of them started with missed = all", kills, last-first+1, n)
		if int64(n) < (last-first+1)*8/10 {
			t.Errorf("%d slots ran of %d", n, last-first+1)
		}
		for _, h := range c.hosts {
			if j := c.job(h, "once"); j.Last == nil || j.Timezone != "UTC" || len(j.Next) != 2 {
				t.Errorf("%s shows %+v", h.name, j)
			}
		}
		c.stopAll()
	})
}

// A slot that passes between two leaders runs at the next one, once, and though the
// job makes up for nothing.
func TestSlotOfAFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.expecting(3)
		log := c.withJobs(300*time.Millisecond, someJob("tick", "@every 20s", nil))
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(c.hosts[2])
		time.Sleep(20 * time.Second)
		for range 3 {
			next := wallClock().Truncate(20 * time.Second).Add(20 * time.Second)
			time.Sleep(next.Sub(wallClock()) - 100*time.Millisecond)
			h := c.leader()
			c.kill(h)
			time.Sleep(10 * time.Second)
			if starts := log.all(); !strings.HasPrefix(starts[len(starts)-1], fmt.Sprintf("tick %d ", next.Unix())) {
				t.Errorf("the slot of %d did not run: %q", next.Unix(), starts)
			}
			c.start(h)
			time.Sleep(15 * time.Second)
		}
		if twice := log.twice(); twice != "" {
			t.Errorf("a slot was started twice: %s", twice)
		}
		c.stopAll()
	})
}

func slotRange(starts []string, job string) (first, last int64) {
	for _, line := range starts {
		var name string
		var slot int64
		fmt.Sscan(line, &name, &slot)
		if name != job {
			continue
		}
		if first == 0 {
			first = slot
		}
		last = max(last, slot)
	}
	return first, last
}

// What a leader runs ends with its leadership, or goes on, as the job says; and
// all of it ends with the agent.
func TestOnLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.withJobs(time.Hour, someJob("kill", "@yearly", nil),
			someJob("finish", "@yearly", func(j *jobs.Job) { j.OnLoss, j.Timeout = jobs.OnLossFinish, 0 }))
		for _, h := range c.hosts {
			c.start(h)
		}
		top := c.hosts[2]
		c.agrees(top)
		time.Sleep(5 * time.Second)
		for _, job := range []string{"kill", "finish"} {
			if err := top.order("job-run", map[string]string{"job": job}); err != nil {
				t.Fatal(err)
			}
		}
		if err := top.order("step-down", map[string]string{"for": "1h"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if got := top.jobs.endings(); !slices.Equal(got, []string{"kill killed"}) {
			t.Errorf("ended when the leadership was: %q", got)
		}
		for _, h := range c.hosts {
			if j := c.job(h, "kill"); j.Last == nil || j.Last.Outcome != "killed" || j.Last.Host != "n3" || len(j.Open) != 0 {
				t.Errorf("%s shows the job that was killed as %+v", h.name, j)
			}
			if j := c.job(h, "finish"); j.State != "running" || len(j.Open) != 1 || j.Open[0].Host != "n3" {
				t.Errorf("%s shows the job that goes on as %+v", h.name, j)
			}
		}
		// It blocks the job at the new leader.
		expectRefusal(t, c.leader().order("job-run", map[string]string{"job": "finish"}), "blocked-by-another-host")

		next := c.leader()
		top.stop()
		if err := <-top.done; err != nil {
			t.Fatal(err)
		}
		top.agent = nil
		if got := top.jobs.endings(); !slices.Equal(got, []string{"kill killed", "finish killed"}) {
			t.Errorf("ended when the agent was: %q", got)
		}
		time.Sleep(time.Second)
		if j := c.job(next, "finish"); j.Last == nil || j.Last.Outcome != "killed" || len(j.Open) != 0 {
			t.Errorf("the next leader shows %+v", j)
		}
		c.stopAll()
	})
}

// A lease that was lost leaves little time: what runs under it is told to end before the
// lose hook begins.
func TestJobsAreToldOfALossBeforeTheHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.withJobs(time.Hour, someJob("kill", "@yearly", nil))
		for _, h := range c.hosts {
			c.start(h)
		}
		top := c.hosts[1]
		c.agrees(top)
		time.Sleep(5 * time.Second)
		if err := top.order("job-run", map[string]string{"job": "kill"}); err != nil {
			t.Fatal(err)
		}
		top.agent.calls <- func() {
			top.jobs.onLost = func() { top.hooks.set(func(f *fakeOutcomes) { f.told = append(f.told, "lost") }) }
			time.Sleep(time.Second) // it stands still until the lease has ended
		}
		time.Sleep(2 * time.Second)
		top.hooks.set(func(f *fakeOutcomes) {
			if want := []string{"lost", "lose-leadership lease-expired"}; len(f.told) < 3 || !slices.Equal(f.told[1:3], want) {
				t.Errorf("the keeper was told %q, want %q after the beginning", f.told, want)
			}
		})
		if got := top.jobs.endings(); !slices.Equal(got, []string{"kill killed"}) {
			t.Errorf("ended: %q", got)
		}
		if j := c.job(c.hosts[0], "kill"); j.Last == nil || j.Last.Outcome != "killed" {
			t.Errorf("the other host shows %+v", j)
		}
		c.stopAll()
	})
}

// run is for the leader, and says who that is; pause and resume are for any host.
func TestJobCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.expecting(3)
		log := c.withJobs(100*time.Millisecond, someJob("tick", "@every 1s", nil), someJob("rare", "@yearly", nil))
		for _, h := range c.hosts {
			c.start(h)
		}
		low, top := c.hosts[0], c.hosts[2]
		c.agrees(top)
		time.Sleep(5 * time.Second)
		expectRefusal(t, low.order("job-run", map[string]string{"job": "rare"}), "not_leader", "run it on n3")
		expectRefusal(t, top.order("job-run", map[string]string{"job": "nothing"}), "unknown_job", `"nothing"`, "jobs list")
		expectRefusal(t, top.order("job-pause", map[string]string{"job": "nothing"}), "unknown_job")
		expectRefusal(t, top.order("job-run", nil), "usage")
		expectRefusal(t, top.order("job-pause", map[string]string{"job": "tick", "from_now": "true"}), "usage")
		expectRefusal(t, top.order("job-resume", map[string]string{"job": "tick", "from_now": "yes"}), "usage")
		if err := top.order("job-run", map[string]string{"job": "rare"}); err != nil {
			t.Error(err)
		}
		if err := low.order("job-pause", map[string]string{"job": "tick"}); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		before := len(log.all())
		time.Sleep(5 * time.Second)
		if after := len(log.all()); after != before {
			t.Errorf("%d slots of a paused job started", after-before)
		}
		for _, h := range c.hosts {
			if j := c.job(h, "tick"); !j.Paused || j.State != "paused" {
				t.Errorf("%s shows the paused job as %+v", h.name, j)
			}
		}
		if err := c.hosts[1].order("job-resume", map[string]string{"job": "tick"}); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if after := len(log.all()); after < before+3 {
			t.Errorf("%d slots started in 5 s after the pause", after-before)
		}
		runs, err := low.agent.JobRuns(context.Background(), "rare")
		if err != nil || len(runs) != 1 || runs[0].Host != "n3" || !runs[0].Manual || runs[0].Outcome != "succeeded" {
			t.Errorf("another host knows of %+v, %v", runs, err)
		}
		s := top.agent.Status()
		if s.Counters["job_started"] == 0 || s.Counters["job_ended_succeeded"] == 0 {
			t.Errorf("counters %v", s.Counters)
		}
		events, _ := top.agent.Events(0)
		if !slices.ContainsFunc(events, func(e control.Event) bool { return e.Type == "job" && e.Cause == "manual" }) {
			t.Error("no event tells of the run")
		}
		c.stopAll()
	})
}

// Where the tables differ, the hosts say with whom; a reload mends it.
func TestDifferentTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		table := []Job{someJob("a", "@daily", nil), someJob("b", "@daily", nil)}
		c.withJobs(time.Second, table...)
		odd := c.hosts[0]
		also := odd.settings
		odd.settings = func(cfg *Config) {
			also(cfg)
			cfg.Jobs = table[:1]
		}
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(c.hosts[2])
		time.Sleep(10 * time.Second)
		for h, others := range map[*testHost]string{odd: "n2, n3", c.hosts[1]: "n1", c.hosts[2]: "n1"} {
			if got := h.notesOn(t, strings.Split(others, ", ")[0]); !slices.Equal(got, []string{"jobs differ"}) {
				t.Errorf("%s lists the first of %s with the notes %q", h.name, others, got)
			}
			if !isNoted(h, "the jobs of "+others+" are not those of this host") {
				t.Errorf("%s notes %q", h.name, h.agent.Status().Notes)
			}
		}
		if err := odd.agent.Reload(context.Background(), false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		for _, h := range c.hosts {
			if isNoted(h, "the jobs of") {
				t.Errorf("%s still notes %q", h.name, h.agent.Status().Notes)
			}
		}
		c.job(odd, "b")
		digest := digestOf(table, time.Second)
		if digest != digestOf([]Job{table[1], table[0]}, time.Second) || digestOf(nil, time.Second) != 0 {
			t.Error("a table's digest depends on the order of its jobs, or that of none is not 0")
		}
		if digest == digestOf(table, 2*time.Second) {
			t.Error("a table's digest does not depend on the grace")
		}
		zoned := func(offset int) []Job {
			s, err := jobs.ParseSchedule("30 2 * * *", "a", time.FixedZone("Europe/Berlin", offset))
			if err != nil {
				t.Fatal(err)
			}
			return []Job{{Job: jobs.Job{Name: "a", Schedule: s}}}
		}
		if digestOf(zoned(3600), time.Second) == digestOf(zoned(7200), time.Second) {
			t.Error("a table's digest does not depend on the rules of its zones")
		}
		c.stopAll()
	})
}

// A disk that takes no writes: nothing starts that could not be written down, the
// status says so, and it goes on when the disk is back. The leadership goes on.
func TestJobsNeedTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		log := c.withJobs(100*time.Millisecond, someJob("tick", "@every 1s", nil))
		h := c.hosts[0]
		c.start(h)
		c.agrees(h)
		time.Sleep(5 * time.Second)
		move := func(from, to string) {
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		}
		move(h.dir, h.dir+".gone")
		time.Sleep(2 * time.Second)
		before := len(log.all())
		time.Sleep(5 * time.Second)
		if after := len(log.all()); after != before || before == 0 {
			t.Errorf("%d starts before the disk failed, %d while it did", before, after-before)
		}
		if !isNoted(h, "the job ledger takes no writes: no job starts here") || !h.agent.Status().LeaderIsSelf {
			t.Errorf("status %+v", h.agent.Status())
		}
		expectRefusal(t, h.order("job-pause", map[string]string{"job": "tick"}), "disk_failed")
		move(h.dir+".gone", h.dir)
		time.Sleep(5 * time.Second)
		if after := len(log.all()); after < before+2 || isNoted(h, "ledger") {
			t.Errorf("%d starts since the disk is back, notes %q", after-before, h.agent.Status().Notes)
		}
		c.stopAll()
	})
}

// breakLedger lets the directory of h go, so that no new file is made; its state file
// is open and goes on taking writes. mend undoes it.
func (h *testHost) breakLedger(t *testing.T) (mend func()) {
	t.Helper()
	move := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(h.dir, h.dir+".gone")
	return func() { move(h.dir+".gone", h.dir) }
}

// A leader whose ledger takes no writes hands over when jobs are due, so that they
// run elsewhere, and comes back when its disk does.
func TestFullDiskPassesJobsOn(t *testing.T) {
	for _, expect := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 3)
			if expect > 0 {
				c.expecting(expect)
			}
			log := c.withJobs(100*time.Millisecond, someJob("tick", "@every 1s", nil))
			for _, h := range c.hosts {
				c.start(h)
			}
			mid, top := c.hosts[1], c.hosts[2]
			c.agrees(top)
			time.Sleep(5 * time.Second)
			mend := top.breakLedger(t)
			time.Sleep(ledgerPatience - time.Second)
			if j := c.job(top, "tick"); j.State != "waiting" || j.Why != string(election.DiskFailed) || c.leader() != top {
				t.Errorf("expect %d: while the disk is full: %+v", expect, j)
			}
			time.Sleep(3 * time.Second)
			c.agrees(mid)
			if ran := top.hooks.ran(); !strings.HasSuffix(ran[len(ran)-1], " "+string(election.DiskFailed)) {
				t.Errorf("expect %d: hooks %q", expect, ran)
			}
			before := len(log.all())
			time.Sleep(10 * time.Second)
			if n := len(log.all()) - before; n < 7 || !isNoted(top, "the job ledger takes no writes") {
				t.Errorf("expect %d: %d starts in 10 s at the next leader, notes %q", expect, n, top.agent.Status().Notes)
			}
			mend() // for a moment: the space that is freed by stepping down is soon used
			time.Sleep(2 * time.Second)
			mend = top.breakLedger(t)
			time.Sleep(2 * ledgerProof)
			c.agrees(mid)
			mend()
			time.Sleep(ledgerProof - 2*time.Second)
			c.agrees(mid)
			time.Sleep(5 * time.Second)
			c.agrees(top)
			if twice := log.twice(); twice != "" {
				t.Errorf("expect %d: a slot was started twice: %s", expect, twice)
			}
			c.stopAll()
		})
	}
}

// The host that was to take over dies before it does, and nobody answers the order to
// step down. The one whose disk is full stands again: it is better than none.
func TestNobodyTakesOverFromAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.withJobs(100*time.Millisecond, someJob("tick", "@every 1s", nil))
		for _, h := range c.hosts {
			c.start(h)
		}
		low, top := c.hosts[0], c.hosts[1]
		c.agrees(top)
		time.Sleep(5 * time.Second)
		_, leave := top.agent.Enter(time.Hour) // the hand-over waits for a holder
		defer top.breakLedger(t)()
		top.awaitLease(t, "the end is shown", func(l control.Lease) bool { return !l.Leader })
		time.Sleep(3 * ledgerPatience)
		if s := top.agent.Status(); s.HoldDownMS == 0 {
			t.Error("it stands again before it has handed over")
		}
		c.kill(low)
		leave(true)
		time.Sleep(time.Minute)
		if s := top.agent.Status(); !s.LeaderIsSelf || s.HoldDownMS != 0 {
			t.Errorf("a minute later it is %s, held down for %d ms, notes %q", s.Role, s.HoldDownMS, s.Notes)
		}
		c.stopAll()
	})
}

// Where no job is due nothing is passed on; and where no disk takes writes the
// leadership does not go round for ever.
func TestFullDisksKeepTheirLeader(t *testing.T) {
	if testing.Short() {
		t.Skip("a quarter of an hour of jobs")
	}
	for schedule, most := range map[string]uint64{"@yearly": 0, "@every 10s": 1} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 2)
			c.withJobs(100*time.Millisecond, someJob("tick", schedule, nil))
			for _, h := range c.hosts {
				c.start(h)
			}
			c.agrees(c.hosts[1])
			time.Sleep(15 * time.Second)
			was := c.leader().agent.Status().Epoch.Counter
			for _, h := range c.hosts {
				defer h.breakLedger(t)()
			}
			if schedule == "@yearly" { // which writes nothing by itself
				expectRefusal(t, c.leader().order("job-run", map[string]string{"job": "tick"}), "disk_failed")
				expectRefusal(t, c.leader().order("job-run", map[string]string{"job": "tick"}), "disk_failed")
			}
			time.Sleep(15 * time.Minute)
			if n := c.leader().agent.Status().Epoch.Counter - was; n > most {
				t.Errorf("%s: %d more leaderships in a quarter of an hour", schedule, n)
			}
			if h := c.leader(); most > 0 {
				c.kill(h) // the one that does not stand for its ledger is better than none
				time.Sleep(2 * ledgerPatience)
				if c.leader() == nil {
					t.Error("nobody leads")
				}
			}
			c.stopAll()
		})
	}
}

// A ledger that was cut short, or is of another version, is kept aside, and one
// may be gone; the agent
// goes on with what the others know, and starts nothing twice.
func TestLedgerThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.expecting(3)
		log := c.withJobs(100*time.Millisecond, someJob("tick", "@every 1s", func(j *jobs.Job) { j.Missed = jobs.MissedAll }))
		for _, h := range c.hosts {
			c.start(h)
		}
		top := c.hosts[2]
		c.agrees(top)
		for _, damage := range []func([]byte) []byte{
			func(b []byte) []byte { return b[:len(b)/2] },
			func(b []byte) []byte { return append([]byte{9}, b[1:]...) },
			func([]byte) []byte { return nil },
		} {
			time.Sleep(8 * time.Second)
			c.kill(top)
			path := filepath.Join(top.dir, ledgerName)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(content), 0o600); err != nil {
				t.Fatal(err)
			}
			c.start(top)
			c.agrees(top)
			if kept, err := os.ReadFile(path + ".bad"); err != nil || string(kept) != string(damage(content)) {
				t.Errorf("%d bytes are kept aside, %v", len(kept), err)
			}
			if !isNoted(top, "is kept as "+path+".bad") {
				t.Errorf("notes %q", top.agent.Status().Notes)
			}
		}
		c.kill(top)
		if err := os.Remove(filepath.Join(top.dir, ledgerName)); err != nil {
			t.Fatal(err)
		}
		c.start(top)
		c.agrees(top)
		time.Sleep(10 * time.Second)
		if twice := log.twice(); twice != "" {
			t.Errorf("a slot was started twice: %s", twice)
		}
		if first, last := slotRange(log.all(), "tick"); last-first < 20 {
			t.Errorf("slots from %d to %d ran", first, last)
		}
		c.stopAll()
	})
}

// A leader whose become-leader hook has failed runs no jobs, and says why; it does
// once the hook has succeeded.
func TestJobsNeedAReadyLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		log := c.withJobs(100*time.Millisecond, someJob("tick", "@every 1s", nil))
		h := c.hosts[0]
		h.hooks.set(func(f *fakeOutcomes) { f.fail = map[hooks.Kind]error{hooks.BecomeLeader: errKilled} })
		c.start(h)
		time.Sleep(30 * time.Second)
		if starts := log.all(); len(starts) > 0 || h.agent.Status().Ready {
			t.Errorf("a leader that is not ready has started %q", starts)
		}
		if j := c.job(h, "tick"); h.agent.Status().LeaderIsSelf && j.Why != whyNotReady {
			t.Errorf("it shows the job as %+v", j)
		}
		h.hooks.set(func(f *fakeOutcomes) { f.fail = nil })
		time.Sleep(5 * time.Minute)
		if len(log.all()) == 0 {
			t.Errorf("a ready leader has started nothing: %+v", c.job(h, "tick"))
		}
		c.stopAll()
	})
}

// Frames about jobs are held to the election's rules, and counted if they break
// one.
func TestJobFramesOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.withJobs(time.Second)
		for _, h := range c.hosts {
			c.start(h)
		}
		h, other := c.hosts[0], c.hosts[1]
		c.agrees(other)
		done := make(chan struct{})
		h.agent.calls <- func() {
			defer close(done)
			m, _ := h.agent.view.member(other.agent.seat.state.ID)
			good := wire.Frame{Kind: wire.LedgerQuery, Epoch: h.agent.seat.node.Status().Epoch}
			other.agent.seat.node.Stamp(&good)
			for why, change := range map[string]func(*wire.Frame){
				"":                func(*wire.Frame) {},
				"other-cluster":   func(f *wire.Frame) { f.Cluster++ },
				"unknown-sender":  func(f *wire.Frame) { f.Sender[0]++ },
				"config-mismatch": func(f *wire.Frame) { f.ConfigHash++ },
				"other-mode":      func(f *wire.Frame) { f.Algo ^= wire.AlgoQuorum },
				"unmet-life":      func(f *wire.Frame) { f.Nonce++; f.Incarnation++ },
				"old-incarnation": func(f *wire.Frame) { f.Nonce++; f.Incarnation-- },

				"counter-out-of-range": func(f *wire.Frame) { f.Epoch.Counter = 1<<63 + 5 },
				"counter-jump":         func(f *wire.Frame) { f.Epoch.Counter += 1<<20 + 1 },
			} {
				f := good
				change(&f)
				if got := h.agent.seat.node.Admit(&f); got != why {
					t.Errorf("refused for %q, want %q", got, why)
				}
				if !h.agent.seat.onJobFrame(&received{Received: election.Received{From: m.Addr, Frame: f}}) {
					t.Errorf("%v is taken for a frame of the election", f.Kind)
				}
			}
			if h.agent.seat.onJobFrame(&received{Received: election.Received{Frame: wire.Frame{Kind: wire.Heartbeat}}}) {
				t.Error("a heartbeat is taken for a frame about jobs")
			}
		}
		<-done
		for _, why := range []string{"other-cluster", "unknown-sender", "other-mode", "config-mismatch", "unmet-life",
			"old-incarnation", "counter-out-of-range", "counter-jump"} {
			if n := h.agent.Status().Counters["job_refused_"+why]; n != 1 {
				t.Errorf("%d frames are counted as %s", n, why)
			}
		}
		c.stopAll()
	})
}

// A disk that hangs holds up the jobs and nothing else, and the status says so;
// what others tell meanwhile is bounded.
func TestJobsOnAHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		log := c.withJobs(100*time.Millisecond, someJob("tick", "@every 1s", nil))
		h := c.hosts[0]
		c.start(h)
		c.agrees(h)
		time.Sleep(5 * time.Second)
		stuck := &ledgerFile{todo: make(chan []byte, 1), results: make(chan written, 1)}
		well := h.agent.seat.jobs.file
		// A write that is on its way at this instant would end elsewhere than it is waited for.
		for isOn := true; isOn; time.Sleep(time.Millisecond) {
			done := make(chan bool)
			h.agent.calls <- func() {
				isOn := h.agent.seat.jobs.saving.isOn
				if !isOn {
					h.agent.seat.jobs.file = stuck
				}
				done <- isOn
			}
			isOn = <-done
		}
		time.Sleep(10 * time.Second)
		before := len(log.all())
		h.agent.calls <- func() {
			for range 2 * maxJobEvents {
				h.agent.seat.jobs.note(jobs.Merged{})
			}
			if n := len(h.agent.seat.jobs.queue); n > maxMerged+1 { // and a tick
				t.Errorf("%d events wait for the disk", n)
			}
			for range 2 * maxJobEvents {
				h.agent.seat.jobs.note(jobs.Heard{})
			}
		}
		time.Sleep(20 * time.Second)
		s := h.agent.Status()
		if after := len(log.all()); after != before || !isNoted(h, "on its way to the disk for") || !s.LeaderIsSelf {
			t.Errorf("%d starts on a hanging disk, notes %q, leads %t", after-before, s.Notes, s.LeaderIsSelf)
		}
		if n := s.Counters["job_event_overflow"]; n < 2*maxJobEvents {
			t.Errorf("%d events were dropped", n)
		}
		h.agent.calls <- func() { h.agent.seat.jobs.file = well }
		stuck.results <- written{err: errKilled} // nobody has read it: the loop waits elsewhere now
		h.agent.calls <- func() { h.agent.seat.onLedgerWritten(<-stuck.results) }
		time.Sleep(5 * time.Second)
		if after := len(log.all()); after < before+2 || isNoted(h, "ledger") {
			t.Errorf("%d starts since the disk is back, notes %q", after-before, h.agent.Status().Notes)
		}
		c.stopAll()
	})
}

func TestJobOfARun(t *testing.T) {
	key := jobs.Key{Slot: 1763692200, Epoch: 7}
	for _, job := range []string{"backup", "a-b", "x-1-2-3", "0"} {
		for _, manual := range []bool{false, true} {
			key.Manual = manual
			if id := runID(job, key); jobOf(id) != job {
				t.Errorf("the job of %s is %q", id, jobOf(id))
			}
		}
	}
	for _, id := range []string{"", "-", "--", "nothing", "../../etc"} {
		if got := jobOf(id); got != "" {
			t.Errorf("the job of %q is %q", id, got)
		}
	}
}

// A voter that has lost its ledger does not witness again what it may have
// witnessed before, though nobody who could know better is there.
func TestVoterWithoutItsLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.expecting(3)
		log := c.withJobs(100*time.Millisecond, someJob("rare", "@every 2m", func(j *jobs.Job) { j.Missed = jobs.MissedAll }))
		first, second, absent := c.hosts[2], c.hosts[1], c.hosts[0] // by who leads
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(first)
		c.untilStarts(log, 1) // the job is known to all
		c.kill(absent)
		c.untilStarts(log, 2) // of this one the absent host knows nothing
		c.kill(second)
		c.kill(first)
		path := filepath.Join(second.dir, ledgerName)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		ageFiles(t, second.dir)
		c.start(second)
		c.start(absent)
		c.agrees(second)
		time.Sleep(50 * time.Second)
		if starts := log.all(); len(starts) != 2 {
			t.Errorf("a slot was started again: %q", starts)
		}
		c.untilStarts(log, 3) // in time, it witnesses again
		if twice := log.twice(); twice != "" {
			t.Errorf("a slot was started twice: %s", twice)
		}
		c.stopAll()
	})
}

// untilStarts waits until so many runs were started, for some minutes at most.
func (c *cluster) untilStarts(log *jobLog, n int) {
	c.t.Helper()
	for range 600 {
		if len(log.all()) >= n {
			return
		}
		time.Sleep(time.Second)
	}
	c.t.Fatalf("%d runs were started, want %d", len(log.all()), n)
}

// ageFiles dates the files of a directory as the bubble's clock does, which is
// behind that of the file system.
func ageFiles(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if err == nil {
			err = os.Chtimes(filepath.Join(dir, e.Name()), time.Now(), time.Now())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The newest file tells a time that has passed.
func TestNewestFile(t *testing.T) {
	dir := t.TempDir()
	if got := newestIn(dir); !got.IsZero() {
		t.Errorf("an empty directory is of %v", got)
	}
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for i, name := range []string{stateName, ledgerName + badSuffix} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if when := at.Add(-time.Duration(i) * time.Hour); os.Chtimes(path, when, when) != nil {
			t.Fatal("cannot date a file")
		}
	}
	if got := newestIn(dir); !got.Equal(at) {
		t.Errorf("the newest file is of %v, want %v", got, at)
	}
	if got := newestIn(filepath.Join(dir, "none")); !got.IsZero() {
		t.Errorf("a directory that is not there is of %v", got)
	}
}

// What a holder has ended by itself is said; that is no failure, and
// what it did not start has used no attempt.
func TestEndedByItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.withJobs(time.Hour, someJob("slow", "@yearly", func(j *jobs.Job) { j.OnLoss = jobs.OnLossFinish }),
			someJob("late", "@yearly", nil), someJob("tied", "@yearly", nil))
		h := c.hosts[0]
		c.start(h)
		c.agrees(h)
		time.Sleep(5 * time.Second)
		const why = "ended by its holder"
		for job, want := range map[string]hooks.JobResult{"slow": {Exit: 143, Cause: hooks.JobTimedOut, Err: why},
			"late": {Exit: 126, TooLate: true, Err: why}, "tied": {Exit: 137, Cause: hooks.CauseAgentDied, Err: why}} {
			if err := h.order("job-run", map[string]string{"job": job}); err != nil {
				t.Fatal(err)
			}
			ids := h.jobs.open(func(r *fakeRun) bool { return r.Job == job })
			if len(ids) != 1 {
				t.Fatalf("%d runs of %s", len(ids), job)
			}
			want.ID = ids[0]
			h.agent.calls <- func() { // a loop that was busy for longer than the timeout, and hears of the end first
				time.Sleep(2 * time.Minute)
				h.jobs.report(want, "")
				h.agent.seat.onJobResult(<-h.jobs.results)
			}
			time.Sleep(3 * time.Minute)
		}
		kept := h.agent.seat.jobs.keptRun(hooks.JobRun{Cause: hooks.JobTimedOut, Exit: 143})
		if j := c.job(h, "slow"); kept.Outcome != jobs.TimedOut.String() || j.Last == nil || j.Last.Outcome != jobs.TimedOut.String() {
			t.Errorf("ended at the timeout: %+v", j.Last)
		}
		kept = h.agent.seat.jobs.keptRun(hooks.JobRun{Cause: hooks.CauseAgentDied, Exit: 137})
		if j := c.job(h, "tied"); kept.Outcome != jobs.Killed.String() || j.Last == nil || j.Last.Outcome != jobs.Killed.String() {
			t.Errorf("ended since the lease was not renewed: %+v", j.Last)
		}
		if j := c.job(h, "late"); j.Last == nil || j.Last.Outcome != jobs.Unclaimed.String() {
			t.Errorf("not started: %+v", j.Last)
		}
		events, _ := h.agent.Events(0)
		if !slices.ContainsFunc(events, func(e control.Event) bool { return e.Type == "job" && strings.Contains(e.Text, why) }) {
			t.Error("no event says that the holder has ended it")
		}
		c.stopAll()
	})
}

// A run that goes on keeps its policies over a reload; what begins later has the
// new ones.
func TestReloadDuringARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		finish := func(j *jobs.Job) { j.OnLoss, j.Timeout = jobs.OnLossFinish, 0 }
		c.withJobs(time.Hour, someJob("a", "@yearly", finish), someJob("b", "@yearly", nil))
		h := c.hosts[1]
		also := h.settings
		h.settings = func(cfg *Config) {
			also(cfg)
			cfg.Reload = func() (Reloaded, error) {
				return Reloaded{Jobs: []Job{someJob("a", "@yearly", nil)}, Seeds: cfg.Seeds, Priority: h.priority,
					Hooks: hooks.Config{Grace: 7 * time.Second}}, nil
			}
		}
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(h)
		if !slices.Equal(h.jobs.known, []string{"a", "b"}) {
			t.Errorf("files are kept of %q", h.jobs.known)
		}
		time.Sleep(5 * time.Second)
		if err := h.order("job-run", map[string]string{"job": "a"}); err != nil {
			t.Fatal(err)
		}
		if err := h.agent.Reload(context.Background(), false); err != nil {
			t.Fatal(err)
		}
		if err := h.order("step-down", map[string]string{"for": "1h"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if got := h.jobs.endings(); len(got) != 0 {
			t.Errorf("a run that was to finish was ended after a reload: %q", got)
		}
		h.agent.calls <- func() {
			if grace := h.agent.seat.jobs.grace; grace != 7*time.Second {
				t.Errorf("grace %v", grace)
			}
		}
		time.Sleep(10 * time.Second)
		if !isNoted(c.hosts[0], "hooks.grace and the system") {
			t.Errorf("notes of the other host %q", c.hosts[0].agent.Status().Notes)
		}
		c.stopAll()
	})
}

// A person who waits no more gets no run.
func TestWithdrawnJobRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		log := c.withJobs(time.Second, someJob("rare", "@yearly", nil))
		h := c.hosts[0]
		c.start(h)
		c.agrees(h)
		ctx, hangUp := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- h.agent.Command(ctx, "job-run", map[string]string{"job": "rare"}) }() // while it settles
		synctest.Wait()
		hangUp()
		if err := <-done; err == nil {
			t.Fatal("it was started at once: the test has nothing to withdraw")
		}
		time.Sleep(time.Minute)
		if starts := log.all(); len(starts) != 0 {
			t.Errorf("started all the same: %q", starts)
		}
		h.agent.calls <- func() {
			if n := len(h.agent.seat.jobs.wishes); n != 0 {
				t.Errorf("%d wishes are remembered", n)
			}
		}
		// One that waits for the disk before it is heard.
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		h.agent.calls <- func() {
			h.agent.seat.jobs.ask("job-run", "rare", false, &wish{ctx: gone, done: func(error) { t.Error("an answer for nobody") }})
		}
		time.Sleep(time.Minute)
		if starts := log.all(); len(starts) != 0 {
			t.Errorf("started for nobody: %q", starts)
		}
		c.stopAll()
	})
}

// A wall clock that is set back gives a run no more time than it had.
func TestTimeoutWhileTheClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.withJobs(time.Hour, someJob("long", "@yearly", func(j *jobs.Job) { j.Timeout = 6 * time.Second }))
		h := c.hosts[0]
		c.start(h)
		c.agrees(h)
		time.Sleep(5 * time.Second)
		if err := h.order("job-run", map[string]string{"job": "long"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		h.agent.calls <- func() { h.agent.seat.jobs.wall = func() time.Time { return wallClock().Add(-time.Hour) } }
		time.Sleep(4 * time.Second)
		if got := h.jobs.endings(); len(got) != 0 {
			t.Errorf("after 5 s of 6: %q", got)
		}
		time.Sleep(1500 * time.Millisecond)
		if got := h.jobs.endings(); !slices.Equal(got, []string{"long timed-out"}) {
			t.Errorf("after 6.5 s of 6: %q", got)
		}
		c.stopAll()
	})
}

// A job that ran too often while the clock was ahead stands still until a person resumes it
// from now, as status says.
func TestJobsResumeFromNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		log := c.withJobs(10*time.Millisecond, someJob("tick", "@every 1s", nil))
		h := c.hosts[0]
		c.start(h)
		c.agrees(h)
		setClock := func(ahead time.Duration) {
			h.agent.calls <- func() { h.agent.seat.jobs.wall = func() time.Time { return wallClock().Add(ahead) } }
		}
		setClock(2 * time.Hour)
		time.Sleep(30 * time.Second)
		setClock(0)
		time.Sleep(time.Second)
		before := len(log.all())
		time.Sleep(5 * time.Second)
		if after := len(log.all()); before < 16 || after != before {
			t.Errorf("%d starts while the clock was ahead, %d after", before, after-before)
		}
		if !isNoted(h, "bully-agent jobs resume --from-now tick") {
			t.Errorf("notes %q", h.agent.Status().Notes)
		}
		if err := h.order("job-resume", map[string]string{"job": "tick", "from_now": "true"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if after := len(log.all()); after < before+4 || isNoted(h, "is settled until") {
			t.Errorf("%d starts in 5 s since, notes %q", after-before, h.agent.Status().Notes)
		}
		c.stopAll()
	})
}

func TestClocksAreCompared(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	var c clockPair
	for _, step := range []struct{ wall, agent, want time.Duration }{
		{0, 0, 0},
		{time.Second, time.Second, 0},
		{1300 * time.Millisecond, time.Second, 0}, // steered
		{2 * time.Hour, 2 * time.Second, 2*time.Hour - 2*time.Second},
		{time.Hour, 3 * time.Second, -time.Hour - time.Second},
		{time.Hour + time.Second, 4 * time.Second, 0},
		{time.Hour + 1600*time.Millisecond, 5 * time.Second, 0},
		{time.Hour + 2200*time.Millisecond, 6 * time.Second, -800 * time.Millisecond}, // steered for long
	} {
		if got := c.set(at.Add(step.wall), at.Add(step.agent)); got != step.want {
			t.Errorf("at %v: set by %v, want %v", step.agent, got, step.want)
		}
	}
}

// A ledger of the greatest size is told and heard.
func TestLedgersFitWhatIsTold(t *testing.T) {
	if membership.MaxLedger < jobs.MaxEncoded {
		t.Errorf("%d bytes are told of a ledger that may have %d", membership.MaxLedger, jobs.MaxEncoded)
	}
}

// What is no name of a job is none, and reads no file.
func TestRunsOfNoJob(t *testing.T) {
	a := &agent{}
	for _, job := range []string{"[", "../../*", "..", "a b"} {
		_, err := a.JobRuns(context.Background(), job)
		expectRefusal(t, err, "unknown_job")
	}
}

// Of one turn the scheduler hears first what became of the leadership: what ended in the
// turn that found it over was lost with it. What waits from before was before.
func TestLeadershipComesFirstInATurn(t *testing.T) {
	j := &jobDesk{leading: jobs.Leading{Epoch: 3}, peers: []wire.ID{{2}}, saving: saving{isOn: true},
		scheduler: jobs.NewScheduler(jobs.SchedulerConfig{}, &jobs.Ledger{})}
	j.note(jobs.Exited{Job: "before"})
	j.turn() // the disk is waited for
	j.note(jobs.Exited{Job: "now"})
	j.learn(jobs.Leading{}, []wire.ID{{2}})
	want := []jobs.Event{jobs.Exited{Job: "before"}, jobs.NotLeading{}, jobs.Exited{Job: "now"}}
	if !reflect.DeepEqual(j.queue, want) {
		t.Errorf("it hears %v, want %v", j.queue, want)
	}
}
