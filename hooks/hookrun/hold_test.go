package hookrun

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/holder"
	"github.com/bully-agent/bully-agent/internal/sidecar"
	"github.com/bully-agent/bully-agent/internal/test/waiting"
)

// This program is also the holders that it starts, and the agent that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case holder.Word:
			os.Exit(holder.Main())
		case "agent":
			actAgent(os.Args[2], os.Args[3], os.Args[4])
		}
	}
	waiting.Together(5) // ends and limits are waited for
	os.Exit(m.Run())
}

// actAgent begins a run that is not tied to anything, and lives until it is
// killed.
func actAgent(dir, limit, line string) {
	timeout, err := time.ParseDuration(limit)
	if err != nil {
		panic(err)
	}
	l, err := newLoopBy(sidecar.Now, Config{Dir: dir, Config: hooks.Config{Grace: 100 * time.Millisecond}}, 0, 1)
	if err != nil {
		panic(err)
	}
	l.step(hooks.JobAsked{Attempt: hooks.JobAttempt{ID: "j-1", Job: "j", Slot: slot, Attempt: 1, Timeout: timeout, Command: hooks.Command{Shell: line}}})
	select {}
}

var slot = time.Date(2026, 11, 20, 2, 30, 0, 0, time.UTC)

// jobRig is a loop by the clock of holders, and a directory in which commands leave traces.
type jobRig struct {
	*loop
	t    *testing.T
	dir  string
	stop func() // ends what runs, once
}

func newJobRig(t *testing.T) *jobRig {
	t.Helper()
	r := &jobRig{t: t, dir: t.TempDir()}
	var err error
	if r.loop, err = newLoopBy(sidecar.Now, Config{Dir: r.dir, Socket: "/run/a.sock", Config: hooks.Config{Grace: 200 * time.Millisecond}}, 0, 16); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	r.stop = func() { stop(); <-done }
	t.Cleanup(r.stop)
	return r
}

func (r *jobRig) path(name string) string { return filepath.Join(r.dir, name) }

// attempt runs a line of shell in which DIR is the rig's directory.
func (r *jobRig) attempt(id, line string) hooks.JobAttempt {
	return hooks.JobAttempt{ID: id, Job: "backup", Slot: slot, Attempt: 1, Timeout: time.Minute,
		Command: hooks.Command{Shell: strings.ReplaceAll(line, "DIR", r.dir)},
		Event:   hooks.Event{Kind: "job", Cause: "scheduled", Time: slot, Epoch: hooks.Epoch{Counter: 7, Owner: "a"}}}
}

func (r *jobRig) begin(a hooks.JobAttempt) { r.step(hooks.JobAsked{Attempt: a, AtOnce: 16}) }

func (r *jobRig) lease(until time.Time) { r.step(hooks.Renewed{Lease: until}) }

// result waits for the next end.
func (r *jobRig) result() hooks.JobResult {
	r.t.Helper()
	select {
	case res := <-r.jobs:
		return res
	case <-time.After(patience):
		r.t.Fatal("no run has ended")
	}
	return hooks.JobResult{}
}

// says waits until a command has written its line to a file.
func (r *jobRig) says(name string) {
	r.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(r.path(name)); err == nil && strings.HasSuffix(string(text), "\n") {
			return
		}
	}
	r.t.Fatalf("%s was never written", name)
}

func (r *jobRig) rows(job string) []hooks.JobRun {
	r.t.Helper()
	rows, err := r.hands.holding.history.Rows(job)
	if err != nil {
		r.t.Fatal(err)
	}
	return rows
}

func (r *jobRig) noRecords() {
	r.t.Helper()
	if left, _ := filepath.Glob(filepath.Join(r.hands.holding.records, "*")); len(left) > 0 {
		r.t.Errorf("records are left: %q", left)
	}
}

// What a command is told, and what is kept of it. What has ended is kept in the history alone: a keeper runs for years.
func TestARunAndWhatIsKept(t *testing.T) {
	r := newJobRig(t)
	r.begin(r.attempt("backup-7-x-1", `env | grep ^BULLY_ | sort; echo to stderr >&2; cat; exit 3`))
	if res := r.result(); res != (hooks.JobResult{ID: "backup-7-x-1", Job: "backup", Exit: 3}) {
		t.Errorf("result %+v", res)
	}
	rows := r.rows("backup")
	if len(rows) != 1 {
		t.Fatalf("%d rows are kept", len(rows))
	}
	row := rows[0]
	if row.Run != "backup-7-x-1" || row.Exit != 3 || row.Attempt != 1 || row.Epoch != 7 || !row.Slot.Equal(slot) || row.Cause != "" {
		t.Errorf("kept row %+v", row)
	}
	text, err := r.hands.holding.history.Output(row)
	if err != nil || int64(len(text)) != row.Printed {
		t.Errorf("%d bytes are kept of %d: %v", len(text), row.Printed, err)
	}
	for _, want := range []string{"BULLY_JOB=backup\n", "BULLY_JOB_SLOT=2026-11-20T02:30:00Z\n", "BULLY_JOB_RUN_ID=backup-7-x-1\n",
		"BULLY_EPOCH=7\n", "BULLY_EVENT=job\n", "BULLY_TIMEOUT_SECONDS=60\n", "BULLY_SOCKET=/run/a.sock\n", "to stderr\n"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the output lacks %q:\n%s", want, text)
		}
	}
	r.noRecords()
	r.await(r.lanes.IsAllAtRest)
	if n := len(r.hands.holding.all); n != 0 {
		t.Errorf("%d runs are kept after their end", n)
	}
}

func TestExitAsAShellTellsIt(t *testing.T) {
	r := newJobRig(t)
	plain := r.path("plain")
	if err := os.WriteFile(plain, []byte("#!/nonexistent/interpreter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		line string
		argv []string
		exit uint8
		err  string
	}{
		{line: "true"},
		{line: "exit 255", exit: 255},
		{line: "kill -9 $$", exit: 137},
		{line: "kill -15 $$", exit: 143},
		{line: "nonexistent-command", exit: 127},
		{argv: []string{plain}, exit: 126, err: "not executable"},
		{argv: []string{"/nonexistent/program"}, exit: 127, err: "no such file"},
		{line: "/nonexistent/program now", exit: 127, err: "no such file"},
		{argv: []string{}, exit: 126, err: "no command"},
	} {
		o := r.attempt(fmt.Sprint(i), tt.line)
		if o.Command.Argv = tt.argv; tt.argv != nil {
			o.Command.Shell = ""
		}
		r.begin(o)
		if res := r.result(); res.Exit != tt.exit || !strings.Contains(res.Err, tt.err) || (res.Err == "") != (tt.err == "") {
			t.Errorf("%s%q: exit %d, %q; want %d, %q", tt.line, tt.argv, res.Exit, res.Err, tt.exit, tt.err)
		}
	}
}

// The end reaches all of the command, also what ignores TERM and what has left its
// process group.
func TestTheEndOfAJobLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newJobRig(t)
	r.begin(r.attempt("a", `trap '' TERM; setsid sh -c 'echo $$ >DIR/child; sleep 600' & echo $$ >DIR/first; wait; sleep 600`))
	r.says("first")
	r.says("child")
	r.step(hooks.JobStopped{ID: "a", Cause: "timed-out"})
	if res := r.result(); res.Exit != 137 || res.Cause != "timed-out" {
		t.Errorf("result %+v, want exit 137", res)
	}
	if lives(t, r.path("first")) || lives(t, r.path("child")) {
		t.Error("something of the command lives on")
	}
	if rows := r.rows(""); len(rows) != 1 || rows[0].Cause != "timed-out" {
		t.Errorf("kept rows %+v", rows)
	}
	r.step(hooks.JobStopped{ID: "a", Cause: "again"}) // there is no such run any more
}

// What is tied to the leadership is dead when the lease has ended, what is not goes
// on, and neither dies while the lease is renewed.
func TestTiedToTheLease(t *testing.T) {
	t.Parallel()
	r := newJobRig(t)
	r.lease(sidecar.Now().Add(patience))
	tied, free := r.attempt("tied", `echo $$ >DIR/tied; trap '' TERM; while :; do sleep 0.01; done`), r.attempt("free", `echo $$ >DIR/free; exec sleep 600`)
	tied.Tied = true
	r.begin(tied)
	r.begin(free)
	r.says("tied")
	r.says("free")
	const lease = time.Second
	r.lease(sidecar.Now().Add(lease / 2))
	end := sidecar.Now().Add(lease)
	r.lease(end)
	res := r.result()
	if res.ID != "tied" || res.Cause != hooks.CauseAgentDied || res.TooLate {
		t.Errorf("%+v", res)
	}
	if early := end.Sub(sidecar.Now()); early > lease/2 {
		t.Errorf("it was ended %v before the end of the lease that was renewed last", early)
	}
	if lives(t, r.path("tied")) || !lives(t, r.path("free")) {
		t.Errorf("the tied one lives: %t, the free one: %t", lives(t, r.path("tied")), lives(t, r.path("free")))
	}
}

// What is not tied to the leadership ends soon after its timeout and the grace, though nobody has ended it: its agent waits
// for a disk, or is stopped.
func TestTimeoutWithoutTheAgent(t *testing.T) {
	t.Parallel()
	r := newJobRig(t)
	a := r.attempt("free", `trap '' TERM; echo $$ >DIR/pid; while :; do sleep 0.01; done`)
	a.Timeout = time.Second // in which it says who it is
	r.begin(a)
	res := r.result()
	if res.Cause != hooks.JobTimedOut || res.Err == "" || res.TooLate || lives(t, r.path("pid")) {
		t.Errorf("%+v, it lives: %t", res, lives(t, r.path("pid")))
	}
	if rows := r.rows("backup"); len(rows) != 1 || rows[0].Cause != hooks.JobTimedOut || rows[0].Err != res.Err {
		t.Errorf("kept rows %+v", rows)
	}
}

// agent is a process of its own that runs a job without a lease, and is killed at the end.
func (r *jobRig) agent(timeout time.Duration) *exec.Cmd {
	r.t.Helper()
	agent := exec.Command("/proc/self/exe", "agent", r.dir, timeout.String(), `trap '' TERM; echo $$ >`+r.path("pid")+`; while :; do sleep 0.01; done`)
	if err := agent.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
	})
	r.says("pid")
	return agent
}

// The same with an agent that is stopped as a whole.
func TestTimeoutOfAStoppedAgent(t *testing.T) {
	t.Parallel()
	r := newJobRig(t)
	if err := r.agent(time.Second).Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); lives(t, r.path("pid")); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the command of a stopped agent goes on after its timeout")
		}
	}
}

// What an agent was running when it was killed is gone after RecoverJobs of its next
// life, also what was to finish.
func TestRecoverAfterTheAgentWasKilled(t *testing.T) {
	t.Parallel()
	r := newJobRig(t)
	if err := r.agent(time.Hour).Process.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.hands.RecoverJobs(ctx); err != nil {
		t.Fatal(err)
	}
	if lives(t, r.path("pid")) {
		t.Error("the command of the killed agent lives on")
	}
	r.noRecords()
}

// What may outlive the lease is not started after it.
func TestTooLateForTheLease(t *testing.T) {
	r := newJobRig(t)
	r.lease(sidecar.Now().Add(-time.Second))
	r.begin(r.attempt("a", "echo yes >DIR/ran"))
	if res := r.result(); !res.TooLate || res.Err == "" {
		t.Errorf("%+v", res)
	}
	if _, err := os.Stat(r.path("ran")); err == nil {
		t.Error("it ran")
	}
}

// An agent that stops leaves nothing, and whoever has begun a run hears of its end.
func TestCloseEndsWhatRuns(t *testing.T) {
	r := newJobRig(t)
	r.begin(r.attempt("a", `trap '' TERM; echo $$ >DIR/pid; while :; do sleep 0.01; done`))
	r.says("pid")
	r.stop()
	if lives(t, r.path("pid")) {
		t.Error("the command lives")
	}
	if res := r.result(); res.Cause != "agent-stopping" || res.Exit != hooks.ExitKilled {
		t.Errorf("result %+v", res)
	}
}

// A disk that hangs keeps nobody from hearing how a run ended, nor these from their end.
func TestARunEndsOnADiskThatHangs(t *testing.T) {
	t.Parallel()
	r := newJobRig(t)
	thaw := make(chan struct{})
	defer func() { close(thaw); r.hands.holding.files.wait(patience) }()
	r.hands.holding.files.add(func() { <-thaw })
	r.begin(r.attempt("a", "exit 3"))
	if res := r.result(); res.Exit != 3 {
		t.Errorf("result %+v", res)
	}
	r.stop()
}
