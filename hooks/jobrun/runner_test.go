package jobrun

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/holder"
	"github.com/bully-agent/bully-agent/internal/run"
)

// What a command is told, and what is kept of it.
func TestARunAndWhatIsKept(t *testing.T) {
	r := newRig(t)
	r.Begin(r.order("backup-7-x-1", `env | grep ^BULLY_ | sort; echo to stderr >&2; cat; exit 3`))
	if res := r.result(); res != (Result{ID: "backup-7-x-1", Job: "backup", Exit: 3}) {
		t.Errorf("result %+v", res)
	}
	rows, err := r.history.Rows("backup")
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d rows are kept: %v", len(rows), err)
	}
	row := rows[0]
	if row.Run != "backup-7-x-1" || row.Exit != 3 || row.Attempt != 1 || row.Epoch != 7 || !row.Slot.Equal(slot) || row.Cause != "" {
		t.Errorf("kept row %+v", row)
	}
	text, err := r.history.Output(row)
	if err != nil || int64(len(text)) != row.Printed {
		t.Errorf("%d bytes are kept of %d: %v", len(text), row.Printed, err)
	}
	for _, want := range []string{"BULLY_JOB=backup\n", "BULLY_JOB_SLOT=2026-11-20T02:30:00Z\n", "BULLY_JOB_RUN_ID=backup-7-x-1\n",
		"BULLY_EPOCH=7\n", "BULLY_EVENT=job\n", "BULLY_TIMEOUT_SECONDS=60\n", "BULLY_SOCKET=/run/a.sock\n", "to stderr\n"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the output lacks %q:\n%s", want, text)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(r.records(), "*")); len(left) > 0 {
		t.Errorf("records are left: %q", left)
	}
}

func TestExitAsAShellTellsIt(t *testing.T) {
	r := newRig(t)
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
		o := r.order(fmt.Sprint(i), tt.line)
		if o.Command.Argv = tt.argv; tt.argv != nil {
			o.Command.Shell = ""
		}
		r.Begin(o)
		if res := r.result(); res.Exit != tt.exit || !strings.Contains(res.Err, tt.err) || (res.Err == "") != (tt.err == "") {
			t.Errorf("%s%q: exit %d, %q; want %d, %q", tt.line, tt.argv, res.Exit, res.Err, tt.exit, tt.err)
		}
	}
}

// End reaches all of the command, also what ignores TERM and what has left its
// process group.
func TestEndLeavesNothing(t *testing.T) {
	r := newRig(t)
	r.Begin(r.order("a", `trap '' TERM; setsid sh -c 'echo $$ >DIR/child; sleep 600' & echo $$ >DIR/first; wait; sleep 600`))
	first, child := r.eventually("first"), r.eventually("child")
	r.End("a", "timed-out")
	if res := r.result(); res.Exit != 137 {
		t.Errorf("result %+v, want exit 137", res)
	}
	if lives(t, first) || lives(t, child) {
		t.Error("something of the command lives on")
	}
	if rows, err := r.history.Rows(""); err != nil || len(rows) != 1 || rows[0].Cause != "timed-out" {
		t.Errorf("kept rows %+v, %v", rows, err)
	}
	r.End("a", "again") // there is no such run any more
}

// An attempt that was ended before it had begun does not begin.
func TestEndBeforeTheStart(t *testing.T) {
	r := newRig(t)
	a := r.add(r.order("a", "echo yes >DIR/ran"))
	r.End("a", "replaced")
	r.work.Go(func() { r.serve(a) })
	if res := r.result(); res.Exit != 126 || res.Err != holder.ErrStopped.Error() {
		t.Errorf("result %+v", res)
	}
	if _, err := os.Stat(r.path("ran")); err == nil {
		t.Error("it ran")
	}
}

// What is said before the holder has been started is not lost.
func TestSaidBeforeTheStart(t *testing.T) {
	r := newRig(t)
	r.Lease(clock().Add(10 * patience))
	o := r.order("a", "exec sleep 1000")
	o.Tied = true
	a := r.add(o)
	r.Lease(clock())
	r.work.Go(func() { r.serve(a) })
	if res := r.result(); res.Cause != AgentDied || !res.TooLate {
		t.Errorf("result %+v", res)
	}
}

// What is tied to the leadership is dead when the lease has ended, what is not goes
// on, and neither dies while the lease is renewed.
func TestTiedToTheLease(t *testing.T) {
	r := newRig(t)
	r.Lease(clock().Add(patience))
	tied, free := r.order("tied", `echo $$ >DIR/tied; trap '' TERM; while :; do sleep 0.01; done`), r.order("free", `echo $$ >DIR/free; sleep 600`)
	tied.Tied = true
	r.Begin(tied)
	r.Begin(free)
	pid, other := r.eventually("tied"), r.eventually("free")

	const lease = 2 * time.Second
	r.Lease(clock().Add(lease / 2))
	end := clock().Add(lease)
	r.Lease(end)
	res := r.result()
	if late := clock().Sub(end); res.ID != "tied" || res.Err != bySilence || late > lease {
		t.Errorf("%+v, %v after the end of the lease", res, late)
	}
	if early := end.Sub(clock()); early > lease/2 {
		t.Errorf("it was ended %v before the end of the lease that was renewed last", early)
	}
	if lives(t, pid) || !lives(t, other) {
		t.Errorf("the tied one lives: %t, the free one: %t", lives(t, pid), lives(t, other))
	}
	r.End("free", "replaced")
	r.result()
}

// What is not tied to the leadership ends soon after its timeout and the grace,
// though nobody has ended it: its agent waits for a disk, or is stopped.
func TestTimeoutWithoutTheAgent(t *testing.T) {
	r := newRig(t)
	const timeout, grace = time.Second, 200 * time.Millisecond // the rig's
	o := r.order("free", `trap '' TERM; echo $$ >DIR/pid; while :; do sleep 0.01; done`)
	o.Timeout = timeout
	begun := clock()
	r.Begin(o)
	pid := r.eventually("pid")
	res := r.result()
	if res.Cause != TimedOut || res.Err != byTimeout || res.TooLate || lives(t, pid) {
		t.Errorf("%+v, it lives: %t", res, lives(t, pid))
	}
	if took := clock().Sub(begun); took < timeout+endSlack {
		t.Errorf("it was ended after %v: End would have come too late", took)
	}
	rows, err := r.history.Rows("backup")
	if err != nil || len(rows) != 1 || rows[0].Cause != TimedOut || rows[0].Err != byTimeout {
		t.Errorf("kept rows %+v, %v", rows, err)
	}
}

// The same with an agent that is stopped as a whole.
func TestTimeoutOfAStoppedAgent(t *testing.T) {
	r := newRig(t)
	const timeout = 2 * time.Second
	agent := exec.Command("/proc/self/exe", "agent", r.dir, timeout.String(),
		`trap '' TERM; echo $$ >`+r.path("pid")+`; while :; do sleep 0.01; done`)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
	})
	pid := r.eventually("pid")
	if err := agent.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); lives(t, pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the command of a stopped agent goes on after its timeout")
		}
	}
}

// What may outlive the lease is not started after it: neither if this process was
// stopped on its way to the holder, nor in a later leadership.
func TestTooLateForTheLease(t *testing.T) {
	r := newRig(t)
	r.Lease(clock().Add(-time.Second))
	r.Begin(r.order("a", "echo yes >DIR/ran"))
	if res := r.result(); !res.TooLate || res.Err == "" {
		t.Errorf("a lease that has ended: %+v", res)
	}
	r.Lease(clock().Add(patience))
	lost := r.add(r.order("b", "echo yes >DIR/ran"))
	r.Lost("leadership-lost")
	r.Lease(clock().Add(patience))
	r.work.Go(func() { r.serve(lost) })
	if res := r.result(); !res.TooLate || res.Err == "" {
		t.Errorf("another leadership's lease: %+v", res)
	}
	if _, err := os.Stat(r.path("ran")); err == nil {
		t.Error("it ran")
	}
}

// A lost leadership ends what is tied to it, at once and with its grace; a later
// lease is not for it.
func TestLost(t *testing.T) {
	r := newRig(t)
	r.SetGrace(patience) // it answers TERM by itself, on a busy machine too
	r.Lease(clock().Add(patience))
	tied := r.order("tied", `trap 'echo TERM >DIR/asked; exit 4' TERM; echo $$ >DIR/tied; while :; do sleep 0.01; done`)
	tied.Tied = true
	r.Begin(tied)
	r.eventually("tied")
	r.Lost("leadership-lost")
	r.Lease(clock().Add(patience))
	if res := r.result(); res.Exit != 4 || r.eventually("asked") != "TERM" {
		t.Errorf("result %+v", res)
	}
	if rows, err := r.history.Rows("backup"); err != nil || len(rows) != 1 || rows[0].Cause != "leadership-lost" {
		t.Errorf("kept rows %+v, %v", rows, err)
	}
}

// The lease of the next leadership is not for a command of the last one: that is dead when
// its own lease has ended, however long its grace is. What is not tied goes on.
func TestTheNextLeaseIsNotForTheLastLeadership(t *testing.T) {
	r := newRig(t)
	r.SetGrace(2 * patience)
	r.Lease(clock().Add(2 * patience))
	tied, free := r.order("tied", `trap '' TERM; echo $$ >DIR/tied; while :; do sleep 0.01; done`), r.order("free", `echo $$ >DIR/free; exec sleep 600`)
	tied.Tied = true
	r.Begin(tied)
	r.Begin(free)
	r.eventually("tied")
	r.eventually("free")
	r.Lease(clock().Add(3 * time.Second))
	r.Lost("leadership-lost")
	r.Lease(clock().Add(2 * patience))
	if res := r.result(); res.ID != "tied" || res.Cause != "leadership-lost" {
		t.Errorf("result %+v", res)
	}
	r.End("free", "replaced")
	if res := r.result(); res.ID != "free" || res.Cause != "replaced" {
		t.Errorf("what is not tied: %+v", res)
	}
}

// While a planned end of the leadership waits for what it has told to end, that has its
// grace also beyond the lease of before.
func TestAPlannedEndHasItsGrace(t *testing.T) {
	r := newRig(t)
	r.SetGrace(2 * patience)
	r.Lease(clock().Add(2 * patience))
	tied := r.order("tied", `trap 'echo $$ >DIR/asked; while test ! -e DIR/go; do sleep 0.01; done; exit 4' TERM; echo $$ >DIR/tied; while :; do sleep 0.01; done`)
	tied.Tied = true
	r.Begin(tied)
	r.eventually("tied")
	over := clock().Add(3 * time.Second)
	r.Lease(over)
	r.Lost("leadership-lost")
	r.Ending(clock().Add(2 * patience))
	r.eventually("asked")
	for clock().Before(over.Add(50 * time.Millisecond)) {
		time.Sleep(10 * time.Millisecond)
	}
	if err := os.WriteFile(r.path("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if res := r.result(); res.Exit != 4 {
		t.Errorf("result %+v, want that it had its grace", res)
	}
}

// A tied command has the lease with which it began, also if nobody says a word more.
func TestTiedToTheLeaseOfItsStart(t *testing.T) {
	r := newRig(t)
	r.Lease(clock().Add(2 * time.Second))
	tied := r.order("tied", `trap '' TERM; while :; do sleep 0.01; done`)
	tied.Tied = true
	r.Begin(tied)
	if res := r.result(); res.Cause != AgentDied {
		t.Errorf("result %+v", res)
	}
}

// What an agent was running when it was killed is gone after Recover of its next
// life, also what was to finish.
func TestRecoverAfterTheAgentWasKilled(t *testing.T) {
	r := newRig(t)
	agent := exec.Command("/proc/self/exe", "agent", r.dir, "1h", `trap '' TERM; echo $$ >`+r.path("pid")+`; while :; do sleep 0.01; done`)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	pid := r.eventually("pid")
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Recover(ctx); err != nil {
		t.Fatal(err)
	}
	if lives(t, pid) {
		t.Error("the command of the killed agent lives on")
	}
	if left, _ := filepath.Glob(filepath.Join(r.records(), "*")); len(left) > 0 {
		t.Errorf("records are left: %q", left)
	}
}

// Close leaves nothing either, and whoever has begun a run hears of its end.
func TestCloseEndsWhatRuns(t *testing.T) {
	r := newRig(t)
	r.Begin(r.order("a", `trap '' TERM; echo $$ >DIR/pid; while :; do sleep 0.01; done`))
	pid := r.eventually("pid")
	r.close()
	if lives(t, pid) {
		t.Error("the command lives")
	}
	if res := r.result(); res.Cause != "agent-stopping" || res.Exit != ExitKilled {
		t.Errorf("result %+v", res)
	}
}

// Of each job the newest runs are kept, and their numbers go on after a restart.
func TestHistoryIsBounded(t *testing.T) {
	r := newRig(t)
	for i := range run.ArchiveSize + 5 {
		row := Row{Job: "often", Run: fmt.Sprint(i), Started: slot}
		if err := r.history.keep(r.history.next(), row, emptyOutput()); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.history.keep(r.history.next(), Row{Job: "rare", Run: "r"}, emptyOutput()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.history.dir, "often", "notes.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for job, want := range map[string]int{"often": run.ArchiveSize, "rare": 1, "": run.ArchiveSize + 1, "never": 0} {
		rows, err := r.history.Rows(job)
		if err != nil || len(rows) != want {
			t.Errorf("%q has %d rows, want %d: %v", job, len(rows), want, err)
		}
		if !slices.IsSortedFunc(rows, func(a, b Row) int { return cmp.Compare(a.kept.Seq, b.kept.Seq) }) {
			t.Errorf("%q: rows are not in order", job)
		}
	}
	again, err := New(r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if next := again.history.next(); next != run.ArchiveSize+7 {
		t.Errorf("the next number is %d, want %d", next, run.ArchiveSize+7)
	}
}

// What is kept of jobs that nobody knows goes; a pattern is no name.
func TestHistoryOfFormerJobs(t *testing.T) {
	r := newRig(t)
	for _, job := range []string{"old", "new"} {
		if err := r.history.keep(r.history.next(), Row{Job: job, Run: job}, emptyOutput()); err != nil {
			t.Fatal(err)
		}
	}
	for _, pattern := range []string{"*", "[", "n?w"} {
		if rows, err := r.history.Rows(pattern); err != nil || len(rows) != 0 {
			t.Errorf("%q has %d rows, %v", pattern, len(rows), err)
		}
	}
	if err := r.history.Sweep(func(job string) bool { return job == "new" }); err != nil {
		t.Fatal(err)
	}
	rows, err := r.history.Rows("")
	if _, gone := os.Stat(filepath.Join(r.history.dir, "old")); err != nil || len(rows) != 1 || rows[0].Run != "new" || gone == nil {
		t.Errorf("kept rows %+v, %v; the former job's directory: %v", rows, err, gone)
	}
}

// What has ended is kept in the history alone: an agent runs for years.
func TestAnEndedRunIsForgotten(t *testing.T) {
	r := newRig(t)
	for _, id := range []string{"a", "b"} {
		r.Begin(r.order(id, "true"))
		r.result()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.runs); n != 0 {
		t.Errorf("%d runs are kept after their end", n)
	}
}
