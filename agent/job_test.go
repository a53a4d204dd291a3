package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/control"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/jobrun"
	"github.com/bully-agent/bully-agent/jobs"
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
// it is ended. It knows what a guard does: what is tied to the lease has ended
// when that is over.
type fakeJobs struct {
	host    string
	log     *jobLog
	takes   time.Duration
	results chan jobrun.Result

	mu      sync.Mutex
	running map[string]*fakeRun
	ended   []string // "job cause", of what was ended
}

type fakeRun struct {
	jobrun.Order
	timer *time.Timer
}

func (f *fakeJobs) Begin(o jobrun.Order) {
	f.log.mu.Lock()
	f.log.starts = append(f.log.starts, fmt.Sprintf("%s %d %s", o.Job, o.Slot.Unix(), f.host))
	f.log.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[o.ID] = &fakeRun{o, time.AfterFunc(f.takes, func() { f.finish(o.ID, "", 0) })}
}

// finish ends a run, if it goes on.
func (f *fakeJobs) finish(id, cause string, exit uint8) {
	f.mu.Lock()
	run := f.running[id]
	delete(f.running, id)
	if run != nil && cause != "" {
		f.ended = append(f.ended, run.Job+" "+cause)
	}
	f.mu.Unlock()
	if run != nil {
		run.timer.Stop()
		f.results <- jobrun.Result{ID: id, Job: run.Job, Exit: exit}
	}
}

func (f *fakeJobs) End(id, cause string) { f.finish(id, cause, 143) }

func (f *fakeJobs) Lost(cause string) {
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

func (f *fakeJobs) Recover(context.Context) error     { return nil }
func (f *fakeJobs) Lease(time.Time)                   {}
func (f *fakeJobs) Ending(time.Time)                  {}
func (f *fakeJobs) SetGrace(time.Duration)            {}
func (f *fakeJobs) Results() <-chan jobrun.Result     { return f.results }
func (f *fakeJobs) Rows(string) ([]jobrun.Row, error) { return nil, nil }
func (f *fakeJobs) Output(jobrun.Row) ([]byte, error) { return nil, nil }

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
			h.jobs = &fakeJobs{host: h.name, log: log, takes: takes, results: make(chan jobrun.Result, 64),
				running: map[string]*fakeRun{}}
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
		const kills = 6
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
			if !isNoted(h, "the jobs of "+others+" are not those of this host") {
				t.Errorf("%s notes %q", h.name, h.agent.Status().Notes)
			}
		}
		if err := odd.agent.Reload(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		for _, h := range c.hosts {
			if isNoted(h, "the jobs of") {
				t.Errorf("%s still notes %q", h.name, h.agent.Status().Notes)
			}
		}
		c.job(odd, "b")
		if digestOf(table) != digestOf([]Job{table[1], table[0]}) || digestOf(nil) != 0 {
			t.Error("a table's digest depends on the order of its jobs, or that of none is not 0")
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
			m, _ := h.agent.view.member(other.agent.state.ID)
			good := wire.Frame{Kind: wire.LedgerQuery, Cluster: h.agent.cfg.Election.Cluster, ConfigHash: m.ConfigHash, Sender: m.ID,
				Incarnation: m.Incarnation, Nonce: m.Nonce}
			for why, change := range map[string]func(*wire.Frame){
				"":                func(*wire.Frame) {},
				"other-cluster":   func(f *wire.Frame) { f.Cluster++ },
				"unknown-sender":  func(f *wire.Frame) { f.Sender[0]++ },
				"config-mismatch": func(f *wire.Frame) { f.ConfigHash++ },
				"old-incarnation": func(f *wire.Frame) { f.Nonce++ },
			} {
				f := good
				change(&f)
				if got := h.agent.refuseJobFrame(&f); got != why {
					t.Errorf("refused for %q, want %q", got, why)
				}
				if !h.agent.onJobFrame(&received{frame: f}) {
					t.Errorf("%v is taken for a frame of the election", f.Kind)
				}
			}
			if h.agent.onJobFrame(&received{frame: wire.Frame{Kind: wire.Heartbeat}}) {
				t.Error("a heartbeat is taken for a frame about jobs")
			}
		}
		<-done
		for _, why := range []string{"other-cluster", "unknown-sender", "config-mismatch", "old-incarnation"} {
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
		well := h.agent.jobs.file
		swap := func(f *ledgerFile) { h.agent.calls <- func() { h.agent.jobs.file = f } }
		swap(stuck)
		time.Sleep(10 * time.Second)
		before := len(log.all())
		h.agent.calls <- func() {
			for range 2 * maxJobEvents {
				h.agent.stepJobs(jobs.Merged{})
			}
		}
		time.Sleep(20 * time.Second)
		s := h.agent.Status()
		if after := len(log.all()); after != before || !isNoted(h, "on its way to the disk for") || !s.LeaderIsSelf {
			t.Errorf("%d starts on a hanging disk, notes %q, leads %t", after-before, s.Notes, s.LeaderIsSelf)
		}
		if n := s.Counters["job_event_overflow"]; n < maxJobEvents {
			t.Errorf("%d events were dropped", n)
		}
		swap(well)
		stuck.results <- written{err: errKilled} // nobody has read it: the loop waits elsewhere now
		h.agent.calls <- func() { h.agent.onLedgerWritten(<-stuck.results) }
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
