package holder

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/realtime"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/test/traces"
	"github.com/bully-agent/bully-agent/internal/test/waiting"
)

const patience = traces.Patience

// This program is also the holders that it starts, and the agents that are killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case Word:
			os.Exit(Main())
		case "agent":
			actAgent(os.Stdin, os.Stdout)
		}
	}
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP) // children would inherit that nohup ignores it
	waiting.Together(5)                                 // leases, limits and graces are waited for
	os.Exit(m.Run())
}

// rigEpoch has an owner that no other run of these tests has: its hooks are ended by it.
var rigEpoch = hooks.Epoch{Counter: 7, Owner: fmt.Sprintf("a%d", os.Getpid())}

func clock() time.Time { return now() }

// agentOrder is what an agent of these tests does, in JSON.
type agentOrder struct {
	Config Settings
	Lease  time.Duration // of each renewal; 0: none is sent
	Every  time.Duration
}

// Settings are the parts of a Config that can be handed on.
type Settings struct {
	Name          string
	Epoch         hooks.Epoch
	Argv, Env     []string
	Budget, Grace time.Duration
	Records       string
	Cgroup        string
}

func (s Settings) config() Config {
	return Config{Name: s.Name, Epoch: s.Epoch, Argv: s.Argv, Env: s.Env, Budget: s.Budget, Grace: s.Grace,
		Records: s.Records, cgroup: s.Cgroup}
}

// actAgent renews until it is killed, and prints each new Report. What it read
// last before it was stopped is never older than Every.
func actAgent(in io.Reader, out io.Writer) {
	var o agentOrder
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		panic(err)
	}
	cfg := o.Config.config()
	if o.Lease > 0 {
		cfg.Deadline = clock().Add(o.Lease)
	}
	_ = realtime.Enter() // as agents do that may
	h := New(cfg)
	if err := h.Start(nil, nil, nil); err != nil {
		panic(err)
	}
	tick := time.NewTicker(max(o.Every, time.Millisecond))
	say := json.NewEncoder(out)
	for last := (Report{}); last.Stage != Ended; {
		if r := h.Report(); r.Stage != last.Stage && r.Holder != 0 {
			last = r
			_ = say.Encode(r)
		}
		select {
		case <-tick.C:
		case <-h.Done():
		}
		if o.Lease > 0 {
			h.Renew(Terms{Deadline: clock().Add(o.Lease)})
		}
	}
	<-h.Done()
	os.Exit(0)
}

// rig is a directory in which commands leave traces. When the test ends, nothing
// that was started in it may live.
type rig struct {
	traces.Dir
	t *testing.T
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	r := &rig{Dir: traces.New(t), t: t}
	r.Mark = "HOLDER_TEST=" + r.Dir.Name
	for _, dir := range []string{"records", "state"} {
		if err := os.Mkdir(r.Path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(r.noneLives)
	return r
}

func (r *rig) env() []string { return []string{"PATH=" + os.Getenv("PATH"), r.Mark} }

func (r *rig) settings(script string) Settings {
	s := Settings{Name: r.t.Name(), Epoch: rigEpoch, Records: r.Path("records"), Grace: 200 * time.Millisecond}
	if script != "" {
		s.Argv, s.Env = r.Script(script), r.env()
	}
	return s
}

func (r *rig) start(cfg Config) *Holder {
	r.t.Helper()
	return r.startWith(cfg, nil, nil, nil)
}

func (r *rig) startWith(cfg Config, stdin, stdout, stderr *os.File) *Holder {
	r.t.Helper()
	h := New(cfg)
	if err := h.Start(stdin, stdout, stderr); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { h.Stop("test-ended", 0); r.wait(h) })
	return h
}

func (r *rig) wait(h *Holder) Report {
	r.t.Helper()
	select {
	case <-h.Done():
	case <-time.After(patience):
		r.t.Fatalf("it does not end: %v", h.Report())
	}
	return h.Report()
}

func (r *rig) awaitStarted(h *Holder) Report {
	r.t.Helper()
	r.Until("the holder's start", func() bool { return h.Report().Stage != Prepared })
	return h.Report()
}

func (r *rig) noneLives() {
	r.NoneLives()
	if left, _ := filepath.Glob("/sys/fs/cgroup/*/bully-holder-*"); len(left) > 0 && r.t.Failed() {
		r.t.Logf("cgroups: %v", left)
	}
}

// agent is a process of its own that has started a holder.
type agent struct {
	*rig
	*traces.Agent
}

func (r *rig) agent(o agentOrder) *agent {
	r.t.Helper()
	r.t.Cleanup(func() { r.recovered() }) // once it is dead
	return &agent{rig: r, Agent: traces.Act(r.t, o)}
}

// report is the next one that the agent prints.
func (a *agent) report(stage Stage) Report {
	a.t.Helper()
	for a.Scan() {
		var r Report
		if err := json.Unmarshal(a.Bytes(), &r); err != nil {
			a.t.Fatal(err)
		}
		if r.Stage == stage {
			return r
		}
	}
	a.t.Fatalf("the agent told of no stage %s", stage)
	return Report{}
}

// signal goes to the agent's process group: a holder must not be in it.
func (a *agent) signal(sig unix.Signal) time.Time {
	a.t.Helper()
	at := now()
	a.Signal(sig)
	return at
}

// recovered is what the agent's next start finds.
func (r *rig) recovered() []Record {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	records, err := left(ctx, r.Path("records"))
	if err != nil {
		r.t.Error(err)
	}
	return records
}

// theRecord is the only one.
func (r *rig) theRecord() Record {
	r.t.Helper()
	records := r.recovered()
	if len(records) != 1 {
		r.t.Fatalf("%d records, want 1: %+v", len(records), records)
	}
	return records[0]
}

// reaches are the two ways to find a command's processes.
func reaches(t *testing.T, test func(t *testing.T, cgroup string)) {
	t.Run("cgroup", func(t *testing.T) {
		cg := run.NewCgroup("", fmt.Sprintf("bully-test-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-")))
		if cg.Dir == "" {
			t.Skip("no cgroup can be made here")
		}
		_ = cg.Remove()
		test(t, "")
	})
	t.Run("process group", func(t *testing.T) { test(t, noCgroup) })
}

// death tells when a process dies that need not be a child.
func (r *rig) death(pid int) func() time.Time {
	r.t.Helper()
	return traces.Death(r.t, pid, now)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
