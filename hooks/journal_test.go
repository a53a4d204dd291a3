package hooks

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/test/traces"
	"golang.org/x/sys/unix"
)

// orphan starts a script in a group of its own, as an agent did that then died,
// and gives the journal's entry for it.
func orphan(t *testing.T, script string) (entry, *exec.Cmd) {
	t.Helper()
	return orphanOf(t, event(BecomeLeader, 7), script)
}

func orphanOf(t *testing.T, ev Event, script string) (entry, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = environ(ev, circumstances{seq: 12}, os.Getenv)
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
func crashed(t *testing.T, s scripts, cfg Config, left entry) *rig {
	t.Helper()
	cfg.Dir = t.TempDir()
	g := setUp(t, s, cfg)
	text, err := json.Marshal(page{Runs: map[lane]entry{leadership: left}})
	if err != nil {
		t.Fatal(err)
	}
	if err := replace(g.journal.path, sealed(text), false); err != nil {
		t.Fatal(err)
	}
	return g
}

// M18: what the earlier life left is dead before the lose hook runs.
func TestCleanUpEndsOrphansThenLoses(t *testing.T) {
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
			if !left.alive() {
				t.Fatal("the orphan does not live, or is not recognised")
			}
			g := crashed(t, scripts{LoseLeadership: note + "echo $BULLY_CAUSE >cause"}, Config{Grace: tt.grace}, left)
			res := g.CleanUp(context.Background(), event(LoseLeadership, 7))
			if !res.OK || !res.Ran || res.Kind != LoseLeadership || res.Epoch != 7 {
				t.Errorf("result %+v", res)
			}
			traces.Until(t, "the orphans' end", func() bool { return len(run.Living(left.Group)) == 0 }) // the last may be on its way out
			if got := strings.Join(g.lines("cause"), " "); got != "unclean-restart" {
				t.Errorf("cause %q", got)
			}
			g.run()
			g.become(7) // no epoch is led twice
			g.wants(BecomeLeader, 7, true, false)
		})
	}
}

// A group that merely has the number of the recorded one is somebody else's.
func TestCleanUpSparesAReusedNumber(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stale func(e *entry)
	}{
		{"other start time", func(e *entry) { e.Start++ }},
		{"unknown start time", func(e *entry) { e.Start = 0 }},
		{"other boot", func(e *entry) { e.Boot = "before" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			left, _ := orphan(t, "exec sleep 1000")
			stale := left
			tt.stale(&stale)
			g := crashed(t, scripts{LoseLeadership: note}, Config{}, stale)
			if res := g.CleanUp(context.Background(), event(LoseLeadership, 9)); !res.OK {
				t.Errorf("result %+v", res)
			}
			if !left.alive() {
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
	g.CleanUp(context.Background(), event(LoseLeadership, 9))
	if !left.alive() {
		t.Error("a process that is not ours was killed")
	}
}

// Also without CleanUp: a notification may have been running when the agent died.
func TestRunEndsOrphans(t *testing.T) {
	left, _ := orphan(t, "exec sleep 1000")
	g := crashed(t, scripts{BecomeLeader: note}, Config{}, left)
	g.run()
	g.become(8)
	g.wants(BecomeLeader, 8, true, true)
	if left.alive() {
		t.Error("the orphan still lives")
	}
}

func TestJournalHoldsTheRunningGroup(t *testing.T) {
	g := startRig(t, scripts{BecomeLeader: note + "read go <gate"}, Config{Dir: t.TempDir()})
	g.mkfifo("gate")
	g.become(5)
	g.Until("the entry", func() bool { left, err := g.journal.load(); return err == nil && left.Runs[leadership].Group != 0 })
	left, _ := g.journal.load()
	if e := left.Runs[leadership]; e.Epoch != 5 || e.Hook != BecomeLeader || !e.alive() {
		t.Errorf("journal has %+v", left)
	}
	g.open("gate")
	g.wants(BecomeLeader, 5, true, true)
	g.Until("the end of the run", func() bool { left, err := g.journal.load(); return err == nil && len(left.Runs) == 0 })
	if left, _ := g.journal.load(); left.Owed == nil || *left.Owed != (Epoch{5, owner}) {
		t.Errorf("the journal owes %v after a become hook", left.Owed)
	}
	g.lose(5)
	g.wants(LoseLeadership, 5, true, false)
	g.end()
	if _, err := os.Stat(g.journal.path); !os.IsNotExist(err) {
		t.Errorf("the journal outlives its hook: %v", err)
	}
}

// A lose hook that fails at the start is due further on, though the journal did not
// know of it.
func TestCleanUpThatFailsIsOwed(t *testing.T) {
	g := crashed(t, scripts{LoseLeadership: "exit 1"}, Config{}, entry{})
	if err := os.WriteFile(g.journal.path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if res := g.CleanUp(context.Background(), event(LoseLeadership, 7)); res.OK {
		t.Errorf("result %+v", res)
	}
	if left, err := g.journal.load(); err != nil || left.Owed == nil || *left.Owed != (Epoch{7, owner}) {
		t.Errorf("the journal has %+v (%v)", left, err)
	}
}

func TestDamagedJournalDoesNotPreventCleanUp(t *testing.T) {
	g := crashed(t, scripts{LoseLeadership: note}, Config{}, entry{})
	if err := os.WriteFile(g.journal.path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if res := g.CleanUp(context.Background(), event(LoseLeadership, 7)); !res.OK || !res.Ran {
		t.Errorf("result %+v", res)
	}
	if !strings.Contains(g.log.String(), "orphaned hooks may still run") {
		t.Error("a damaged journal was passed over in silence")
	}
}

func TestCleanUpEndsWithItsContext(t *testing.T) {
	g := setUp(t, scripts{LoseLeadership: note + "exec sleep 1000"}, Config{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan Result)
	go func() { done <- g.CleanUp(ctx, event(LoseLeadership, 7)) }()
	g.UntilFile("order")
	cancel()
	if res := <-done; res.OK || res.Err != errStopping {
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
		if !left.isMarked(cmd.Process.Pid) {
			stat, err := run.ReadStat(cmd.Process.Pid)
			t.Fatalf("the process is not recognised: then %+v (%v)", stat, err)
		}
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
