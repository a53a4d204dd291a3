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

// The agent of the leader is killed: its guard runs the lose hook on its own host at
// once, in either mode, and the next start neither runs it again nor begins to lead
// before it has ended.
func TestGuardRunsTheLoseHook(t *testing.T) {
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
		if r.node == h.name && r.what == loseBegin && r.cause == cause {
			l.t.Errorf("%s ran the lose hook of epoch %d with cause %s", h, r.epoch, cause)
		}
	}
}

// A supervisor sends TERM to all that is left when the agent has died, as systemd
// does by default. The guard minds its work, and tries a hook that died of it again.
func TestGuardOutlivesTerm(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	l.hasRoomToLetGo()
	best, next := l.best(), l.next()
	best.onLose = "sleep 0.1"
	l.start()
	l.agreeOn(best)
	best.kill()
	l.eventually("the lose hook has begun", patience, func() error {
		if l.journal.last(best, loseBegin).epoch == 0 {
			return fmt.Errorf("no lose hook on %s", best)
		}
		return nil
	})
	for _, pid := range processesIn(best.ns) {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	l.agreeOn(next)
	l.eventually("the lose hook has ended", patience, func() error {
		if l.journal.last(best, loseEnd).epoch == 0 {
			return fmt.Errorf("no end of a lose hook on %s", best)
		}
		return nil
	})
	l.nothingRuns(best)
}

// The agent is killed while it runs a long lose hook itself, in the middle of a
// planned stop. Its guard ends what is left of that and runs the hook.
func TestGuardAfterAKillDuringTheLoseHook(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	best, next := l.best(), l.next()
	best.onLose = `[ "$BULLY_CAUSE" = agent-died ] || sleep 1000`
	l.start()
	l.agreeOn(best)
	best.signal(syscall.SIGTERM)
	l.eventually("the lose hook has begun", patience, func() error {
		if l.journal.last(best, loseBegin).epoch == 0 {
			return fmt.Errorf("no lose hook on %s", best)
		}
		return nil
	})
	best.kill()
	l.agreeOn(next)
	l.nothingRuns(best)
	l.journal.order(on(best, loseBegin).because("stopped"), on(best, isKilled), on(best, loseBegin).because("agent-died"), on(best, loseEnd))
}

// The guard itself is killed: the agent says so, starts another, and leads on.
func TestGuardIsReplaced(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	best := l.best()
	l.start()
	l.agreeOn(best)
	first := l.guardOf(best, 0)
	must(t, syscall.Kill(first, syscall.SIGKILL))
	second := l.guardOf(best, first)
	t.Logf("guard %d was replaced by %d", first, second)
	best.kill()
	l.agreeOn(l.next())
	l.nothingRuns(best)
	l.journal.order(on(best, isKilled), on(best, loseBegin).because("agent-died"), on(best, loseEnd))
}

// guardOf waits for a guard of h other than that one.
func (l *lan) guardOf(h *host, other int) (pid int) {
	l.t.Helper()
	l.eventually("a guard on "+h.name, patience, func() error {
		s, err := h.status()
		if err != nil {
			return err
		}
		if s.Guard == nil || s.Guard.Process == 0 || s.Guard.Process == other || s.Guard.Error != "" {
			return fmt.Errorf("guard %+v", s.Guard)
		}
		pid = s.Guard.Process
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
		records, err := os.ReadDir(filepath.Join(dir, "guards"))
		if _, noJournal := os.Stat(filepath.Join(dir, "hook-journal.json")); err == nil && noJournal == nil {
			err = errors.New("there is a hook journal")
		}
		if err == nil && len(records) > 0 {
			err = fmt.Errorf("guards' records: %v", records)
		}
		return err
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
	if last := l.journal.last(best, becomeBegin); last.epoch != 1 {
		t.Errorf("the become hook of epoch %d ran without a record", last.epoch)
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

// A clean stop leaves no guard, no record and no process.
func TestGuardLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	best, next := l.best(), l.next()
	l.start()
	l.agreeOn(best)
	l.guardOf(best, 0)
	begun := time.Now()
	if code := best.stop(); code != 0 {
		t.Errorf("the agent exited with %d, expected 0", code)
	}
	t.Logf("stopped after %v", time.Since(begun))
	if left := processesIn(best.ns); len(left) > 0 {
		t.Errorf("processes %v were left behind", left)
	}
	if left, _ := os.ReadDir(filepath.Join(best.dir, "state", "guards")); len(left) > 0 {
		t.Errorf("records were left behind: %v", left)
	}
	l.agreeOn(next)
	l.neverLost(best, "agent-died")
}
