package hookrun

import (
	"os/exec"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/test/traces"
)

// leave starts a script in a process group of its own, as vip add does, and waits until it runs.
func leave(t *testing.T, script string) string {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("skipped: bash is not installed, which can give a child a process group of its own")
	}
	return "bash -c 'set -m; (" + script + ") </dev/null >/dev/null 2>&1 & echo $! >>left'; while [ ! -s up ]; do sleep 0.01; done; "
}

// beside notes in a file of that name what lives of all that was left, the dead that nobody has collected not.
const beside = `for p in $(cat left 2>/dev/null); do grep -s '^State:.[RSDT]' /proc/$p/status >>beside; done; `

// isUp reports whether the group lives that the last line of the file "left" names.
func (g *rig) isUp() bool {
	lines := g.lines("left")
	if len(lines) == 0 {
		return false
	}
	group, err := strconv.Atoi(lines[len(lines)-1])
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = unix.Kill(-group, unix.SIGKILL) }) // it may have ended
	return len(run.Living(group)) > 0
}

// What the become hook leaves in a group of its own goes on after the hook, and not beside the lose hook: see internal/vip.
func TestWhatBecomeLeavesEndsBeforeLose(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, script string
		within       time.Duration // of the lose hook; 0: no bound
	}{
		{"one that heeds TERM", "echo up >up; exec sleep 1000", 0},
		{"one that heeds TERM, in a hurry", "echo up >up; exec sleep 1000", 3 * time.Second},
		{"one that does not", `trap "" TERM; echo up >up; while :; do sleep 0.01; done`, 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := startRig(t, scripts{
				hooks.BecomeLeader:   leave(t, tt.script) + note,
				hooks.LoseLeadership: beside + note,
			}, Config{})
			g.become(1)
			g.wants(hooks.BecomeLeader, 1, true, true)
			if !g.isUp() {
				t.Fatal("it ended with the hook")
			}
			if tt.within == 0 {
				g.lose(1)
			} else {
				g.loseWithin(1, tt.within)
			}
			g.wants(hooks.LoseLeadership, 1, true, true)
			if beside := g.lines("beside"); len(beside) > 0 || g.isUp() {
				t.Errorf("beside the lose hook: %v; after it, it lives: %v", beside, g.isUp())
			}
		})
	}
}

// Four that do not heed TERM share one grace: the lose hook has more than half of its time, see budgetShare.
func TestManyThatBecomeLeavesTakeOneShare(t *testing.T) {
	const within, many = 4 * time.Second, 4
	stubborn := leave(t, `trap "" TERM; echo up >up; while :; do sleep 0.05; done`)
	var script string
	for range many {
		script += "rm -f up; " + stubborn
	}
	g := startRig(t, scripts{hooks.BecomeLeader: script + note, hooks.LoseLeadership: beside + note}, Config{Config: hooks.Config{Grace: patience}})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	if left := g.lines("left"); len(left) != many || !g.isUp() {
		t.Fatalf("left are %v", left)
	}
	began := time.Now()
	g.loseWithin(1, within)
	res := g.wants(hooks.LoseLeadership, 1, true, true)
	if waited := res.Started.Sub(began); waited > within/2 {
		t.Errorf("the hook began %v after it was asked for", waited)
	}
	if beside := g.lines("beside"); len(beside) > 0 {
		t.Errorf("beside the lose hook: %v", beside)
	}
}

// Nor beside another attempt at the become hook, which leaves its own.
func TestWhatAnAttemptLeavesEndsBeforeTheNext(t *testing.T) {
	t.Parallel()
	g := startRig(t, scripts{hooks.BecomeLeader: beside + "rm -f up; " +
		leave(t, "echo up >up; exec sleep 1000") + "test $BULLY_ATTEMPT = 2 || exit 75"}, Config{})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	if beside := g.lines("beside"); len(beside) > 0 || !g.isUp() {
		t.Errorf("beside the second attempt: %v; what that left lives: %v", beside, g.isUp())
	}
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, true, false) // there is no lose hook
	if g.isUp() {
		t.Error("it lives on after the leadership")
	}
}

// Another's leadership is another's, on one machine with ours or not.
func TestWhatOthersLeaveIsSpared(t *testing.T) {
	others, _ := orphan(t, "exec sleep 1000")
	g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}, Config{})
	g.become(7)
	g.wants(hooks.BecomeLeader, 7, true, true)
	g.lose(7)
	g.wants(hooks.LoseLeadership, 7, true, true)
	if !alive(others) {
		t.Error("a process of another run of the hook was ended")
	}
}

// A runner that was killed has left something, and the next one has not started it.
func TestWhatADeadRunnerHasLeftEndsBeforeLose(t *testing.T) {
	left, _ := orphan(t, "exec sleep 1000")
	g := crashed(t, scripts{hooks.LoseLeadership: note}, Config{}, hooks.Entry{})
	traces.Until(t, "the orphan to be recognised", func() bool { return alive(left) })
	if res := g.CleanUp(t.Context(), event(t, hooks.LoseLeadership, 7)); !res.OK || alive(left) {
		t.Errorf("result %+v, and what was left lives: %v", res, alive(left))
	}
}

// A group is found once, however many processes of it there are: it has one TERM.
func TestAGroupOfManyIsFoundOnce(t *testing.T) {
	ev := hooks.Event{Kind: hooks.BecomeLeader, Epoch: hooks.Epoch{Counter: 4711, Owner: owner(t)}}
	left, _ := orphanOf(t, ev, "sleep 1000 & sleep 1000 & wait")
	traces.Until(t, "all three of the group", func() bool { return len(run.Living(left.Group)) == 3 })
	found := groupsOf(hooks.Entry{Hook: hooks.BecomeLeader, Epoch: ev.Epoch.Counter, Owner: owner(t)})
	if len(found) != 1 || found[0].Group != left.Group || found[0].Start != left.Start {
		t.Errorf("found %+v, want group %d once", found, left.Group)
	}
}
