package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// The hook is run as an agent runs it; what it prints must come out of the ear, in the order in which it was written.
func TestEarHearsHooks(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "hooks")
	j := newJournal(nil)
	e, err := openEar(fifo, j, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	e.tell("n5", verdict.Started, "pid 7")
	runHook(t, hookCommand(fifo), "BULLY_EVENT=become-leader", "BULLY_EPOCH=3", "BULLY_EPOCH_OWNER=id-5", "BULLY_CAUSE=boot", "BULLY_ATTEMPT=2")
	runHook(t, loseCommand(fifo, time.Millisecond), "BULLY_EVENT=lose-leadership", "BULLY_EPOCH=3") // no owner, no cause
	e.tell("n5", verdict.Exited, "signal: killed")
	if _, err := j.await(t.Context(), 0, func(r verdict.Record) bool { return r.What == verdict.Exited }); err != nil {
		t.Fatal(err)
	}
	e.close()

	want := []verdict.Record{
		{Node: "n5", What: verdict.Started, Cause: "pid 7"},
		{Node: "n5", What: verdict.Became, Epoch: verdict.Epoch{Counter: 3, Owner: "id-5"}, Cause: "boot", Attempt: 2},
		{Node: "n5", What: verdict.Losing, Epoch: verdict.Epoch{Counter: 3, Owner: ""}, Attempt: 1},
		{Node: "n5", What: verdict.Lost, Epoch: verdict.Epoch{Counter: 3, Owner: ""}, Attempt: 1},
		{Node: "n5", What: verdict.Exited, Cause: "signal: killed"},
	}
	got := j.all()
	if len(got) != len(want) {
		t.Fatalf("heard %v, want %v", got, want)
	}
	for i, r := range got {
		if r.At = 0; r != want[i] {
			t.Errorf("heard %+v, want %+v", r, want[i])
		}
	}
}

// A hook that outlives the lab must not hang for want of a reader.
func TestHookEndsWithoutLab(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "hooks")
	e, err := openEar(fifo, newJournal(nil), func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	e.close()
	runHook(t, loseCommand(fifo, 0), "BULLY_EVENT=lose-leadership", "BULLY_EPOCH=1")
}

// A lose hook that its agent ends has ended, and says so.
func TestLoseHookEndsByTERM(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "hooks")
	j := newJournal(nil)
	e, err := openEar(fifo, j, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", loseCommand(fifo, time.Minute))
	cmd.Env = []string{"BULLY_EVENT=lose-leadership", "BULLY_EPOCH=1", "BULLY_NODE=n5", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := j.await(t.Context(), 0, func(r verdict.Record) bool { return r.What == verdict.Losing }); err != nil {
		t.Fatal(err)
	}
	endGroup(t, j, cmd.Process.Pid, syscall.SIGTERM)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
	if n := len(j.all()); n != 2 {
		t.Errorf("%d lines, want 2: %v", n, j.all())
	}
}

// One that is ended before it has said that it begins has begun, and ended.
func TestLoseHookThatTellsOfItsEndAlone(t *testing.T) {
	pending := map[string]verdict.Record{}
	r, err := parseLine("n5 lose-leadership.end 1 id-5 agent-died 1")
	if err != nil {
		t.Fatal(err)
	}
	if got := complete(pending, r); len(got) != 2 || got[0].What != verdict.Losing || got[1] != r {
		t.Errorf("heard %v", got)
	}
	over, err := parseLine("n5 over 1 - - 1")
	if err != nil {
		t.Fatal(err)
	}
	if got := complete(pending, over); len(got) != 0 {
		t.Errorf("heard %v after that", got)
	}
}

// endGroup sends a signal to a hook's process group until the hook's end is in the journal. The first one may come just
// before the shell starts sleep, and then the shell, which waits for that, heeds none.
func endGroup(t *testing.T, j *journal, group int, s syscall.Signal) {
	t.Helper()
	mark := j.mark()
	for t.Context().Err() == nil {
		_ = syscall.Kill(-group, s)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := j.await(ctx, mark, func(r verdict.Record) bool { return r.What == verdict.Lost })
		if cancel(); err == nil {
			return
		}
	}
}

// One that is killed has ended too.
func TestLoseHookEndsByKILL(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "hooks")
	j := newJournal(nil)
	e, err := openEar(fifo, j, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	if err := e.watchEnds("n5"); err != nil {
		t.Fatal(err)
	}
	for counter, signal := range map[string]syscall.Signal{"1": syscall.SIGKILL, "2": syscall.SIGTERM, "3": 0} {
		takes := time.Minute
		if signal == 0 {
			takes = time.Millisecond
		}
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", loseCommand(fifo, takes))
		cmd.Env = []string{"BULLY_EVENT=lose-leadership", "BULLY_EPOCH=" + counter, "BULLY_NODE=n5", "PATH=" + os.Getenv("PATH")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		mark := j.mark()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for _, w := range []verdict.What{verdict.Losing, verdict.Lost} {
			r, err := j.await(t.Context(), mark, func(r verdict.Record) bool { return r.What == w })
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(r.Epoch.Counter); got != counter {
				t.Errorf("%v has epoch %s, want %s", r, got, counter)
			}
			if w == verdict.Losing && signal != 0 {
				endGroup(t, j, cmd.Process.Pid, signal)
			}
		}
		_ = cmd.Wait()
	}
	// What is told now comes after the ends of all hooks.
	e.tell("n5", verdict.Exited, "exit")
	if _, err := j.await(t.Context(), 0, func(r verdict.Record) bool { return r.What == verdict.Exited }); err != nil {
		t.Fatal(err)
	}
	if n := len(j.all()); n != 7 {
		t.Errorf("%d lines, want 7: %v", n, j.all())
	}
}

func runHook(t *testing.T, command string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
	cmd.Env, cmd.Stderr = append(env, "BULLY_NODE=n5"), os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("hook: %v", err)
	}
}

func TestBadHookLines(t *testing.T) {
	for line, want := range map[string]string{
		"":                                   "1 words",
		"n1 member-change.begin 1 id boot 1": `unknown event "member-change.begin"`,
		"n1 lose-leadership.end 1 id x y":    `attempt "y" is no number`,
		"n1 over x - - 1":                    `parsing "x"`,
	} {
		if _, err := parseLine(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}
