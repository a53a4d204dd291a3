package hookrun

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/test/traces"
)

// orphan starts a script in a group of its own, as an agent did that then died,
// and gives the journal's entry for it.
func orphan(t *testing.T, script string) (hooks.Entry, *exec.Cmd) {
	t.Helper()
	return orphanOf(t, event(t, hooks.BecomeLeader, 7), script)
}

func orphanOf(t *testing.T, ev hooks.Event, script string) (hooks.Entry, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = hooks.Environ(ev, hooks.Circumstances{Seq: 12}, os.Getenv)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Signal(cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	})
	return newEntry(cmd.Process.Pid, 12, ev), cmd
}

// crashed is a rig whose journal says what an earlier life left running.
func crashed(t *testing.T, s scripts, cfg Config, left hooks.Entry) *rig {
	t.Helper()
	return leaves(t, hooks.Page{Runs: map[hooks.Lane]hooks.Entry{hooks.Leadership: left}}, s, cfg)
}

// leaves is a rig whose journal an earlier life has left so.
func leaves(t *testing.T, left hooks.Page, s scripts, cfg Config) *rig {
	t.Helper()
	text, err := json.Marshal(left)
	if err != nil {
		t.Fatal(err)
	}
	return leavesFile(t, sealed(text), s, cfg)
}

func leavesFile(t *testing.T, text []byte, s scripts, cfg Config) *rig {
	t.Helper()
	cfg.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(cfg.Dir, journalName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return setUp(t, s, cfg)
}

// M18: what the earlier life left is dead before the lose hook runs.
func TestCleanUpEndsOrphansThenLoses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, script string
		grace        time.Duration
	}{
		{"that obey", "exec sleep 1000", patience},
		{"that ignore TERM", "trap '' TERM; while :; do sleep 1; done", shortGrace},
		{"whose first process is gone", "sleep 1000 & sleep 1000 &", patience},
	} {
		t.Run(tt.name, func(t *testing.T) {
			left, cmd := orphan(t, tt.script)
			if strings.Contains(tt.name, "gone") {
				traces.Until(t, "the first process to end", func() bool { s, err := run.ReadStat(left.Group); return err == nil && !s.Runs() })
				_ = cmd.Wait()
			}
			if !alive(left) {
				t.Fatal("the orphan does not live, or is not recognised")
			}
			g := crashed(t, scripts{hooks.LoseLeadership: note + "echo $BULLY_CAUSE >cause"}, Config{Config: hooks.Config{Grace: tt.grace}}, left)
			res := g.CleanUp(context.Background(), event(t, hooks.LoseLeadership, 7))
			if !res.OK || !res.Ran || res.Kind != hooks.LoseLeadership || res.Epoch != 7 {
				t.Errorf("result %+v", res)
			}
			traces.Until(t, "the orphans' end", func() bool { return len(run.Living(left.Group)) == 0 }) // the last may be on its way out
			if got := strings.Join(g.lines("cause"), " "); got != "unclean-restart" {
				t.Errorf("cause %q", got)
			}
			g.run()
			g.become(7) // no epoch is led twice
			g.wants(hooks.BecomeLeader, 7, true, false)
		})
	}
}

// A group that merely has the number of the recorded one is somebody else's.
func TestCleanUpSparesAReusedNumber(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		stale func(e *hooks.Entry)
	}{
		{"other start time", func(e *hooks.Entry) { e.Start++ }},
		{"unknown start time", func(e *hooks.Entry) { e.Start = 0 }},
		{"other boot", func(e *hooks.Entry) { e.Boot = "before" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			left, _ := orphan(t, "exec sleep 1000")
			stale := left
			tt.stale(&stale)
			g := crashed(t, scripts{hooks.LoseLeadership: note}, Config{}, stale)
			if res := g.CleanUp(context.Background(), event(t, hooks.LoseLeadership, 9)); !res.OK {
				t.Errorf("result %+v", res)
			}
			if !alive(left) {
				t.Error("a process that is not ours was killed")
			}
		})
	}
}

// The same for a group whose first process has ended: only its environment tells.
func TestCleanUpSparesAReusedGroupWithoutFirstProcess(t *testing.T) {
	left, cmd := orphan(t, "sleep 1000 &")
	_ = cmd.Wait()
	stale := left
	stale.Epoch++
	g := crashed(t, scripts{}, Config{}, stale)
	g.CleanUp(context.Background(), event(t, hooks.LoseLeadership, 9))
	if !alive(left) {
		t.Error("a process that is not ours was killed")
	}
}

// Also without CleanUp: a notification may have been running when the agent died.
func TestRunEndsOrphans(t *testing.T) {
	left, _ := orphan(t, "exec sleep 1000")
	g := crashed(t, scripts{hooks.BecomeLeader: note}, Config{}, left)
	g.run()
	g.become(8)
	g.wants(hooks.BecomeLeader, 8, true, true)
	if alive(left) {
		t.Error("the orphan still lives")
	}
}

func TestJournalHoldsTheRunningGroup(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note + "read go <gate"}, Config{Dir: t.TempDir()})
	g.mkfifo("gate")
	g.become(5)
	g.Until("the entry", func() bool {
		left, err := g.hands.journal.load()
		return err == nil && left.Runs[hooks.Leadership].Group != 0
	})
	left, _ := g.hands.journal.load()
	if e := left.Runs[hooks.Leadership]; e.Epoch != 5 || e.Hook != hooks.BecomeLeader || !alive(e) {
		t.Errorf("journal has %+v", left)
	}
	g.open("gate")
	g.wants(hooks.BecomeLeader, 5, true, true)
	g.Until("the end of the run", func() bool { left, err := g.hands.journal.load(); return err == nil && len(left.Runs) == 0 })
	if left, _ := g.hands.journal.load(); left.Owed == nil || *left.Owed != (hooks.Epoch{Counter: 5, Owner: owner(t)}) {
		t.Errorf("the journal owes %v after a become hook", left.Owed)
	}
	g.lose(5)
	g.wants(hooks.LoseLeadership, 5, true, false)
	g.end()
	if _, err := os.Stat(g.hands.journal.path); !os.IsNotExist(err) {
		t.Errorf("the journal outlives its hook: %v", err)
	}
}

// A lose hook that fails at the start is due further on, though the journal did not
// know of it.
func TestCleanUpThatFailsIsOwed(t *testing.T) {
	t.Parallel()
	g := leavesFile(t, []byte("{"), scripts{hooks.LoseLeadership: "exit 1"}, Config{})
	if res := g.CleanUp(context.Background(), event(t, hooks.LoseLeadership, 7)); res.OK {
		t.Errorf("result %+v", res)
	}
	if left, err := g.hands.journal.load(); err != nil || left.Owed == nil || *left.Owed != (hooks.Epoch{Counter: 7, Owner: owner(t)}) {
		t.Errorf("the journal has %+v (%v)", left, err)
	}
}

func TestDamagedJournalDoesNotPreventCleanUp(t *testing.T) {
	g := leavesFile(t, []byte("{"), scripts{hooks.LoseLeadership: note}, Config{})
	if res := g.CleanUp(context.Background(), event(t, hooks.LoseLeadership, 7)); !res.OK || !res.Ran {
		t.Errorf("result %+v", res)
	}
	if !strings.Contains(g.log.String(), "orphaned hooks may still run") {
		t.Error("a damaged journal was passed over in silence")
	}
}

func TestCleanUpEndsWithItsContext(t *testing.T) {
	g := setUp(t, scripts{hooks.LoseLeadership: note + "exec sleep 1000"}, Config{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan hooks.Result)
	go func() { done <- g.CleanUp(ctx, event(t, hooks.LoseLeadership, 7)) }()
	g.UntilFile("order")
	cancel()
	if res := <-done; res.OK || res.Err != hooks.ErrStopping {
		t.Errorf("result %+v", res)
	}
}

// In the middle of an execve a process has no environment that anybody can read.
func TestMarkIsSeenDuringExec(t *testing.T) {
	script := filepath.Join(t.TempDir(), "again")
	if err := os.WriteFile(script, []byte("exec /bin/sh "+script), 0o600); err != nil {
		t.Fatal(err)
	}
	left, cmd := orphan(t, "exec /bin/sh "+script)
	for range 5000 {
		if !isMarked(left, cmd.Process.Pid) {
			stat, err := run.ReadStat(cmd.Process.Pid)
			t.Fatalf("the process is not recognised: then %+v (%v)", stat, err)
		}
	}
}

// A begin that comes before an earlier note is on the disk is written in its place, and waits for none of
// the syncs that the earlier one had asked for. What comes after it is synced as it asks.
func TestABeginWaitsForNoSync(t *testing.T) {
	dir := t.TempDir()
	noted := make(chan hooks.Noted, 1)
	j := journal{path: filepath.Join(dir, journalName), backlog: &backlog{}, noted: func(n hooks.Noted) { noted <- n }}
	gate := make(chan struct{})
	j.backlog.add(func() { <-gate })
	j.note(hooks.Note{Number: 1, Page: hooks.Page{Owed: &hooks.Epoch{Counter: 7}}, IsSync: true, IsLast: true})
	j.note(hooks.Note{Number: 2, Page: hooks.Page{Owed: &hooks.Epoch{Counter: 9}}, IsBegin: true})
	if n := j.next; n.IsSync || n.IsLast || !n.IsBegin {
		t.Errorf("the begin is written as %+v", n)
	}
	j.note(hooks.Note{Number: 3, Page: hooks.Page{Owed: &hooks.Epoch{Counter: 7}}, IsSync: true, IsLast: true})
	if n := j.next; !n.IsSync || !n.IsLast || !n.IsBegin {
		t.Errorf("what has taken the begin's place is written as %+v", n)
	}
	close(gate)
	if n := <-noted; n.Number != 3 || n.Err != nil {
		t.Errorf("noted %+v", n)
	}
	if left, err := j.load(); err != nil || left.Owed.Counter != 7 {
		t.Errorf("the journal has %+v (%v)", left, err)
	}
}

// A disk that hangs holds up its own goroutine only.
func TestBacklog(t *testing.T) {
	var b backlog
	gate, written := make(chan struct{}), make(chan int, backlogSize+1)
	b.add(func() { <-gate })
	accepted := 0
	for i := 0; b.tryAdd(func() { written <- i }); i++ {
		accepted++
	}
	if accepted < backlogSize-1 || accepted > backlogSize {
		t.Errorf("%d writes waited, want about %d", accepted, backlogSize)
	}
	close(gate)
	b.wait(patience)
	for i := range accepted {
		if got := <-written; got != i {
			t.Fatalf("write %d came as number %d", got, i)
		}
	}
}

// What a crash has left half-written is in nobody's way, and goes with the next writing.
func TestAHalfWrittenJournal(t *testing.T) {
	state := t.TempDir()
	for _, name := range []string{journalName + ".new", journalName + ".try", journalName + ".try.new"} {
		if err := os.WriteFile(filepath.Join(state, name), bytes.Repeat([]byte("x"), 10_000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := startRig(t, scripts{hooks.BecomeLeader: note}, Config{Dir: state})
	g.become(3)
	g.wants(hooks.BecomeLeader, 3, true, true)
	g.hands.backlog.wait(patience)
	left, err := filepath.Glob(filepath.Join(state, journalName+".*"))
	if page, unread := g.hands.journal.load(); err != nil || unread != nil || page.Owed == nil || len(left) > 0 {
		t.Errorf("the journal has %+v, %v; and beside it is %q", page, unread, left)
	}
}
