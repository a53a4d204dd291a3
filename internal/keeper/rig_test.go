package keeper

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	jobs "github.com/bully-agent/bully-agent/internal/holder"
	"github.com/bully-agent/bully-agent/internal/reader"
	"github.com/bully-agent/bully-agent/internal/test/traces"
	"github.com/bully-agent/bully-agent/internal/test/waiting"
)

const patience = traces.Patience

// This program is also the keepers that it starts, and the agents that are killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case Word:
			os.Exit(Main(readFile))
		case jobs.Word:
			os.Exit(jobs.Main())
		case reader.Word:
			os.Exit(reader.Main())
		case "agent":
			actAgent(os.Stdin, os.Stdout)
		}
	}
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP) // children would inherit that nohup ignores it
	waiting.Together(5)                                 // leases, limits and graces are waited for
	os.Exit(m.Run())
}

// rigs counts them: each has an owner of its own, since whatever runs for an epoch that is
// owed is ended as a leftover, and other tests lead in epoch 7 at the same time.
var rigs atomic.Int32

func clock() time.Time { return now() }

func eventOf(owner string, kind hooks.Kind, epoch uint64) hooks.Event {
	return hooks.Event{Kind: kind, Cause: "test", Time: time.Now(), Epoch: hooks.Epoch{Counter: epoch, Owner: owner},
		Self: hooks.Node{ID: "a", Name: "alpha"}}
}

// rig is a state directory and hooks that leave traces beside it. When the test ends,
// nothing that was started for it may live.
type rig struct {
	traces.Dir
	t       *testing.T
	owner   string   // who leads
	program []string // that starts keepers; nil: this one
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	r := &rig{Dir: traces.New(t), t: t, owner: fmt.Sprintf("a%d-%d", os.Getpid(), rigs.Add(1))}
	if err := os.Mkdir(r.Path("state"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.noneLives)
	return r
}

func (r *rig) event(kind hooks.Kind, epoch uint64) hooks.Event { return eventOf(r.owner, kind, epoch) }

// scripts are hooks by event, as shell lines; they run in the rig's directory.
type scripts map[hooks.Kind]string

// note appends what happens to the file "order".
const note = "echo $BULLY_EVENT:$BULLY_CAUSE:$BULLY_EPOCH >>order; "

// stubborn does not heed TERM.
const stubborn = "trap '' TERM; while :; do sleep 0.01; done"

func (r *rig) config(s scripts) Settings {
	cfg := Settings{Budget: 200 * time.Millisecond,
		Dir: r.Path("state"), Hooks: hooks.Config{Timeout: patience, Grace: 200 * time.Millisecond, Commands: map[hooks.Kind]hooks.Command{}}}
	for kind, script := range s {
		cfg.Hooks.Commands[kind] = hooks.Command{Shell: "cd " + r.Dir.Name + "; " + script}
	}
	return cfg
}

func (r *rig) ordered(want string) {
	r.t.Helper()
	if got := strings.Join(strings.Fields(r.Text("order")), " "); got != want {
		r.t.Errorf("in this order: %s\nwant: %s", got, want)
	}
}

// untilQuiet waits until no keeper works here any more.
func (r *rig) untilQuiet() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	file, err := lockFile(ctx, r.Path("state"), func(int) {})
	if err != nil {
		r.t.Fatal(err)
	}
	file.Close()
}

func (r *rig) noneLives() {
	r.untilQuiet()
	r.NoneLives()
}

func (r *rig) kill(pid int, sig unix.Signal) {
	r.t.Helper()
	if err := unix.Kill(pid, sig); err != nil {
		r.t.Fatal(err)
	}
}

// standsStill reports whether each thread of a process is stopped: on a busy host one of them may run
// for a while after another has taken the signal.
func standsStill(pid int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // fails for a bad pattern only
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		_, rest, _ := strings.Cut(string(text), ") ")
		if err != nil || !strings.HasPrefix(rest, "T") {
			return false
		}
	}
	return len(tasks) > 0
}

// settingsFile is what a keeper of these tests reads. A variable names it, and no argument:
// processes of the rig are found by those.
const settingsFile = "settings"

func readFile() (s Settings, err error) {
	text, err := os.ReadFile(os.Getenv("SETTINGS"))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

// configure writes what keepers read from now on.
func (r *rig) configure(s Settings) {
	r.t.Helper()
	text, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(r.Path("settings.new"), text, 0o600)
	}
	if err == nil {
		err = os.Rename(r.Path("settings.new"), r.Path(settingsFile))
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// desk is a Client in this process, which lives as long as the test.
type desk struct {
	*Client
	*rig
	settings Settings // as configured last
	log      *traces.Buffer
	stop     context.CancelFunc
	done     chan struct{}
}

// desk makes a Client that has not recovered yet.
func (r *rig) desk(s Settings) *desk {
	r.t.Helper()
	r.configure(s)
	d := &desk{rig: r, settings: s, log: &traces.Buffer{}, done: make(chan struct{})}
	log := hclog.New(&hclog.LoggerOptions{Output: d.log, Level: hclog.Debug})
	d.Client = New(Config{Hooks: s.Hooks, Dir: s.Dir, Logger: log, Clock: clock, Program: r.program, Environ: []string{"SETTINGS=" + r.Path(settingsFile)}})
	return d
}

// reload has the keeper read other settings.
func (d *desk) reload(s Settings) {
	d.t.Helper()
	d.configure(s)
	d.settings = s
	d.SetConfig(s.Hooks)
}

// open is a desk whose keeper runs.
func (r *rig) open(s Settings) *desk {
	r.t.Helper()
	d := r.desk(s)
	d.recover()
	d.run()
	return d
}

func (d *desk) recover() {
	d.t.Helper()
	if err := d.Recover(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) run() {
	var ctx context.Context
	ctx, d.stop = context.WithCancel(context.Background())
	go func() {
		defer close(d.done)
		_ = d.Run(ctx)
	}()
	d.t.Cleanup(d.end)
}

func (d *desk) end() {
	d.t.Helper()
	d.stop()
	select {
	case <-d.done:
	case <-time.After(patience):
		d.t.Fatal("the client did not end")
	}
}

func (d *desk) become(epoch uint64) { d.Start(d.event(hooks.BecomeLeader, epoch), time.Time{}) }
func (d *desk) lose(epoch uint64)   { d.Start(d.event(hooks.LoseLeadership, epoch), time.Time{}) }

// leads has the desk lead in that epoch.
func (d *desk) leads(epoch uint64) {
	d.t.Helper()
	d.become(epoch)
	d.wants(hooks.BecomeLeader, epoch, true)
}

// wants checks the next result.
func (d *desk) wants(kind hooks.Kind, epoch uint64, ok bool) hooks.Result {
	d.t.Helper()
	select {
	case res := <-d.Results():
		if res.Kind != kind || res.Epoch != epoch || res.OK != ok || (res.Err == nil) != ok {
			d.t.Fatalf("result %+v\nwant %s of epoch %d, ok %v\n%s", res, kind, epoch, ok, d.log)
		}
		return res
	case <-time.After(patience):
		d.t.Fatalf("no result\n%s", d.log)
		return hooks.Result{}
	}
}

// jobOrder is an attempt of a job that is called as its run.
func jobOrder(owner, id string) hooks.JobAttempt {
	return hooks.JobAttempt{ID: id, Job: id, Attempt: 1, Event: eventOf(owner, "job", 7)}
}

// with is the settings with a job; "tied" is tied to the leadership.
func (s Settings) with(job, script string) Settings {
	jobs := maps.Clone(s.Jobs)
	if jobs == nil {
		jobs = map[string]Job{}
	}
	jobs[job] = Job{Command: hooks.Command{Shell: script}, Tied: job == "tied"}
	s.Jobs = jobs
	return s
}

// agentOrder is what an agent of these tests does, in JSON: it leads in epoch 7.
type agentOrder struct {
	Settings string // a file
	Dir      string
	Owner    string
	Lease    time.Duration  // of each renewal; 0: none is sent
	Lose     bool           // it begins to end the leadership cleanly
	Owes     bool           // it cleans up for epoch 7 in place of leading
	Job      string         // a shell line that it runs, tied to the leadership: the job "tied"
	Free     string         // one that is not: "free"
	Heir     netip.AddrPort // who is to be told of its death; the zero value: nobody
	Alone    bool           // nobody could take over
	Lend     bool           // somebody outside acts on its lease
	Return   bool           // and does no more
	Notify   bool           // it tells of another leader and of another member, before it leads
}

// actAgent renews until it is killed, and prints each result.
func actAgent(in io.Reader, out io.Writer) {
	var o agentOrder
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		panic(err)
	}
	c := New(Config{Dir: o.Dir, Clock: clock, Environ: []string{"SETTINGS=" + o.Settings}})
	if err := c.Recover(context.Background()); err != nil {
		panic(err)
	}
	if o.Owes {
		c.CleanUp(context.Background(), eventOf(o.Owner, hooks.LoseLeadership, 7))
	}
	go func() { _ = c.Run(context.Background()) }()
	fmt.Fprintln(out, "keeper", c.Status().Process)
	renew := func() {
		if o.Lease > 0 {
			c.Renew(clock().Add(o.Lease), o.Alone)
		}
	}
	renew()
	if o.Heir.IsValid() {
		c.Will([]netip.AddrPort{o.Heir})
		for c.Commitment().IsZero() {
			time.Sleep(time.Millisecond)
		}
		fmt.Fprintf(out, "commitment %x\n", [32]byte(c.Commitment()))
	}
	if o.Lend && !c.Lend() {
		panic("the keeper does not know")
	}
	if o.Return {
		c.Return()
	}
	if o.Notify {
		c.Start(eventOf(o.Owner, hooks.LeaderChange, 7), time.Time{})
		c.Start(eventOf(o.Owner, hooks.MemberChange, 7), time.Time{})
	}
	c.Start(eventOf(o.Owner, hooks.BecomeLeader, 7), time.Time{})
	_ = c.Jobs().Recover(context.Background())
	for id, script := range map[string]string{"tied": o.Job, "free": o.Free} {
		if script != "" {
			c.Jobs().Begin(jobOrder(o.Owner, id))
		}
	}
	if o.Lose {
		<-c.Results()
		c.Start(eventOf(o.Owner, hooks.LoseLeadership, 7), time.Time{})
	}
	tick := time.NewTicker(20 * time.Millisecond)
	for {
		select {
		case res := <-c.Results():
			fmt.Fprintln(out, res.Kind, res.OK, res.TakenOver, res.Unasked)
			if res.Unasked {
				c.Start(eventOf(o.Owner, hooks.LoseLeadership, 7), time.Time{})
			}
		case <-tick.C:
			renew()
		}
	}
}

// agent is a process of its own that has a keeper.
type agentProcess struct {
	commitment string // of its keeper's secret, if it has an heir
	*rig
	*traces.Agent
	keeper int
}

func (r *rig) agent(o agentOrder, s Settings) *agentProcess {
	r.t.Helper()
	for job, script := range map[string]string{"tied": o.Job, "free": o.Free} {
		s = s.with(job, script)
	}
	r.configure(s)
	o.Settings, o.Dir, o.Owner = r.Path(settingsFile), s.Dir, r.owner
	a := &agentProcess{rig: r, Agent: traces.Act(r.t, o)}
	if !o.Owes {
		a.keeper = a.keepersPid()
	}
	if o.Heir.IsValid() {
		a.commitment = strings.TrimPrefix(a.says(), "commitment ")
	}
	return a
}

func (a *agentProcess) keepersPid() int {
	a.t.Helper()
	pid, err := strconv.Atoi(strings.TrimPrefix(a.says(), "keeper "))
	if err != nil {
		a.t.Fatal(err)
	}
	return pid
}

// says is the next line that the agent prints.
func (a *agentProcess) says() string {
	a.t.Helper()
	if !a.Scan() {
		a.t.Fatal("the agent says nothing more")
	}
	return a.Agent.Text()
}

// signal goes to the agent's process group: a keeper must not be in it.
func (a *agentProcess) signal(sig unix.Signal) time.Time {
	a.t.Helper()
	at := now()
	a.Signal(sig)
	return at
}

// death tells when a process dies that need not be a child.
func (r *rig) death(pid int) func() time.Time {
	r.t.Helper()
	return traces.Death(r.t, pid, now)
}
