package cli

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/holder"
)

// A lease is of use only to who reads the agent's clock.
func TestALeaseByAnotherClock(t *testing.T) {
	const asked, heard = 100 * time.Second, 130 * time.Second
	for _, c := range []struct {
		clock time.Duration // 0: an older agent
		same  bool
	}{
		{0, true}, {asked, true}, {heard, true}, {asked - clockSlack, true}, {heard + clockSlack, true},
		{asked - clockSlack - 1, false}, {heard + clockSlack + 1, false},
	} {
		err := sameClock(asked, control.Lease{Leader: true, Ready: true, Clock: int64(c.clock)}, heard)
		if (err == nil) != c.same {
			t.Errorf("written at %v: %v", c.clock, err)
		}
	}
	if code := exitCode(sameClock(asked, control.Lease{Clock: int64(time.Hour)}, heard)); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
}

// Nothing is begun but on a lease of a ready leader that has not ended, now.
func TestWhenACommandMayBegin(t *testing.T) {
	until := int64(durable.BootTime() + time.Hour)
	for _, c := range []struct {
		name  string
		lease control.Lease
		want  string
	}{
		{"leads", control.Lease{Leader: true, Ready: true, Until: until}, ""},
		{"follows", control.Lease{Until: until}, "this node does not lead"},
		{"ends", control.Lease{Ready: true, Until: until}, "this node does not lead"},
		{"hook runs", control.Lease{Leader: true, Until: until}, "its become-leader hook has not succeeded"},
		{"old news", control.Lease{Leader: true, Ready: true, Until: int64(durable.BootTime())}, "its lease has ended"},
		{"no lease", control.Lease{Leader: true, Ready: true}, "its lease has ended"},
		{"nothing", control.Lease{}, "this node does not lead"},
	} {
		if got := whyNotAct(c.lease); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestALeadersEnvironment(t *testing.T) {
	own := []string{"A=b", "BULLY_EPOCH=1", "BULLY_EPOCHS=2", "BULLY_EPOCH=3", "BULLY_GUARD=outer", "odd"}
	s := control.Status{Cluster: "lab", Self: control.Member{Name: "alpha", ID: "id", Addr: "10.0.0.1:7950"}, Mode: "quorum", Alive: 3}
	env := leaderEnviron(own, control.Lease{Epoch: control.Epoch{Counter: 7, Owner: "id"}, Cause: "boot"}, s, "/run/agent.sock")
	want := []string{"A=b", "BULLY_EPOCHS=2", "BULLY_GUARD=outer", "odd", "BULLY_CAUSE=boot", "BULLY_CLUSTER=lab", "BULLY_NODE=alpha",
		"BULLY_NODE_ID=id", "BULLY_NODE_ADDR=10.0.0.1:7950", "BULLY_ROLE=leader", "BULLY_EPOCH=7", "BULLY_EPOCH_OWNER=id",
		"BULLY_LEADER=alpha", "BULLY_LEADER_ID=id", "BULLY_LEADER_ADDR=10.0.0.1:7950", "BULLY_MODE=quorum",
		"BULLY_MEMBERS_ALIVE=3", "BULLY_SOCKET=/run/agent.sock"}
	if !slices.Equal(env, want) {
		t.Errorf("got  %q\nwant %q", env, want)
	}
	if own[1] != "BULLY_EPOCH=1" {
		t.Error("the caller's own environment was changed")
	}
}

// reported is a holder that has ended with a report.
type reported struct {
	commandHolder
	report holder.Report
}

func (r reported) Report() holder.Report { return r.report }

// What a command's end means depends on who ended it.
func TestFates(t *testing.T) {
	run := func(before reason, report holder.Report) leasedRun {
		l := &leased{client: control.Dial("/nowhere"), words: []string{"x"}}
		return leasedRun{leased: l, holder: reported{report: report}, fate: fate{why: before, isAsked: before == asked}}
	}
	for _, c := range []struct {
		name   string
		before reason // what this process had begun
		report holder.Report
		why    reason
		code   int
	}{
		{"exit 0", "", holder.Report{Group: 1}, ofItself, 0},
		{"exit 7", "", holder.Report{Group: 1, Exit: 7}, ofItself, 7},
		{"signal", "", holder.Report{Group: 1, Exit: -1, Signal: 9}, ofItself, 137},
		{"lost", "", holder.Report{Group: 1, Exit: -1, Signal: 15, Cause: holder.LeaseLost, Loss: "stopped"}, lost, 143},
		{"exit 0 when told", "", holder.Report{Group: 1, Cause: holder.LeaseLost}, lost, 0},
		{"lost before it began", "", holder.Report{Exit: -1, Cause: holder.LeaseLost, Err: "no time was left"}, lost, exitFailure},
		{"nobody renewed", "", holder.Report{Group: 1, Exit: -1, Signal: 9, Cause: holder.AgentDied, Silent: true}, silent, 137},
		{"too late to start", "", holder.Report{Exit: -1, Cause: holder.AgentDied, Silent: true, Err: "no time was left"}, silent, exitFailure},
		{"agent gone", "", holder.Report{Group: 1, Exit: -1, Signal: 9, Cause: holder.AgentDied}, agentOff, 137},
		{"holder killed meanwhile", "", holder.Report{Group: 1, Exit: -1, Cause: holder.AgentDied, Err: "the holder died"}, agentOff, exitFailure},
		{"asked", asked, holder.Report{Group: 1, Exit: 5}, asked, 5},
		{"asked, then lost", asked, holder.Report{Group: 1, Exit: 5, Cause: holder.LeaseLost}, asked, 5},
	} {
		w := run(c.before, c.report)
		if err := w.conclude(); err != nil || w.fate.why != c.why || w.fate.code != c.code || w.fate.cause != c.report.Loss {
			t.Errorf("%s: %+v, %v; want %q, %d", c.name, w.fate, err, c.why, c.code)
		}
		if isGone := errors.Is(w.fate.err, control.ErrUnreachable); isGone != (c.why == agentOff) {
			t.Errorf("%s: the agent's error is %v", c.name, w.fate.err)
		}
	}
	for _, c := range []struct {
		name   string
		before reason
		report holder.Report
		want   int
	}{
		{"not found", "", holder.Report{Exit: -1, Errno: int(unix.ENOENT), Err: "no such file"}, exitNotFound},
		{"forbidden", "", holder.Report{Exit: -1, Errno: int(unix.EACCES), Err: "permission denied"}, exitNotExecutable},
		{"no program", "", holder.Report{Exit: -1, Errno: int(unix.ENOEXEC), Err: "exec format error"}, exitNotExecutable},
		{"no memory", "", holder.Report{Exit: -1, Errno: int(unix.ENOMEM), Err: "cannot allocate"}, exitFailure},
		{"holder died", "", holder.Report{Exit: -1, Err: "the holder died"}, exitFailure},
		{"holder died later", "", holder.Report{Group: 1, Exit: -1, Err: "the holder died"}, exitFailure},
		{"holder died when asked", asked, holder.Report{Group: 1, Exit: -1, Err: "the holder died"}, exitFailure},
	} {
		w := run(c.before, c.report)
		if err := w.conclude(); exitCode(err) != c.want || !strings.Contains(err.Error(), c.report.Err) {
			t.Errorf("%s: %v, code %d, want %d", c.name, err, exitCode(err), c.want)
		}
	}
}

// loser is a holder that ends what it holds when it has passed a signal on.
type loser struct {
	reported
	done chan struct{}
}

func (l loser) Signal(syscall.Signal) { close(l.done) }
func (l loser) Done() <-chan struct{} { return l.done }
func (loser) Stuck() <-chan struct{}  { return nil }

// Whoever tells hold to end while the command is being ended, since the leadership has ended
// or the agent gone, has told it: it neither waits for the next leadership nor starts the
// command again, and ends with the command's exit code.
func TestAskedToEndWhileTheCommandIsEnded(t *testing.T) {
	for _, c := range []struct {
		name   string
		report holder.Report
		why    reason
		code   int
	}{
		{"leadership lost", holder.Report{Group: 1, Exit: -1, Signal: 15, Cause: holder.LeaseLost}, lost, 143},
		{"agent gone", holder.Report{Group: 1, Exit: 5, Cause: holder.AgentDied}, agentOff, 5},
		{"it was not renewed", holder.Report{Group: 1, Cause: holder.AgentDied, Silent: true}, silent, 0},
		{"it had ended by then", holder.Report{Group: 1, Exit: 3}, asked, 3},
		{"leadership lost, holder killed", holder.Report{Group: 1, Exit: -1, Cause: holder.LeaseLost, Err: "the holder died"}, lost, exitFailure},
	} {
		t.Run(c.name, func(t *testing.T) {
			signals := make(chan os.Signal, 1)
			g := loser{reported: reported{report: c.report}, done: make(chan struct{})}
			l := &leased{client: control.Dial("/nowhere"), words: []string{"x"}, signals: signals, grace: time.Hour, isEndedBy: endsWait}
			w := leasedRun{leased: l, holder: g}
			signals <- unix.SIGTERM
			w.attend(nil)
			over, err := true, w.conclude()
			if err == nil {
				h := holding{leased: l, restarts: func(int) bool { return true }}
				over, err = h.isOver(w.fate)
			}
			if !over || w.fate.why != c.why || exitCode(err) != c.code {
				t.Errorf("%+v: over %v, %v, code %d; want %q, %d", w.fate, over, err, exitCode(err), c.why, c.code)
			}
			if f := (*failure)(nil); c.code == exitFailure && !errors.As(err, &f) {
				t.Errorf("%v: nothing is said of it", err)
			}
		})
	}
}

// A feed keeps the newest only: whoever was stopped does not read what is long
// over.
func TestAFeedKeepsTheNewest(t *testing.T) {
	news, ended := make(chan control.Lease, 1), make(chan error, 1)
	f := &leaseFeed{news: news, ended: ended}
	if got := f.newest(control.Lease{Cause: "old"}); got.Cause != "old" {
		t.Errorf("without news: %+v", got)
	}
	news <- control.Lease{Cause: "new"}
	if got := f.newest(control.Lease{Cause: "old"}); got.Cause != "new" {
		t.Errorf("with news: %+v", got)
	}
	signals := make(chan os.Signal, 2)
	signals <- unix.SIGWINCH // ends no wait
	signals <- unix.SIGTERM
	var stopped interrupted
	if _, err := f.next(nil, signals); !errors.As(err, &stopped) || stopped.signal != unix.SIGTERM {
		t.Errorf("a signal gives %v", err)
	}
	if _, err := f.next(time.After(0), nil); !errors.Is(err, errLate) {
		t.Errorf("the end of the time gives %v", err)
	}
	ended <- context.Canceled
	if _, err := f.next(nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the end of the feed gives %v", err)
	}
}
