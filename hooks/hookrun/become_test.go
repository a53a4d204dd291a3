package hookrun

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/run"
)

// broken makes the journal unwritable, also for root: a directory with something in
// it stands where the file should. It gives the repair.
func (g *rig) broken() (mend func()) {
	g.t.Helper()
	g.Until("the journal to break", func() bool { // a write of it may be on its way
		_ = os.Remove(g.hands.journal.path)
		return os.MkdirAll(filepath.Join(g.hands.journal.path, "in the way"), 0o700) == nil
	})
	return func() {
		if err := os.RemoveAll(g.hands.journal.path); err != nil {
			g.t.Fatal(err)
		}
	}
}

// No become hook starts that is not on disk; its lose hook is dropped with it, and
// the next one runs when the disk is well.
func TestNoBecomeWithoutARecord(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}, Config{Dir: t.TempDir()})
	mend := g.broken()
	g.become(1)
	if res := g.wants(hooks.BecomeLeader, 1, false, false); !errors.Is(res.Err, hooks.ErrNotRecorded) {
		t.Errorf("err = %v, want %v", res.Err, hooks.ErrNotRecorded)
	}
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, true, false)
	mend()
	g.become(2)
	g.wants(hooks.BecomeLeader, 2, true, true)
	g.lose(2)
	g.wants(hooks.LoseLeadership, 2, true, true)
	if got := strings.Join(g.lines("order"), " "); got != "become-leader:2 lose-leadership:2" {
		t.Errorf("ran %s", got)
	}
}

// What was due before a begin that had to be taken back is due again.
func TestAWithdrawnBeginLeavesWhatIsDue(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note + "exit 1"}, Config{Dir: t.TempDir()})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, false, true)
	g.hands.backlog.wait(patience)
	mend := g.broken()
	g.become(2)
	g.wants(hooks.BecomeLeader, 2, false, false)
	if owed, ok := g.Owed(); !ok || owed.Counter != 1 {
		t.Errorf("the lose hook of epoch %d is due: %v, want that of epoch 1", owed.Counter, ok)
	}
	mend()
}

// A lose hook does not wait for a disk: it is never refused for want of a record.
func TestLoseRunsWithoutARecord(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}, Config{Dir: t.TempDir()})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	g.hands.backlog.wait(patience)
	mend := g.broken()
	defer mend()
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, true, true)
}

// One more attempt that cannot be recorded is not made, and the leadership is still
// to be lost.
func TestAnotherAttemptWithoutARecord(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note + "exit 1", hooks.LoseLeadership: note}, Config{Dir: t.TempDir()})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, false, true)
	g.hands.backlog.wait(patience)
	mend := g.broken()
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, false, false)
	mend()
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, true, true)
}

func TestTryRecordingTellsTheDisk(t *testing.T) {
	g := setUp(t, scripts{}, Config{Dir: t.TempDir()})
	if err := TryRecording(g.state()); err != nil {
		t.Errorf("a disk that is well: %v", err)
	}
	if left, _ := filepath.Glob(g.hands.journal.path + "*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.Chmod(filepath.Dir(g.hands.journal.path), 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		mountReadOnly(t, filepath.Dir(g.hands.journal.path))
	}
	if err := TryRecording(g.state()); err == nil {
		t.Error("a disk that takes no writes passes")
	}
}

// A disk that has room for the note that a hook begins, and for nothing more, counts as
// full: what an earlier leadership has given back would else start a hook whose group
// and whose end nobody can write down.
func TestNoBecomeOnAFullDisk(t *testing.T) {
	const page = 4096
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("skipped: no file system can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}, Config{Dir: dir})
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer ballast.Close()
	size := int64(0)
	for err == nil {
		var n int
		n, err = ballast.Write(make([]byte, page))
		size += int64(n)
	}
	for epoch := uint64(1); epoch < 3; epoch++ {
		g.become(epoch)
		if res := g.wants(hooks.BecomeLeader, epoch, false, false); !errors.Is(res.Err, hooks.ErrNotRecorded) {
			t.Errorf("err = %v, want %v", res.Err, hooks.ErrNotRecorded)
		}
		g.lose(epoch)
		g.wants(hooks.LoseLeadership, epoch, true, false)
		g.hands.backlog.wait(patience)
		if err := ballast.Truncate(size - page); err != nil { // room for one note
			t.Fatal(err)
		}
	}
	if err := TryRecording(g.state()); err == nil {
		t.Error("the disk is said to be well")
	}
	if err := ballast.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if err := TryRecording(g.state()); err != nil {
		t.Errorf("the disk is said to be ill: %v", err)
	}
	g.become(3)
	g.wants(hooks.BecomeLeader, 3, true, true)
	g.lose(3)
	g.wants(hooks.LoseLeadership, 3, true, true)
}

// mountReadOnly puts an empty read-only file system over dir, or skips the test.
func mountReadOnly(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_RDONLY, ""); err != nil {
		t.Skipf("skipped: no file system can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// What a lose hook that failed owes is known in the next life, and until it has
// succeeded.
func TestOwedOutlivesTheAgent(t *testing.T) {
	state := t.TempDir()
	g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: "exit 1"}, Config{Dir: state})
	g.become(3)
	g.wants(hooks.BecomeLeader, 3, true, true)
	if epoch, ok := g.Owed(); !ok || epoch.Counter != 3 || epoch.Owner != owner(t) {
		t.Errorf("while it leads it owes %v, %v", epoch, ok)
	}
	g.lose(3)
	g.wants(hooks.LoseLeadership, 3, false, true)
	g.end()

	next := setUp(t, scripts{hooks.LoseLeadership: note}, Config{Dir: state})
	epoch, ok := next.Owed()
	if !ok || epoch.Counter != 3 {
		t.Fatalf("the next life owes %v, %v", epoch, ok)
	}
	ev := event(t, hooks.LoseLeadership, epoch.Counter)
	if res := next.CleanUp(context.Background(), ev); !res.OK || !res.Ran {
		t.Errorf("clean-up: %+v", res)
	}
	if epoch, ok := next.Owed(); ok {
		t.Errorf("after the clean-up it owes %v", epoch)
	}
	next.hands.backlog.wait(patience)
	if _, err := os.Stat(next.hands.journal.path); !os.IsNotExist(err) {
		t.Errorf("the journal is still there: %v", err)
	}
}

// The agent died between the start of a hook and the note of its group: the epoch is
// on disk, and what was told of it is found. A child that made a session of its own
// has left the hook.
func TestOrphanWithoutAnEntryIsFound(t *testing.T) {
	t.Parallel()
	for _, kind := range []hooks.Kind{hooks.BecomeLeader, hooks.LoseLeadership} {
		ev := event(t, kind, 7)
		left, _ := orphanOf(t, ev, "trap '' TERM; while :; do sleep 1; done")
		other, _ := orphanOf(t, event(t, kind, 8), "exec sleep 1000")
		escaped := exec.Command("/bin/sleep", "1000")
		escaped.SysProcAttr, escaped.Env = &syscall.SysProcAttr{Setsid: true}, hooks.Environ(ev, hooks.Circumstances{Seq: 12}, os.Getenv)
		if err := escaped.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = escaped.Process.Kill(); _ = escaped.Wait() })
		g := leaves(t, hooks.Page{Owed: &ev.Epoch}, scripts{hooks.LoseLeadership: note}, Config{Config: hooks.Config{Grace: shortGrace}})
		if res := g.CleanUp(context.Background(), event(t, hooks.LoseLeadership, 7)); !res.OK {
			t.Errorf("clean-up: %+v", res)
		}
		if pids := run.Living(left.Group); len(pids) > 0 {
			t.Errorf("orphans %v still live", pids)
		}
		if len(run.Living(other.Group)) == 0 || len(run.Living(escaped.Process.Pid)) == 0 {
			t.Error("a process was ended that belongs to no hook of this leadership")
		}
	}
}
