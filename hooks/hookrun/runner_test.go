package hookrun

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

// note appends the event to a file, which is thus the order in which hooks ran.
const note = "echo $BULLY_EVENT:$BULLY_EPOCH >>order; "

func TestHooksRunInOrder(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}, Config{})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, true, true)
	g.become(2)
	g.wants(hooks.BecomeLeader, 2, true, true)
	want := "become-leader:1 lose-leadership:1 become-leader:2"
	if got := strings.Join(g.lines("order"), " "); got != want {
		t.Errorf("ran %s, want %s", got, want)
	}
	g.nothingMore()
}

// I8: whatever the order of gains and losses, and however long hooks take, a
// node's hooks are (become lose)*, epochs strictly rising, none twice; and every
// event gets one result, in the order of events.
func TestEverySequenceIsPairs(t *testing.T) {
	t.Parallel()
	const sequences, leaderships = 50, 6
	for seed := range uint64(sequences) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			slow := fmt.Sprintf("sleep 0.0%d", rng.IntN(4))
			g := startRig(t, scripts{hooks.BecomeLeader: note + slow, hooks.LoseLeadership: note + slow}, Config{})
			var epoch uint64
			for range leaderships {
				epoch += 1 + rng.Uint64N(3)
				g.become(epoch)
				if rng.IntN(2) == 0 { // else it is lost while it is queued or runs
					g.Until("a hook to run", func() bool { return len(g.lines("order")) > 0 })
					res := g.result()
					if res.Kind != hooks.BecomeLeader {
						t.Fatalf("result %+v, want that of epoch %d's become-leader", res, epoch)
					}
					g.lose(epoch)
					g.resultOf(hooks.LoseLeadership, epoch)
					continue
				}
				g.Stop(epoch)
				g.lose(epoch)
				g.resultOf(hooks.BecomeLeader, epoch)
				g.resultOf(hooks.LoseLeadership, epoch)
			}
			g.nothingMore()
			checkPairs(t, g.lines("order"))
		})
	}
}

// All events at once, with no regard for results: the queue itself must be in order.
func TestBurstIsPairs(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}, Config{})
	const leaderships = 40
	for epoch := range uint64(leaderships) {
		g.become(epoch + 1)
		g.lose(epoch + 1)
	}
	for epoch := range uint64(leaderships) {
		g.resultOf(hooks.BecomeLeader, epoch+1)
		g.resultOf(hooks.LoseLeadership, epoch+1)
	}
	g.nothingMore()
	checkPairs(t, g.lines("order"))
}

func (g *rig) resultOf(kind hooks.Kind, epoch uint64) {
	g.t.Helper()
	if res := g.result(); res.Kind != kind || res.Epoch != epoch {
		g.t.Fatalf("result %+v, want that of %s of epoch %d", res, kind, epoch)
	}
}

// checkPairs allows a become-leader that was killed before it wrote its line.
func checkPairs(t *testing.T, ran []string) {
	t.Helper()
	var open string
	var highest uint64
	for i, line := range ran {
		kind, number, _ := strings.Cut(line, ":")
		epoch, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		switch {
		case kind == string(hooks.BecomeLeader) && open == "" && epoch > highest:
			open, highest = number, epoch
		case kind == string(hooks.LoseLeadership) && (open == number || open == "" && epoch > highest):
			open, highest = "", epoch
		default:
			t.Fatalf("hook %d was %s after %v", i, line, ran[:i])
		}
	}
}

func TestLossKillsRunningBecome(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note + "exec sleep 60", hooks.LoseLeadership: note}, Config{})
	g.become(7)
	g.UntilFile("order")
	g.Stop(7)
	g.lose(7)
	res := g.wants(hooks.BecomeLeader, 7, false, true)
	if !says(res.Err, isOver) {
		t.Errorf("err = %v, want %q", res.Err, isOver)
	}
	g.wants(hooks.LoseLeadership, 7, true, true)
	checkPairs(t, g.lines("order"))
}

// The lose-leadership event is enough: Stop before it is not needed for its pair.
func TestLoseAloneKillsRunningBecome(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note + "exec sleep 60", hooks.LoseLeadership: note}, Config{})
	g.become(7)
	g.UntilFile("order")
	g.lose(7)
	g.wants(hooks.BecomeLeader, 7, false, true)
	g.wants(hooks.LoseLeadership, 7, true, true)
}

func TestStopOfAnOlderEpochKillsNothing(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note + "read go <gate"}, Config{})
	g.mkfifo("gate")
	g.become(7)
	g.UntilFile("order")
	g.Stop(6)
	g.open("gate")
	g.wants(hooks.BecomeLeader, 7, true, true)
}

// A pair whose become never started is dropped whole; pairs around it run.
func TestQueuedPairIsDropped(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note + "read go <gate"}, Config{})
	g.mkfifo("gate")
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	g.lose(1) // runs until the gate opens
	g.Until("the lose hook", func() bool { return len(g.lines("order")) == 2 })
	g.become(2)
	g.Stop(2)
	g.lose(2)
	g.become(3)
	g.nothingMore()
	g.open("gate")
	g.wants(hooks.LoseLeadership, 1, true, true)
	g.wants(hooks.BecomeLeader, 2, true, false)
	g.wants(hooks.LoseLeadership, 2, true, false)
	g.wants(hooks.BecomeLeader, 3, true, true)
	want := "become-leader:1 lose-leadership:1 become-leader:3"
	if got := strings.Join(g.lines("order"), " "); got != want {
		t.Errorf("ran %s, want %s", got, want)
	}
}

func TestFailedBecomeGetsItsLose(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		exit         int
		err          string
	}{
		{"exit 3", "exit 3", 3, "exit status 3"},
		{"killed by itself", "kill -9 $$", -1, "ended by signal 9"},
		{"unknown command", "no-such-command-here", 127, "did not find a command"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := startRig(t, scripts{hooks.BecomeLeader: tt.script, hooks.LoseLeadership: note}, Config{})
			g.become(1)
			res := g.wants(hooks.BecomeLeader, 1, false, true)
			if res.Exit != tt.exit || !strings.Contains(res.Err.Error(), tt.err) {
				t.Errorf("exit %d, err %v, want %d, %q", res.Exit, res.Err, tt.exit, tt.err)
			}
			g.lose(1)
			g.wants(hooks.LoseLeadership, 1, true, true)
		})
	}
}

// A hook that cannot be started may still have been half the user's intent: its
// pair is completed.
func TestUnstartableBecomeGetsItsLose(t *testing.T) {
	g := setUp(t, scripts{hooks.LoseLeadership: note}, Config{})
	cfg := g.config()
	cfg.Commands[hooks.BecomeLeader] = hooks.Command{Argv: []string{g.Path("absent")}}
	g.SetConfig(cfg)
	g.run()
	g.become(1)
	res := g.wants(hooks.BecomeLeader, 1, false, false)
	if !strings.Contains(res.Err.Error(), "no such file") {
		t.Errorf("err = %v", res.Err)
	}
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, true, true)
}

func TestNothingConfigured(t *testing.T) {
	g := startRig(t, scripts{}, Config{})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, false)
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, true, false)
}

// A lose-leadership hook may be asked for again after it failed, and runs again.
func TestFailedLoseRunsAgainWhenAsked(t *testing.T) {
	g := startRig(t, scripts{hooks.LoseLeadership: note + "test $(wc -l <order) -gt 3"}, Config{})
	g.leads(4)
	g.lose(4)
	g.wants(hooks.LoseLeadership, 4, false, true)
	g.lose(4)
	g.wants(hooks.LoseLeadership, 4, true, true)
}

// Rule 7: the lease ends in the middle of a planned change, whose lose hook has
// its full timeout. The second event cuts the hook and does not run it twice.
func TestLeaseEndsDuringPlannedLose(t *testing.T) {
	g := startRig(t, scripts{hooks.LoseLeadership: note + "trap '' TERM; while :; do sleep 1; done"}, Config{})
	g.leads(4)
	g.lose(4)
	g.UntilFile("order")
	g.loseWithin(4, 200*time.Millisecond)
	first := g.wants(hooks.LoseLeadership, 4, false, true)
	again := g.wants(hooks.LoseLeadership, 4, false, false)
	if again.Err != first.Err {
		t.Errorf("second result's err = %v, want the first one's, %v", again.Err, first.Err)
	}
	if !first.IsCut || !again.IsCut {
		t.Errorf("cut: %v, %v; the hook may be well", first.IsCut, again.IsCut)
	}
	if first.IsRepeat || !again.IsRepeat {
		t.Errorf("repeat: %v, %v; the second tells of the same run", first.IsRepeat, again.IsRepeat)
	}
	if n := len(g.lines("order")); n != 1 {
		t.Errorf("the lose hook ran %d times", n)
	}
}

// The same, but the hook has ended when the second event comes: the agent was frozen, and
// has not heard of that yet.
func TestLeaseEndsAfterPlannedLose(t *testing.T) {
	g := startRig(t, scripts{hooks.LoseLeadership: note}, Config{})
	g.leads(4)
	g.lose(4)
	g.wants(hooks.LoseLeadership, 4, true, true)
	g.loseWithin(4, 200*time.Millisecond)
	if again := g.wants(hooks.LoseLeadership, 4, true, false); !again.IsRepeat {
		t.Errorf("result %+v", again)
	}
	if n := len(g.lines("order")); n != 1 {
		t.Errorf("the lose hook ran %d times", n)
	}
}

// One that minds TERM and says how it ended was cut all the same.
func TestALoseHookThatMindsTERMIsCut(t *testing.T) {
	t.Parallel()
	g := startRig(t, scripts{hooks.LoseLeadership: "trap 'exit 1' TERM; echo x >armed; while :; do sleep 0.01; done"}, Config{})
	g.leads(4)
	g.lose(4)
	g.UntilFile("armed")
	g.loseWithin(4, 2*time.Second) // of which the shell has a part to end in
	if res := g.wants(hooks.LoseLeadership, 4, false, true); !res.IsCut || res.Exit != 1 {
		t.Errorf("result %+v", res)
	}
}

// One that has failed by the end of the lease was not cut, nor was one that others have
// killed.
func TestALoseHookThatFailsInAHurryIsNotCut(t *testing.T) {
	for _, end := range []string{"exit 1", "kill -9 $$"} {
		g := startRig(t, scripts{hooks.LoseLeadership: end}, Config{})
		g.leads(4)
		g.loseWithin(4, patience)
		if res := g.wants(hooks.LoseLeadership, 4, false, true); res.IsCut {
			t.Errorf("%s: result %+v", end, res)
		}
	}
}

// Seams 3: on an involuntary loss the become hook, however stubborn, and the lose
// hook together end within the budget.
func TestLossWithinBudget(t *testing.T) {
	const within = 800 * time.Millisecond
	stubborn := note + "trap '' TERM; while :; do sleep 1; done"
	g := startRig(t, scripts{hooks.BecomeLeader: stubborn, hooks.LoseLeadership: stubborn}, Config{})
	g.become(7)
	g.UntilFile("order")
	begun := time.Now()
	g.Stop(7)
	g.loseWithin(7, within)
	g.wants(hooks.BecomeLeader, 7, false, true)
	g.wants(hooks.LoseLeadership, 7, false, true)
	// Without the budget it would take twice the grace. What is added to the bound
	// is for a loaded machine, not for the code.
	if took := time.Since(begun); took > within+patience/4 {
		t.Errorf("took %v of a budget of %v", took, within)
	}
	checkPairs(t, g.lines("order"))
}

func TestBudgetLeavesLoseHookItsShare(t *testing.T) {
	g := startRig(t, scripts{hooks.LoseLeadership: "echo $BULLY_TIMEOUT_SECONDS >seconds"}, Config{})
	g.leads(7)
	g.loseWithin(7, 10*time.Second)
	g.wants(hooks.LoseLeadership, 7, true, true)
	got, err := strconv.ParseFloat(g.lines("seconds")[0], 64)
	if err != nil || got < 5 || got > 7.5 {
		t.Errorf("a lose hook with 10 s left was told %v s (%v), want more than half of it and room for the grace", got, err)
	}
}

func TestStuckNotificationDelaysNoLeadership(t *testing.T) {
	g := startRig(t, scripts{hooks.LeaderChange: "echo x >stuck; exec sleep 60", hooks.BecomeLeader: note}, Config{})
	g.Start(event(t, hooks.LeaderChange, 1))
	g.UntilFile("stuck")
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
}

// While one notification runs, only the newest of each kind is kept.
func TestNotificationsCoalesce(t *testing.T) {
	g := startRig(t, scripts{hooks.LeaderChange: note + "read go <gate", hooks.MemberChange: note}, Config{})
	g.mkfifo("gate")
	g.Start(event(t, hooks.LeaderChange, 1))
	g.UntilFile("order")
	for epoch := range uint64(3) {
		g.Start(event(t, hooks.LeaderChange, epoch+2))
		g.Start(event(t, hooks.MemberChange, epoch+2))
	}
	g.open("gate")
	g.Until("the second leader-change", func() bool { return len(g.lines("order")) == 2 })
	g.open("gate")
	g.Until("the member-change", func() bool { return len(g.lines("order")) == 3 })
	want := "leader-change:1 leader-change:4 member-change:4"
	if got := strings.Join(g.lines("order"), " "); got != want {
		t.Errorf("ran %s, want %s", got, want)
	}
	g.nothingMore()
}

func TestReloadTakesEffectWithTheNextRun(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: "echo old >>which; read go <gate"}, Config{})
	g.mkfifo("gate")
	g.become(1)
	g.UntilFile("which")
	cfg := g.config()
	cfg.Commands = g.commands(scripts{hooks.LoseLeadership: "echo new >>which"})
	g.SetConfig(cfg)
	g.open("gate")
	g.wants(hooks.BecomeLeader, 1, true, true)
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, true, true)
	if got := strings.Join(g.lines("which"), " "); got != "old new" {
		t.Errorf("ran %s, want old new", got)
	}
}

// The consumer reads nothing until all has ended, and still gets every result once.
func TestSlowConsumerLosesNoResult(t *testing.T) {
	g := startRig(t, scripts{}, Config{})
	const leaderships = 500
	for epoch := range uint64(leaderships) {
		g.become(epoch + 1)
	}
	for epoch := range uint64(leaderships) {
		g.wants(hooks.BecomeLeader, epoch+1, true, false)
	}
	g.nothingMore()
}

// When the agent stops, the running hook is ended and nothing new starts.
func TestStoppingEndsTheRunningHook(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note + "exec sleep 60", hooks.LoseLeadership: note}, Config{})
	g.become(1)
	g.UntilFile("order")
	g.Start(event(t, hooks.LoseLeadership, 0)) // of an epoch long past: queued, kills nothing
	g.end()
	res := g.wants(hooks.BecomeLeader, 1, false, true)
	if res.Err != hooks.ErrStopping {
		t.Errorf("err = %v, want %v", res.Err, hooks.ErrStopping)
	}
	g.wants(hooks.LoseLeadership, 0, false, false)
	if n := len(g.lines("order")); n != 1 {
		t.Errorf("%d hooks ran, want 1", n)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"socket with a space", Config{Socket: "/run/my agent/sock"}, "BULLY_SOCKET"},
		{"impossible directory", Config{Dir: "/dev/null/x"}, "open hook ledger"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := newLoop(tt.cfg, 0, 0); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v, want %q in it", err, tt.want)
			}
		})
	}
}
