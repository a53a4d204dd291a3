package keeper

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
)

// kill -9 of the agent, with its whole process group: the keeper is not in that group,
// runs the lose hook, described like the agent's, and the next start need not.
func TestAgentKilled(t *testing.T) {
	r := newRig(t)
	cfg := r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note + "cat >told"})
	a := r.agent(agentOrder{Lease: patience}, cfg)
	a.says()
	a.signal(unix.SIGKILL)
	r.untilQuiet()
	for _, want := range []string{`"event":"lose-leadership"`, `"cause":"agent-died"`, `"name":"alpha"`, `"counter":7`} {
		if !strings.Contains(r.Text("told"), want) {
			t.Errorf("it was told %s, want %s", r.Text("told"), want)
		}
	}
	next := r.desk(cfg)
	next.recover()
	if epoch, ok := next.Owed(); ok {
		t.Errorf("epoch %v is due", epoch)
	}
	res := next.CleanUp(t.Context(), next.event(hooks.LoseLeadership, 7)) // by the election's state, say
	if !res.OK || !res.TakenOver || res.Cause != "agent-died" {
		t.Errorf("result %+v", res)
	}
	next.run()
	r.ordered("become-leader:test:7 lose-leadership:agent-died:7")
}

// What runs is ended before the lose hook runs, notifications too.
func TestAgentKilledDuringHooks(t *testing.T) {
	r := newRig(t)
	cfg := r.config(scripts{hooks.BecomeLeader: note + "echo $$ >become; " + stubborn, hooks.LoseLeadership: "kill -0 $(cat become) && echo alive >>order; " + note})
	a := r.agent(agentOrder{Lease: patience}, cfg)
	r.UntilFile("become")
	a.signal(unix.SIGKILL)
	r.untilQuiet()
	r.ordered("become-leader:test:7 lose-leadership:agent-died:7")
}

// The notification that runs ends while the lose hook still runs, and the one that waits for it
// never starts.
func TestAgentKilledDuringANotification(t *testing.T) {
	const untilItIsDead = "pid=$(cat pid); n=0; " +
		"while kill -0 $pid && [ $n -lt 500 ]; do n=$((n+1)); sleep 0.01; done; kill -0 $pid && echo alive >>order; "
	r := newRig(t)
	a := r.agent(agentOrder{Lease: patience, Notify: true}, r.config(scripts{hooks.LeaderChange: "echo $$ >pid; exec sleep 1000",
		hooks.MemberChange: note, hooks.LoseLeadership: untilItIsDead + note}))
	a.says() // the keeper has all three orders
	r.UntilFile("pid")
	a.signal(unix.SIGKILL)
	r.untilQuiet()
	r.ordered("lose-leadership:agent-died:7")
}

// An agent that is stopped says nothing and closes nothing: the deadline does it. When
// it goes on it learns that the leadership has ended, and its own wish for the lose hook
// runs it no second time.
func TestAgentStopped(t *testing.T) {
	t.Parallel()
	const lease, budget = 2 * time.Second, time.Second // what the hook has, with room for a busy machine
	for name, become := range map[string]string{
		"heeds TERM":   "echo $$ >pid; exec sleep 1000",
		"ignores TERM": "echo $$ >pid; " + stubborn,
		"has ended":    "",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			cfg := r.config(scripts{hooks.BecomeLeader: note + become, hooks.LoseLeadership: note + "echo x >lost"})
			cfg.Budget, cfg.Hooks.Grace = budget, patience
			a := r.agent(agentOrder{Lease: lease}, cfg)
			death := now
			if become != "" {
				death = r.death(r.PID("pid"))
			} else {
				a.says()
			}
			stopped := a.signal(unix.SIGSTOP)
			if died := death(); become != "" && died.Sub(stopped) > lease {
				t.Errorf("it died %v after the agent was stopped, want within the lease of %v", died.Sub(stopped), lease)
			}
			r.UntilFile("lost")
			if took := now().Sub(stopped); took < lease-budget-100*time.Millisecond {
				t.Errorf("the agent was given up after %v, with a lease of %v", took, lease)
			}
			a.signal(unix.SIGCONT)
			var said []string
			for len(said) == 0 || said[len(said)-1] != "lose-leadership true true false" {
				said = append(said, a.says())
			}
			if said[0] != "lose-leadership false true true" {
				t.Errorf("the agent heard %q, want the end of the leadership first", said)
			}
			r.ordered("become-leader:test:7 lose-leadership:agent-died:7")
		})
	}
}

// Keeper and agent frozen together, past the deadline: whoever wakes first, the keeper
// hears what the agent has said before it judges, and takes what has ended for over.
func TestAllFrozen(t *testing.T) {
	const lease = 400 * time.Millisecond
	r := newRig(t)
	a := r.agent(agentOrder{Lease: lease}, r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: "sleep 0.3; " + note + "echo x >lost"}))
	a.says()
	a.signal(unix.SIGSTOP)
	r.kill(a.keeper, unix.SIGSTOP)
	wake := now().Add(lease)
	r.Until("the end of the lease", func() bool { return now().After(wake) })
	r.kill(a.keeper, unix.SIGCONT)
	r.UntilFile("lost")
	r.ordered("become-leader:test:7 lose-leadership:agent-died:7")
}

// A keeper that alone was frozen finds the renewals that have come meanwhile, and does not
// take its own silence for that of the agent.
func TestKeeperFrozen(t *testing.T) {
	const lease = 1500 * time.Millisecond // which the agent loses itself where it gets no processor for as long
	r := newRig(t)
	a := r.agent(agentOrder{Lease: lease}, r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}))
	a.says()
	for range 3 {
		_ = unix.Kill(a.keeper, unix.SIGSTOP) // a busy machine may freeze it for so long that there is another one by now
		time.Sleep(lease + answerPatience/10)
		_ = unix.Kill(a.keeper, unix.SIGCONT)
		time.Sleep(lease / 4)
	}
	r.ordered("become-leader:test:7")
}

// M7: a lose hook that needs longer than the lease and the takeover delay is killed then.
// After that it runs once more, with all its time.
func TestLoseIsBoundedByTheLease(t *testing.T) {
	t.Parallel()
	const lease, takeover = time.Second, time.Second
	for name, isAsked := range map[string]bool{"it leads": false, "it ends its leadership": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			cfg := r.config(scripts{hooks.LoseLeadership: note + "[ -e pid ] || { echo $$ >pid; " + stubborn + "; }"})
			cfg.Takeover, cfg.Hooks.Grace = takeover, patience
			a := r.agent(agentOrder{Lease: lease, Lose: isAsked}, cfg)
			first := "agent-died"
			if isAsked {
				first = "test"
				r.UntilFile("pid")
			} else {
				a.says()
			}
			killed := a.signal(unix.SIGKILL)
			died := r.death(r.PID("pid"))().Sub(killed)
			r.untilQuiet()
			// What is added to the bound is for a loaded machine, not for the code; the hook's own timeout is far longer.
			if died < lease || died > lease+takeover+patience/4 {
				t.Errorf("the hook died %v after the agent, want by %v", died, lease+takeover)
			}
			r.ordered("lose-leadership:" + first + ":7 lose-leadership:agent-died:7")
		})
	}
}

// M7: an agent that is frozen right after it has asked for the lose hook of a planned end,
// before it renews the lease again, is minded all the same. A hook that is asked for
// without a bound since others lead already has its time.
func TestPlannedLoseIsBoundedByTheLease(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	for name, tt := range map[string]struct {
		isPlanned bool
		want      string
	}{
		"planned":     {true, "lose-leadership:test:7 lose-leadership:agent-died:7"},
		"not planned": {false, "lose-leadership:test:7"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			d := r.open(r.config(scripts{hooks.LoseLeadership: note + "[ -e slow ] || { echo x >slow; sleep 2; }"}))
			d.Renew(clock().Add(lease), false)
			d.leads(7)
			ev := d.event(hooks.LoseLeadership, 7)
			ev.IsPlanned = tt.isPlanned
			d.Start(ev, time.Time{})
			if res := d.wants(hooks.LoseLeadership, 7, true); res.TakenOver != tt.isPlanned {
				t.Errorf("result %+v", res)
			}
			r.ordered(tt.want)
		})
	}
}

// A lose hook that is run once more may end when this host leads again already, whose lease
// is minded all the same.
func TestTheEndOfARedoLeavesTheNextLeadershipMinded(t *testing.T) {
	const lease = 5 * time.Second // in which the become hook starts, on a busy machine too
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note + "[ $BULLY_EPOCH = 8 ] || { echo x >redo; " + stubborn + "; }"}))
	d.leads(7)
	redo := d.event(hooks.LoseLeadership, 7)
	redo.IsRedo = true
	d.Start(redo, time.Time{})
	r.UntilFile("redo")
	d.Renew(clock().Add(lease), false)
	d.become(8)
	r.Until("the end of epoch 8, whose agent is silent", func() bool { return strings.Contains(r.Text("order"), "lose-leadership:agent-died:8") })
	d.lose(8)
}

// An agent that dies in the middle of a clean-up leaves that to its keeper.
func TestAgentKilledDuringTheCleanUp(t *testing.T) {
	r := newRig(t)
	a := r.agent(agentOrder{Owes: true}, r.config(scripts{hooks.LoseLeadership: "echo x >losing; while [ ! -s go ]; do sleep 0.01; done; " + note}))
	r.UntilFile("losing")
	a.signal(unix.SIGKILL)
	if err := os.WriteFile(r.Path("go"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.untilQuiet()
	r.ordered("lose-leadership:unclean-restart:7")
}

// Agent and keeper killed: the kernel ends the first process of what ran, the next
// keeper the rest, and what is due is done then.
func TestAgentAndKeeperKilled(t *testing.T) {
	r := newRig(t)
	cfg := r.config(scripts{hooks.BecomeLeader: note + "echo $$ >pid; sleep 1000 & sleep 1000", hooks.LoseLeadership: note})
	a := r.agent(agentOrder{Lease: patience}, cfg)
	first := r.PID("pid")
	death := r.death(first)
	r.kill(a.keeper, unix.SIGSTOP) // so that it does not see the agent's death
	a.signal(unix.SIGKILL)
	r.kill(a.keeper, unix.SIGKILL)
	death()
	next := r.desk(cfg)
	next.recover()
	owed, ok := next.Owed()
	if !ok || owed.Counter != 7 {
		t.Fatalf("owed %v (%v)", owed, ok)
	}
	if res := next.CleanUp(t.Context(), next.event(hooks.LoseLeadership, 7)); !res.OK || res.TakenOver {
		t.Errorf("result %+v", res)
	}
	if err := unix.Kill(-first, 0); err == nil && len(r.Living()) > 0 {
		t.Error("what the become hook has started still runs")
	}
	next.run()
	r.ordered("become-leader:test:7 lose-leadership:unclean-restart:7")
}

// The next start waits for a keeper that still runs the lose hook, and not for ever.
func TestRecoverWaitsForAKeeper(t *testing.T) {
	r := newRig(t)
	cfg := r.config(scripts{hooks.LoseLeadership: "echo x >losing; while [ ! -s go ]; do sleep 0.01; done; " + note})
	a := r.agent(agentOrder{}, cfg)
	a.says()
	a.signal(unix.SIGKILL)
	r.UntilFile("losing")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	waited := 0
	if _, err := lockFile(ctx, cfg.Dir, func(process int) { waited = process }); err == nil || waited != a.keeper {
		t.Errorf("%v, waited for process %d, want %d", err, waited, a.keeper)
	}
	if err := os.WriteFile(r.Path("go"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	next := r.open(cfg)
	r.ordered("lose-leadership:agent-died:7")
	if !strings.Contains(next.log.String(), "waiting for the keeper of the last run") && next.Status().Process == 0 {
		t.Errorf("log %s", next.log)
	}
}

// The next start does not wait for ever for a keeper that is stopped.
func TestRecoverEndsAKeeperThatIsStopped(t *testing.T) {
	r := newRig(t)
	cfg := r.config(scripts{hooks.LoseLeadership: note + "echo $$ >pid; exec sleep 1000"})
	a := r.agent(agentOrder{}, cfg)
	a.says()
	a.signal(unix.SIGKILL)
	death := r.death(r.PID("pid"))
	r.kill(a.keeper, unix.SIGSTOP)
	hurried := `{"process":` + r.Text("state/" + fileName)[len(`{"process":`):]
	hurried = hurried[:strings.Index(hurried, ",")] + `,"patience":1000000}`
	if err := os.WriteFile(r.Path("state/"+fileName), []byte(hurried), 0o600); err != nil {
		t.Fatal(err)
	}
	next := r.desk(r.config(nil))
	next.recover()
	death()
	if _, ok := next.Owed(); !ok {
		t.Error("nothing is due")
	}
	next.run()
}

// A disk that hangs holds up no lose hook.
func TestLoseRunsOnADiskThatHangs(t *testing.T) {
	r := newRig(t)
	disk, freeze := r.freezable()
	cfg := r.config(scripts{hooks.LoseLeadership: note + "echo x >lost"})
	cfg.Dir = disk
	a := r.agent(agentOrder{}, cfg)
	a.says()
	thaw := freeze()
	a.signal(unix.SIGKILL)
	r.UntilFile("lost")
	thaw()
	file, err := lockFile(t.Context(), disk, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
}

// freezable is a file system of its own. What it gives freezes it, and that thaws it.
func (r *rig) freezable() (disk string, freeze func() (thaw func())) {
	r.t.Helper()
	disk = r.Path("disk")
	image := r.Path("image")
	for _, command := range []string{"truncate -s 16M " + image, "mkfs.ext4 -q " + image, "mkdir " + disk, "mount -o loop " + image + " " + disk} {
		if out, err := exec.Command("/bin/sh", "-c", command).CombinedOutput(); err != nil {
			r.t.Skipf("skipped: %s: %v: %s", command, err, out)
		}
	}
	r.t.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() })
	run := func(how string) {
		if out, err := exec.Command("fsfreeze", how, disk).CombinedOutput(); err != nil {
			r.t.Fatalf("fsfreeze %s: %v: %s", how, err, out)
		}
	}
	return disk, func() func() {
		run("--freeze")
		return func() { run("--unfreeze") }
	}
}
