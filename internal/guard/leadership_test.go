package guard

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
)

// lead starts the guard of a leadership as hooks.Runner does, with this program as
// the guard's.
func (r *rig) lead(script string, deadline time.Time) leadership {
	r.t.Helper()
	order := hooks.GuardOrder{Lose: hooks.Event{Epoch: rigEpoch}, Command: hooks.Command{Shell: "cd " + r.dir + "; " + script},
		Timeout: patience, Grace: patience, Dir: r.path("state"), Deadline: deadline}
	g, err := Leadership{Records: r.path("records"), Clock: clock}.Start(order)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		g.Stop()
		<-g.Done()
	})
	return g.(leadership)
}

func (r *rig) closes(c <-chan struct{}, what string) {
	r.t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		r.t.Fatalf("waited for %s in vain", what)
	}
}

// Whoever has yielded minds the old deadline no more, and ends without a hook.
func TestYieldedGuardMindsNoSilence(t *testing.T) {
	r := newRig(t)
	const lease = 400 * time.Millisecond
	g := r.lead("echo lost >lost", clock().Add(lease))
	r.until("the guard's start", func() bool { return g.Status().Process != 0 }) // a guard that does not answer soon is killed
	g.Yield()
	r.closes(g.Yielded(), "the answer")
	over := now().add(lease)
	r.until("the end of the lease", func() bool { return now() > over })
	if s := g.Status(); s.TookOver || g.Report().Stage != Yielded {
		t.Errorf("status %+v, stage %s", s, g.Report().Stage)
	}
	g.Stop()
	r.closes(g.Done(), "the end")
	if s := g.Status(); s.TookOver || s.Err != "" || s.Process == 0 || !strings.Contains(s.Reach, "process group") {
		t.Errorf("status %+v", s)
	}
	if _, err := os.Stat(r.path("lost")); err == nil {
		t.Error("the hook ran")
	}
	if err := g.Forget(); err != nil {
		t.Error(err)
	}
}

// A planned end renews the lease: an agent that freezes in its own lose hook has that
// ended by the guard, which runs its own.
func TestYieldedGuardMindsALeaseThatIsRenewed(t *testing.T) {
	r := newRig(t)
	g := r.lead("echo $BULLY_CAUSE >lost", clock().Add(time.Hour))
	r.until("the guard's start", func() bool { return g.Status().Process != 0 }) // a guard that does not answer soon is killed
	g.Yield()
	r.closes(g.Yielded(), "the answer")
	g.Renew(clock().Add(time.Millisecond))
	r.closes(g.Losing(), "the guard to take over")
	r.closes(g.Done(), "the guard's end")
	if s := g.Status(); !s.TookOver || !s.HasEnded || !s.Lose.OK || r.text("lost") != AgentDied {
		t.Errorf("status %+v, the hook wrote %q", s, r.text("lost"))
	}
}

// The agent dies just after it has ended the leadership: the hook does not run again.
func TestReleasedGuardMindsNoDeath(t *testing.T) {
	r := newRig(t)
	g := r.lead("echo lost >lost", clock().Add(time.Hour))
	r.closes(g.Started(), "the start")
	guard := g.Report().Guard
	if err := unix.Kill(guard, unix.SIGSTOP); err != nil { // so that it reads both at once
		t.Fatal(err)
	}
	g.Release()
	if err := unix.Shutdown(int(g.socketFD(t)), unix.SHUT_WR); err != nil { // what a death looks like to the guard
		t.Fatal(err)
	}
	if err := unix.Kill(guard, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.closes(g.Done(), "the guard's end")
	if s := g.Status(); s.TookOver || r.text("lost") != "" {
		t.Errorf("status %+v, the hook wrote %q", s, r.text("lost"))
	}
}

// A guard that takes over and is stopped in the middle of it does not hang the agent:
// it is killed when it has had its time, and what it leaves open is known.
func TestGuardThatIsStoppedWhileItLoses(t *testing.T) {
	r := newRig(t)
	g := r.lead("echo $$ >pid; exec sleep 1000", clock().Add(200*time.Millisecond))
	hook := r.pid("pid")
	if err := unix.Kill(g.Report().Guard, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	g.limit.Reset(time.Millisecond) // as if its time had passed
	g.mu.Unlock()
	r.until("the guard's start", func() bool { return g.Status().Process != 0 }) // a guard that does not answer soon is killed
	g.Yield()
	r.closes(g.Yielded(), "the answer")
	if s := g.Status(); !s.TookOver || s.HasEnded || s.Lose.OK {
		t.Errorf("status %+v", s)
	}
	r.endHook(hook)
}

// A guard that was quicker says so in place of yielding.
func TestGuardWasQuicker(t *testing.T) {
	r := newRig(t)
	g := r.lead("echo $BULLY_CAUSE >lost", clock().Add(200*time.Millisecond)) // and nobody renews it
	r.closes(g.Done(), "the guard's own end")
	r.until("the guard's start", func() bool { return g.Status().Process != 0 }) // a guard that does not answer soon is killed
	g.Yield()
	r.closes(g.Yielded(), "the answer")
	s := g.Status()
	if !s.TookOver || !s.Lose.OK || !s.Lose.Ran || s.Lose.Cause != AgentDied {
		t.Errorf("status %+v", s)
	}
	text, err := os.ReadFile(r.path("lost"))
	if err != nil || string(text) != "agent-died\n" {
		t.Errorf("the hook wrote %q (%v)", text, err)
	}
	records, err := Leadership{Records: r.path("records")}.Recover(context.Background(), func(int) {})
	if err != nil || len(records) != 1 || records[0].Epoch != rigEpoch || !records[0].Status.TookOver || !records[0].Status.Lose.OK {
		t.Fatalf("records %+v (%v)", records, err)
	}
	if err := records[0].Forget(); err != nil {
		t.Error(err)
	}
}

// The hook that the guard has run has failed: the agent hears why.
func TestGuardFailed(t *testing.T) {
	r := newRig(t)
	g := r.lead("exit 3", clock().Add(200*time.Millisecond))
	r.closes(g.Done(), "the guard's own end")
	if s := g.Status(); !s.TookOver || s.Lose.OK || s.Lose.Err == nil || !strings.Contains(s.Lose.Err.Error(), "exit status 3") {
		t.Errorf("status %+v", s)
	}
}

// A guard that is stopped cannot answer: it is killed, and the agent goes on.
func TestStuckGuardDoesNotHoldUpTheAgent(t *testing.T) {
	r := newRig(t)
	g := r.lead("echo lost >lost", clock().Add(time.Hour))
	r.closes(g.Started(), "the start")
	if err := unix.Kill(g.Report().Guard, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	g.Yield()
	r.closes(g.Yielded(), "the agent to go on")
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("took %v", took)
	}
	if s := g.Status(); s.TookOver || s.Err == "" {
		t.Errorf("status %+v", s)
	}
}

// A full disk keeps no guard from its work: it has nothing to note before that.
func TestGuardOfALeadershipNeedsNoDisk(t *testing.T) {
	r := newRig(t)
	if err := unix.Mount("none", r.path("records"), "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("skipped: no file system can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(r.path("records"), unix.MNT_DETACH) })
	ballast, err := os.Create(r.path("records") + "/ballast")
	for block := make([]byte, 4096); err == nil; {
		_, err = ballast.Write(block)
	}
	ballast.Close()
	g := r.lead("echo $BULLY_CAUSE >lost", clock().Add(200*time.Millisecond))
	r.closes(g.Done(), "the guard's own end")
	if s := g.Status(); !s.TookOver || !s.Lose.OK {
		t.Errorf("status %+v", s)
	}
}

// BenchmarkStart is what a failover waits for: the fork of the guard, and no more.
func BenchmarkStart(b *testing.B) {
	records, state := b.TempDir(), b.TempDir()
	guards := Leadership{Records: records, Clock: clock}
	for b.Loop() {
		g, err := guards.Start(hooks.GuardOrder{Lose: hooks.Event{Epoch: rigEpoch}, Command: hooks.Command{Shell: ":"}, Timeout: patience,
			Grace: patience, Dir: state})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		g.Stop()
		<-g.Done()
		if err := g.Forget(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkYield is what a loss waits for before the agent's own lose hook starts.
func BenchmarkYield(b *testing.B) {
	records, state := b.TempDir(), b.TempDir()
	guards := Leadership{Records: records, Clock: clock}
	for b.Loop() {
		b.StopTimer()
		g, err := guards.Start(hooks.GuardOrder{Lose: hooks.Event{Epoch: rigEpoch}, Command: hooks.Command{Shell: ":"}, Timeout: patience,
			Grace: patience, Dir: state})
		if err != nil {
			b.Fatal(err)
		}
		<-g.(leadership).Started()
		b.StartTimer()
		g.Yield()
		<-g.Yielded()
		b.StopTimer()
		g.Stop()
		<-g.Done()
		_ = g.Forget()
		b.StartTimer()
	}
}
