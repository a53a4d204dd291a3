package hookrun

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

// reload configures other hooks, as SIGHUP does.
func (g *rig) reload(s scripts) {
	cfg := g.config()
	cfg.Commands = g.commands(s)
	g.SetConfig(cfg)
}

// address is a pair of hooks that hold a name, as others hold an address.
func address(name string) scripts {
	return scripts{hooks.BecomeLeader: note + "touch " + name, hooks.LoseLeadership: note + "rm " + name}
}

func (g *rig) holds(names ...string) {
	g.t.Helper()
	for _, name := range []string{"50", "60"} {
		_, err := os.Stat(g.Path(name))
		if want := strings.Contains(strings.Join(names, " "), name); want != (err == nil) {
			g.t.Errorf("this host holds %s: %v, want %v", name, err == nil, want)
		}
	}
}

func (g *rig) keeps(want bool) {
	g.t.Helper()
	if epoch, ok := g.Keeps(); ok != want {
		g.t.Errorf("a leadership keeps its hooks: %v (epoch %d), want %v", ok, epoch, want)
	}
}

// A leadership ends with the hook that it began with; the next one begins with the new.
func TestLeadershipKeepsItsHooks(t *testing.T) {
	g := startRig(t, address("50"), Config{Dir: t.TempDir()})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	g.keeps(false)
	g.reload(address("60"))
	g.keeps(true)
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, true, true)
	g.holds()
	g.keeps(false)
	g.become(2)
	g.wants(hooks.BecomeLeader, 2, true, true)
	g.holds("60")
	g.lose(2)
	g.wants(hooks.LoseLeadership, 2, true, true)
	g.holds()
}

// A hook that the leadership has none of is taken from a reload at once: it owes nothing.
func TestLeadershipTakesAHookThatItHasNot(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note}, Config{})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	g.reload(scripts{hooks.LoseLeadership: note})
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, true, true)
	g.ordered("become-leader:1 lose-leadership:1")
}

// So it does when the configuration has none any more, and with the times that it had.
func TestLeadershipKeepsItsTimes(t *testing.T) {
	g := startRig(t, scripts{hooks.LoseLeadership: "echo $BULLY_TIMEOUT_SECONDS >time"}, Config{Config: hooks.Config{Timeout: 7 * time.Second}})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, false)
	cfg := g.config()
	cfg.Commands, cfg.Timeout = nil, time.Second
	g.SetConfig(cfg)
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, true, true)
	if got := g.lines("time"); !slices.Equal(got, []string{"7"}) {
		t.Errorf("it was told that it has %q seconds, want 7", got)
	}
}

// Notifications belong to no leadership.
func TestNotificationsAreReloadedAtOnce(t *testing.T) {
	g := startRig(t, scripts{hooks.LeaderChange: "touch old"}, Config{})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, false)
	g.reload(scripts{hooks.LeaderChange: note})
	g.Start(event(t, hooks.LeaderChange, 1))
	g.UntilFile("order")
}

// A hook that failed is mended by the reload after that, and not by one before.
func TestReloadMendsAFailedHook(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note + "touch 50", hooks.LoseLeadership: "exit 1"}, Config{Dir: t.TempDir()})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	g.reload(scripts{hooks.LoseLeadership: "touch early"})
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, false, true)
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, false, true)
	g.reload(scripts{hooks.LoseLeadership: "rm 50"})
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, true, true)
	g.holds()
	if _, err := os.Stat(g.Path("early")); err == nil {
		t.Error("the hook of a reload ran before the leadership's own had failed")
	}
}

// A lose hook that was cut short by the end of the lease has not failed of itself: it
// is still the one that is due.
func TestHookThatWasCutIsKept(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: "touch 50", hooks.LoseLeadership: "test -e well || exec sleep 1000; rm 50"},
		Config{Config: hooks.Config{Grace: shortGrace}})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	g.loseWithin(1, 200*time.Millisecond)
	g.wants(hooks.LoseLeadership, 1, false, true)
	g.reload(address("60"))
	appendLine(t, g.Path("well"), "")
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, true, true)
	g.holds()
}

// The next life of the agent ends the leadership as this one would have, unless the
// hook had failed before.
func TestKeptOutlivesTheAgent(t *testing.T) {
	for _, failed := range []bool{false, true} {
		state := t.TempDir()
		g := startRig(t, address("50"), Config{Dir: state})
		g.become(3)
		g.wants(hooks.BecomeLeader, 3, true, true)
		if failed {
			if err := os.Remove(g.Path("50")); err != nil {
				t.Fatal(err)
			}
			g.lose(3)
			g.wants(hooks.LoseLeadership, 3, false, true)
		}
		g.end()

		next := setUp(t, nil, Config{Dir: state})
		next.reload(scripts{hooks.LoseLeadership: "touch configured"})
		if res := next.CleanUp(context.Background(), event(t, hooks.LoseLeadership, 3)); !res.OK {
			t.Errorf("clean-up: %+v", res)
		}
		_, err := os.Stat(next.Path("configured"))
		if failed != (err == nil) {
			t.Errorf("the lose hook had failed: %v, the configured one ran: %v", failed, err == nil)
		}
		g.holds()
	}
}

// What is to be run is not taken from a file that others can write.
func TestKeptByAFileOfOthers(t *testing.T) {
	state := t.TempDir()
	g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: "touch 50"}, Config{Dir: state})
	g.become(3)
	g.wants(hooks.BecomeLeader, 3, true, true)
	g.end()
	if err := os.Chmod(g.hands.journal.path, 0o620); err != nil {
		t.Fatal(err)
	}
	next := setUp(t, scripts{hooks.LoseLeadership: note}, Config{Dir: state})
	if res := next.CleanUp(context.Background(), event(t, hooks.LoseLeadership, 3)); !res.OK {
		t.Errorf("clean-up: %+v", res)
	}
	g.holds()
	if len(next.lines("order")) == 0 {
		t.Error("the configured hook did not run")
	}
}
