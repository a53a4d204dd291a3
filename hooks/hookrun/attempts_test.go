package hookrun

import (
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

// maxAttempts is how often a hook is run for one event (docs/hooks.md).
const maxAttempts = 3

// What becomes of a hook that others overtake.
const (
	overtaken = "since this node leads again"
	isOver    = "since its epoch has ended"
)

func says(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// count notes the attempt, and num is then how many there were.
const count = "echo $BULLY_ATTEMPT >>attempts; num=$(wc -l <attempts); "

func TestAttempts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, script string
		kind         hooks.Kind
		ok           bool
		attempts     string
	}{
		{"become asks for another", "test $num = 3 || exit 75", hooks.BecomeLeader, true, "1 2 3"},
		{"become asks for ever", "exit 75", hooks.BecomeLeader, false, "1 2 3"},
		{"become fails", "exit 1", hooks.BecomeLeader, false, "1"},
		{"become fails at its second attempt", "test $num = 2 && exit 3; exit 75", hooks.BecomeLeader, false, "1 2"},
		{"become dies", "kill -9 $$", hooks.BecomeLeader, false, "1"},
		{"lose asks for another", "test $num = 2 || exit 75", hooks.LoseLeadership, true, "1 2"},
		{"lose fails and fails", "exit 1", hooks.LoseLeadership, false, "1 2 3"},
		{"lose dies once", "test $num = 2 || kill -9 $$", hooks.LoseLeadership, true, "1 2"},
		{"lose dies of TERM", "test $num = 2 || kill $$", hooks.LoseLeadership, true, "1 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := startRig(t, scripts{tt.kind: count + tt.script}, Config{})
			if tt.kind == hooks.LoseLeadership {
				g.leads(1)
			}
			g.Start(event(t, tt.kind, 1))
			res := g.wants(tt.kind, 1, tt.ok, true)
			if got := strings.Join(g.lines("attempts"), " "); got != tt.attempts || res.Attempts != len(strings.Fields(got)) {
				t.Errorf("attempts %s, result says %d, want %s", got, res.Attempts, tt.attempts)
			}
			g.nothingMore()
		})
	}
}

// A notification has no state that another attempt could save.
func TestNotificationsAreNotRepeated(t *testing.T) {
	g := startRig(t, scripts{hooks.LeaderChange: count + "exit 75"}, Config{})
	ended := make(chan hooks.Result, 1)
	ev := event(t, hooks.LeaderChange, 1)
	ev.Ended = func(res hooks.Result) { ended <- res }
	g.Start(ev)
	if res := <-ended; res.OK || res.Exit != 75 || len(g.lines("attempts")) != 1 {
		t.Errorf("result %+v after %d attempts", res, len(g.lines("attempts")))
	}
}

// The count goes on over events of one leadership.
func TestAttemptsGoOnCounting(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: count + "exit 75"}, Config{})
	ev := event(t, hooks.BecomeLeader, 1)
	ev.Attempt = 3
	g.Start(ev)
	g.wants(hooks.BecomeLeader, 1, false, true)
	if got := strings.Join(g.lines("attempts"), " "); got != "4 5 6" {
		t.Errorf("attempts %s, want 4 5 6", got)
	}
}

// Losing the epoch ends the wait for the next attempt, and the lose hook runs.
func TestLossEndsTheWaitForAnAttempt(t *testing.T) {
	g := setUpWith(t, scripts{hooks.BecomeLeader: note + "exit 75", hooks.LoseLeadership: note}, Config{}, patience)
	g.run()
	g.become(7)
	g.UntilFile("order")
	begun := time.Now()
	g.Stop(7)
	g.lose(7)
	if res := g.wants(hooks.BecomeLeader, 7, false, true); res.Attempts != 1 {
		t.Errorf("%d attempts", res.Attempts)
	}
	g.wants(hooks.LoseLeadership, 7, true, true)
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("took %v", took)
	}
	checkPairs(t, g.lines("order"))
}

// On an involuntary loss all attempts together end when the lease does.
func TestAttemptsOfALoseEndWithTheLease(t *testing.T) {
	g := setUpWith(t, scripts{hooks.LoseLeadership: count + "exit 1"}, Config{}, patience)
	g.run()
	g.leads(7)
	const within = 400 * time.Millisecond
	begun := time.Now()
	g.loseWithin(7, within)
	res := g.wants(hooks.LoseLeadership, 7, false, true)
	if took := time.Since(begun); took > within+patience/4 {
		t.Errorf("took %v of a budget of %v", took, within)
	}
	if res.Attempts < 2 {
		t.Errorf("%d attempts: there was time for another", res.Attempts)
	}
}

// In a planned change all attempts together have the hook's timeout.
func TestAttemptsOfALoseShareItsTimeout(t *testing.T) {
	t.Parallel()
	const timeout = time.Second // in which a first attempt fails on any machine
	g := startRig(t, scripts{hooks.LoseLeadership: count + "test $num = 1 && exit 1; exec sleep 1000"},
		Config{Config: hooks.Config{Timeout: timeout, Grace: shortGrace}})
	g.leads(7)
	begun := time.Now()
	g.lose(7)
	g.wants(hooks.LoseLeadership, 7, false, true)
	if took := time.Since(begun); took > timeout+shortGrace+patience/4 {
		t.Errorf("took %v", took)
	}
	if n := len(g.lines("attempts")); n != 2 && n != 3 {
		t.Errorf("%d attempts", n)
	}
}

// A lose hook that was cut when its time had ended is not begun again with what is
// left of it: one of three seconds was cut after 0.29, begun again with 46 ms, and
// then with 5.
func TestALoseThatWasCutIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	for _, within := range []time.Duration{0, 300 * time.Millisecond} {
		g := startRig(t, scripts{hooks.LoseLeadership: count + "exec sleep 1000"},
			Config{Config: hooks.Config{Timeout: 300 * time.Millisecond, Grace: shortGrace}})
		g.leads(7)
		g.loseWithin(7, within)
		if res := g.wants(hooks.LoseLeadership, 7, false, true); res.Attempts != 1 {
			t.Errorf("within %v: %d attempts", within, res.Attempts)
		}
	}
}

// A lose hook that is tried once more does not hold up a new leadership.
func TestRedoneLoseGivesWay(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note + "trap '' TERM; while :; do sleep 1; done"}, Config{})
	redo := event(t, hooks.LoseLeadership, 4)
	redo.IsRedo = true
	g.become(4)
	g.wants(hooks.BecomeLeader, 4, true, true)
	g.Start(redo)
	g.Until("the lose hook", func() bool { return len(g.lines("order")) == 2 })
	g.Start(redo)
	begun := time.Now()
	g.become(5)
	if res := g.wants(hooks.LoseLeadership, 4, false, true); !says(res.Err, overtaken) {
		t.Errorf("err = %v, want %q", res.Err, overtaken)
	}
	if res := g.wants(hooks.LoseLeadership, 4, false, false); !says(res.Err, overtaken) {
		t.Errorf("err = %v, want %q", res.Err, overtaken)
	}
	g.wants(hooks.BecomeLeader, 5, true, true)
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("took %v", took)
	}
}

// One more attempt that comes too late is not run, and does not swallow the lose
// hook of the attempts before.
func TestLateAttemptIsDroppedAlone(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note + "exit 1", hooks.LoseLeadership: note}, Config{})
	g.become(3)
	g.wants(hooks.BecomeLeader, 3, false, true)
	g.Stop(3)
	g.become(3)
	g.lose(3)
	g.wants(hooks.BecomeLeader, 3, false, false)
	g.wants(hooks.LoseLeadership, 3, true, true)
	checkPairs(t, g.lines("order"))
}

// What a hook has printed comes to the ledger soon after its end.
func TestTheOutputCanBeRead(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: "echo words of the hook"}, Config{Dir: t.TempDir()})
	ended := make(chan hooks.Result, 1)
	ev := event(t, hooks.BecomeLeader, 2)
	ev.Ended = func(res hooks.Result) { ended <- res }
	g.Start(ev)
	res := <-ended
	g.Until("the run in the ledger", func() bool { _, _, err := ReadOutput(g.state(), res.Seq); return err == nil })
	run, output, err := ReadOutput(g.state(), res.Seq)
	if err != nil || string(output) != "words of the hook\n" || run.Hook != hooks.BecomeLeader || run.Epoch != 2 || run.Attempt != 1 || !run.OK {
		t.Errorf("run %+v printed %q (%v)", run, output, err)
	}
	runs, err := ReadRuns(g.state(), 0)
	if err != nil || len(runs) != 1 || runs[0] != run {
		t.Errorf("the ledger has %+v (%v)", runs, err)
	}
	if _, _, err := ReadOutput(g.state(), 99); err == nil {
		t.Error("a run that never was has an output")
	}
	g.wants(hooks.BecomeLeader, 2, true, true)
}

// Whoever waits for a notification that is never run hears of that, too.
func TestEndedOfWhatIsNotRun(t *testing.T) {
	g := startRig(t, scripts{hooks.LeaderChange: "echo x >>order; read go <gate"}, Config{})
	g.mkfifo("gate")
	g.Start(event(t, hooks.LeaderChange, 1))
	g.UntilFile("order")
	ended := make(chan hooks.Result, 1)
	ev := event(t, hooks.LeaderChange, 2)
	ev.Ended = func(res hooks.Result) { ended <- res }
	g.Start(ev)
	g.Start(event(t, hooks.LeaderChange, 3))
	if res := <-ended; !says(res.Err, "since a newer event of its kind has come") {
		t.Errorf("result %+v", res)
	}
	g.open("gate")
	g.Until("the second", func() bool { return len(g.lines("order")) == 2 })
	g.open("gate")
}
