package hooks

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// count notes the attempt, and num is then how many there were.
const count = "echo $BULLY_ATTEMPT >>attempts; num=$(wc -l <attempts); "

func TestAttempts(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		kind         Kind
		ok           bool
		attempts     string
	}{
		{"become asks for another", "test $num = 3 || exit 75", BecomeLeader, true, "1 2 3"},
		{"become asks for ever", "exit 75", BecomeLeader, false, "1 2 3"},
		{"become fails", "exit 1", BecomeLeader, false, "1"},
		{"become fails at its second attempt", "test $num = 2 && exit 3; exit 75", BecomeLeader, false, "1 2"},
		{"become dies", "kill -9 $$", BecomeLeader, false, "1"},
		{"lose asks for another", "test $num = 2 || exit 75", LoseLeadership, true, "1 2"},
		{"lose fails and fails", "exit 1", LoseLeadership, false, "1 2 3"},
		{"lose dies once", "test $num = 2 || kill -9 $$", LoseLeadership, true, "1 2"},
		{"lose dies of TERM", "test $num = 2 || kill $$", LoseLeadership, true, "1 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := startRig(t, scripts{tt.kind: count + tt.script}, Config{})
			g.Start(event(tt.kind, 1))
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
	g := startRig(t, scripts{LeaderChange: count + "exit 75"}, Config{})
	ended := make(chan Result, 1)
	ev := event(LeaderChange, 1)
	ev.Ended = func(res Result) { ended <- res }
	g.Start(ev)
	if res := <-ended; res.OK || res.Exit != 75 || len(g.lines("attempts")) != 1 {
		t.Errorf("result %+v after %d attempts", res, len(g.lines("attempts")))
	}
}

// The count goes on over events of one leadership.
func TestAttemptsGoOnCounting(t *testing.T) {
	g := startRig(t, scripts{BecomeLeader: count + "exit 75"}, Config{})
	ev := event(BecomeLeader, 1)
	ev.Attempt = 3
	g.Start(ev)
	g.wants(BecomeLeader, 1, false, true)
	if got := strings.Join(g.lines("attempts"), " "); got != "4 5 6" {
		t.Errorf("attempts %s, want 4 5 6", got)
	}
}

// Losing the epoch ends the wait for the next attempt, and the lose hook runs.
func TestLossEndsTheWaitForAnAttempt(t *testing.T) {
	g := setUp(t, scripts{BecomeLeader: note + "exit 75", LoseLeadership: note}, Config{})
	g.pause = patience
	g.run()
	g.become(7)
	g.UntilFile("order")
	begun := time.Now()
	g.Stop(7)
	g.lose(7)
	if res := g.wants(BecomeLeader, 7, false, true); res.Attempts != 1 {
		t.Errorf("%d attempts", res.Attempts)
	}
	g.wants(LoseLeadership, 7, true, true)
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("took %v", took)
	}
	checkPairs(t, g.lines("order"))
}

// On an involuntary loss all attempts together end when the lease does.
func TestAttemptsOfALoseEndWithTheLease(t *testing.T) {
	g := setUp(t, scripts{LoseLeadership: count + "exit 1"}, Config{})
	g.pause = patience
	g.run()
	const within = 400 * time.Millisecond
	begun := time.Now()
	g.loseWithin(7, within)
	res := g.wants(LoseLeadership, 7, false, true)
	if took := time.Since(begun); took > within+patience/4 {
		t.Errorf("took %v of a budget of %v", took, within)
	}
	if res.Attempts < 2 {
		t.Errorf("%d attempts: there was time for another", res.Attempts)
	}
}

// In a planned change all attempts together have the hook's timeout.
func TestAttemptsOfALoseShareItsTimeout(t *testing.T) {
	g := startRig(t, scripts{LoseLeadership: count + "test $num = 1 && exit 1; exec sleep 1000"},
		Config{Timeout: 300 * time.Millisecond, Grace: shortGrace})
	begun := time.Now()
	g.lose(7)
	g.wants(LoseLeadership, 7, false, true)
	if took := time.Since(begun); took > 300*time.Millisecond+shortGrace+patience/4 {
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
	for _, within := range []time.Duration{0, 300 * time.Millisecond} {
		g := startRig(t, scripts{LoseLeadership: count + "exec sleep 1000"},
			Config{Timeout: 300 * time.Millisecond, Grace: shortGrace})
		g.loseWithin(7, within)
		if res := g.wants(LoseLeadership, 7, false, true); res.Attempts != 1 {
			t.Errorf("within %v: %d attempts", within, res.Attempts)
		}
	}
}

// A lose hook that is tried once more does not hold up a new leadership.
func TestRedoneLoseGivesWay(t *testing.T) {
	g := startRig(t, scripts{BecomeLeader: note, LoseLeadership: note + "trap '' TERM; while :; do sleep 1; done"}, Config{})
	redo := event(LoseLeadership, 4)
	redo.IsRedo = true
	g.Start(redo)
	g.UntilFile("order")
	g.Start(redo)
	begun := time.Now()
	g.become(5)
	if res := g.wants(LoseLeadership, 4, false, true); !errors.Is(res.Err, errOvertaken) {
		t.Errorf("err = %v, want %v", res.Err, errOvertaken)
	}
	if res := g.wants(LoseLeadership, 4, false, false); !errors.Is(res.Err, errOvertaken) {
		t.Errorf("err = %v, want %v", res.Err, errOvertaken)
	}
	g.wants(BecomeLeader, 5, true, true)
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("took %v", took)
	}
}

// One more attempt that comes too late is not run, and does not swallow the lose
// hook of the attempts before.
func TestLateAttemptIsDroppedAlone(t *testing.T) {
	g := startRig(t, scripts{BecomeLeader: note + "exit 1", LoseLeadership: note}, Config{})
	g.become(3)
	g.wants(BecomeLeader, 3, false, true)
	g.Stop(3)
	g.become(3)
	g.lose(3)
	g.wants(BecomeLeader, 3, false, false)
	g.wants(LoseLeadership, 3, true, true)
	checkPairs(t, g.lines("order"))
}

// What waits for an event hears of its end when the output can be read.
func TestEndedComesAfterTheOutput(t *testing.T) {
	g := startRig(t, scripts{BecomeLeader: "echo words of the hook"}, Config{Dir: t.TempDir()})
	ended := make(chan Result, 1)
	ev := event(BecomeLeader, 2)
	ev.Ended = func(res Result) { ended <- res }
	g.Start(ev)
	res := <-ended
	run, output, err := ReadOutput(g.state(), res.Seq)
	if err != nil || string(output) != "words of the hook\n" || run.Hook != BecomeLeader || run.Epoch != 2 || run.Attempt != 1 || !run.OK {
		t.Errorf("run %+v printed %q (%v)", run, output, err)
	}
	runs, err := ReadRuns(g.state(), 0)
	if err != nil || len(runs) != 1 || runs[0] != run {
		t.Errorf("the ledger has %+v (%v)", runs, err)
	}
	if _, _, err := ReadOutput(g.state(), 99); err == nil {
		t.Error("a run that never was has an output")
	}
	g.wants(BecomeLeader, 2, true, true)
}

// Whoever waits for a notification that is never run hears of that, too.
func TestEndedOfWhatIsNotRun(t *testing.T) {
	g := startRig(t, scripts{LeaderChange: "echo x >>order; read go <gate"}, Config{})
	g.mkfifo("gate")
	g.Start(event(LeaderChange, 1))
	g.UntilFile("order")
	ended := make(chan Result, 1)
	ev := event(LeaderChange, 2)
	ev.Ended = func(res Result) { ended <- res }
	g.Start(ev)
	if !g.IsRunning(LeaderChange) || g.IsRunning(MemberChange) {
		t.Error("IsRunning does not know what runs")
	}
	g.Start(event(LeaderChange, 3))
	if res := <-ended; !errors.Is(res.Err, errSuperseded) {
		t.Errorf("result %+v", res)
	}
	g.open("gate")
	g.Until("the second", func() bool { return len(g.lines("order")) == 2 })
	g.open("gate")
}
