package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The agent of the leader is killed: its keeper runs the lose hook on its own host at
// once, in either mode, and the next start neither runs it again nor begins to lead
// before it has ended.
func TestKeeperRunsTheLoseHook(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	for mode, options := range map[string][]string{"available": nil, "quorum": {"--expect", "5"}} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 5, options...)
			best, next := l.best(), l.next()
			l.start()
			l.agreeOn(best)
			best.kill()
			l.nothingRuns(best)
			l.gap(on(best, isKilled), on(best, loseEnd))
			l.agreeOn(next)
			best.start()
			l.agreeOn(best)
			l.journal.order(on(best, isKilled), on(best, loseBegin).because("agent-died"), on(best, loseEnd), on(best, isStarted),
				on(next, loseEnd), on(best, becomeBegin))
			l.neverLost(best, "unclean-restart")
		})
	}
}

// neverLost: h has run no lose hook with that cause.
func (l *lan) neverLost(h *host, cause string) {
	l.t.Helper()
	for _, r := range l.journal.read() {
		if r.Node == h.name && r.What == loseBegin && r.Cause == cause {
			l.t.Errorf("%s ran the lose hook of epoch %d with cause %s", h, r.Epoch.Counter, cause)
		}
	}
}

// A supervisor sends TERM to all that is left when the agent has died, as systemd
// does by default. The keeper minds its work, and tries a hook that died of it again.
func TestKeeperOutlivesTerm(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	l.hasRoomToLetGo()
	best, next := l.best(), l.next()
	best.onLose = "sleep 0.1"
	l.start()
	l.agreeOn(best)
	best.kill()
	l.eventually("the lose hook has begun", patience, func() error {
		if l.journal.last(best, loseBegin).Epoch.Counter == 0 {
			return fmt.Errorf("no lose hook on %s", best)
		}
		return nil
	})
	for _, pid := range best.net.Processes() {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	l.agreeOn(next)
	l.eventually("the lose hook has ended", patience, func() error {
		if l.journal.last(best, loseEnd).Epoch.Counter == 0 {
			return fmt.Errorf("no end of a lose hook on %s", best)
		}
		return nil
	})
	l.nothingRuns(best)
}

// The agent is killed while a long lose hook runs, in the middle of a planned stop. The
// hook has until the lease has ended, and runs once more then.
func TestAKillDuringTheLoseHook(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	best, next := l.best(), l.next()
	best.onLose = `[ "$BULLY_CAUSE" = agent-died ] || sleep 1000`
	l.start()
	l.agreeOn(best)
	best.signal(syscall.SIGTERM)
	l.eventually("the lose hook has begun", patience, func() error {
		if l.journal.last(best, loseBegin).Epoch.Counter == 0 {
			return fmt.Errorf("no lose hook on %s", best)
		}
		return nil
	})
	best.kill()
	l.agreeOn(next)
	l.nothingRuns(best)
	l.journal.order(on(best, loseBegin).because("stopped"), on(best, isKilled), on(best, loseBegin).because("agent-died"), on(best, loseEnd))
}

// The keeper itself is killed: the agent starts another, which runs the lose hook, hands
// over, and leads again.
func TestKeeperIsReplaced(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	best, next := l.best(), l.next()
	l.start()
	l.agreeOn(best)
	first := l.keeperOf(best, 0)
	must(t, syscall.Kill(first, syscall.SIGKILL))
	second := l.keeperOf(best, first)
	t.Logf("keeper %d was replaced by %d", first, second)
	l.eventually("another leads", patience, func() error {
		if l.journal.last(next, becomeBegin).Epoch.Counter == 0 {
			return fmt.Errorf("no become hook on %s", next)
		}
		return nil
	})
	l.journal.order(on(best, becomeEnd), on(best, loseBegin).because("keeper-died"), on(best, loseEnd), on(next, becomeBegin))
	l.agreeOn(best)
	best.kill()
	l.agreeOn(next)
	l.nothingRuns(best)
	l.journal.order(on(best, isKilled), on(best, loseBegin).because("agent-died"), on(best, loseEnd))
}

// Agent and keeper are killed together, and what they ran with them: the next start runs
// the lose hook before anything else.
func TestAgentAndKeeperAreKilled(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	best, next := l.best(), l.next()
	l.start()
	l.agreeOn(best)
	must(t, syscall.Kill(l.keeperOf(best, 0), syscall.SIGSTOP)) // so that it does not see the agent's death
	best.kill()
	for _, pid := range best.net.Processes() {
		must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	l.agreeOn(next)
	best.start()
	l.agreeOn(best)
	l.journal.order(on(best, isKilled), on(best, loseBegin).because("unclean-restart"), on(best, loseEnd), on(best, becomeBegin))
	l.neverLost(best, "agent-died")
}

// keeperOf waits for a keeper of h other than that one.
func (l *lan) keeperOf(h *host, other int) (pid int) {
	l.t.Helper()
	l.eventually("a keeper on "+h.name, patience, func() error {
		s, err := h.status()
		if err != nil {
			return err
		}
		if s.Keeper == nil || s.Keeper.Process == 0 || s.Keeper.Process == other || s.Keeper.Error != "" {
			return fmt.Errorf("keeper %+v", s.Keeper)
		}
		pid = s.Keeper.Process
		return nil
	})
	return pid
}

// The disk is full: no become hook starts, since it could not be recorded; the host
// steps down, says why, and leads again when there is room.
func TestHookNeedsADisk(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	best, next := l.best(), l.next()
	dir := filepath.Join(best.dir, "state")
	must(t, os.Mkdir(dir, 0o700))
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("skipped: no file system can be mounted: %v", err)
	}
	t.Cleanup(func() { best.end(); _ = unix.Unmount(dir, unix.MNT_DETACH) })
	l.start()
	l.agreeOn(best)
	if out, code := best.cli("step-down", "--for", "3s"); code != 0 {
		t.Fatalf("step-down: %d %s", code, out)
	}
	l.agreeOn(next)
	l.eventually("the leadership's records are gone", patience, func() error { // or they make room later
		if _, noJournal := os.Stat(filepath.Join(dir, "hook-journal.json")); noJournal == nil {
			return errors.New("there is a hook journal")
		}
		return nil
	})
	empty := fillDisk(t, dir)
	l.eventually("the host says why it does not lead", patience, func() error {
		s, err := best.status()
		if err == nil && !strings.Contains(strings.Join(s.Notes, "\n"), "takes no writes: this agent cannot lead") {
			err = fmt.Errorf("notes %q", s.Notes)
		}
		return err
	})
	l.agreeOn(next)
	if last := l.journal.last(best, becomeBegin); last.Epoch.Counter != 1 {
		t.Errorf("the become hook of epoch %d ran without a record", last.Epoch.Counter)
	}
	empty()
	l.agreeOn(best)
}

func fillDisk(t *testing.T, dir string) (empty func()) {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, "ballast"))
	must(t, err)
	defer file.Close()
	block := make([]byte, 4096)
	for err == nil {
		_, err = file.Write(block)
	}
	return func() { must(t, os.Remove(file.Name())) }
}

// A clean stop leaves no keeper, no record and no process.
func TestKeeperLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	best, next := l.best(), l.next()
	l.start()
	l.agreeOn(best)
	l.keeperOf(best, 0)
	begun := time.Now()
	if code := best.stop(); code != 0 {
		t.Errorf("the agent exited with %d, expected 0", code)
	}
	t.Logf("stopped after %v", time.Since(begun))
	if left := best.net.Processes(); len(left) > 0 {
		t.Errorf("processes %v were left behind", left)
	}
	if _, err := os.Stat(filepath.Join(best.dir, "state", "hook-journal.json")); err == nil {
		t.Error("a hook journal was left behind")
	}
	l.agreeOn(next)
	l.neverLost(best, "agent-died")
}
