package hookrun

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/test/traces"
)

// needsMkfs skips where no disk can be made that stands still.
func needsMkfs(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip("skipped: mkfs.ext4 is not installed")
	}
}

// knowsThatItIsGone: what has hung has ended.
func (g *rig) knowsThatItIsGone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gone > 0
}

// A command in D state takes no signal: KILL sent is not a death. What it has on its way to the disk may come at any time.
func TestNothingIsStartedBesideAHookThatHangs(t *testing.T) {
	t.Parallel()
	for _, hangs := range []hooks.Kind{hooks.BecomeLeader, hooks.LoseLeadership} {
		t.Run(string(hangs), func(t *testing.T) {
			t.Parallel()
			needsMkfs(t)
			g := setUp(t, scripts{}, Config{})
			disk, freeze, thaw := g.Frozen()
			commands := scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}
			commands[hangs] += "echo $$ >up; [ -e well ] && exit; while :; do echo x >" + disk + "/f; done"
			g.SetConfig(Config{Config: hooks.Config{Commands: g.commands(commands), Timeout: patience, Grace: shortGrace}, Logger: g.hands.log})
			g.run()
			g.become(1)
			if hangs == hooks.LoseLeadership {
				g.wants(hooks.BecomeLeader, 1, true, true)
				g.lose(1)
			}
			g.UntilFile("up")
			pid := g.PID("up")
			freeze()
			g.Until("it to wait for its disk", func() bool { s, _ := run.ReadStat(pid); return s.State == 'D' })
			g.loseWithin(1, 6*time.Second) // of which what hangs has two after its KILL
			if hangs == hooks.BecomeLeader {
				g.wants(hooks.BecomeLeader, 1, false, true)
				g.wants(hooks.LoseLeadership, 1, true, true) // others lead by then
			} else {
				g.wants(hooks.LoseLeadership, 1, false, true)
				g.wants(hooks.LoseLeadership, 1, false, false) // it was asked for twice
			}
			g.become(2)
			if res := g.wants(hooks.BecomeLeader, 2, false, false); !strings.Contains(res.Err.Error(), "cannot be ended, it waits for its disk: nothing is started beside it") {
				t.Errorf("it says %v", res.Err)
			}
			g.lose(2)
			g.wants(hooks.LoseLeadership, 2, true, false) // the pair is dropped
			if hangs == hooks.LoseLeadership {
				redo := event(t, hooks.LoseLeadership, 1)
				redo.IsRedo = true
				g.Start(redo)
				g.wants(hooks.LoseLeadership, 1, false, false)
			}
			if err := exec.Command("touch", g.Path("well")).Run(); err != nil {
				t.Fatal(err)
			}
			thaw()
			g.Until("it to end", g.knowsThatItIsGone)
			g.become(3)
			g.wants(hooks.BecomeLeader, 3, true, true)
			g.lose(3)
			g.wants(hooks.LoseLeadership, 3, true, true)
			g.end()
		})
	}
}

// What /proc says of a process that waits for its disk may wait with it. All else goes on, and so do other looks.
func TestALookAtWhatHangsHoldsUpNobody(t *testing.T) {
	g := setUp(t, scripts{hooks.LoseLeadership: note}, Config{})
	stuck := func(kind hooks.Kind) hooks.Hanging { return hooks.Hanging{Entry: hooks.Entry{Hook: kind, Epoch: 7}} }
	g.hands.endLeft = func(context.Context, hooks.EndOrphans, hclog.Logger) []hooks.Hanging {
		return []hooks.Hanging{stuck(hooks.BecomeLeader), stuck(hooks.LoseLeadership)}
	}
	looks, over := make(chan struct{}), make(chan struct{})
	g.hands.isAlive = func(e hooks.Entry) bool {
		if e.Hook == hooks.BecomeLeader {
			close(looks)
			<-over
		}
		return false
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		g.step(hooks.Opened{})
		<-looks
		g.step(hooks.Tick{})
	}()
	if !run.Within(heard, patience) {
		t.Error("nothing is heard while a look hangs")
	} else {
		g.Until("what else has hung to be gone", g.knowsThatItIsGone)
	}
	close(over)
	g.await(func() bool { return g.gone == 2 })
}

// The keeper that has left it behind may be dead: the next one reads of it in the journal, and so does that one's next.
func TestWhatHangsIsKnownToTheNextLives(t *testing.T) {
	t.Parallel()
	needsMkfs(t)
	d := traces.New(t)
	disk, freeze, thaw := d.Frozen()
	left, cmd := orphan(t, "while :; do echo x >"+disk+"/f; done")
	t.Cleanup(thaw) // before its end is awaited, should this fail
	freeze()
	d.Until("it to wait for its disk", func() bool { s, _ := run.ReadStat(left.Group); return s.State == 'D' })
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // a zombie would be there for ever, as the dead agent's child is not
	g := crashed(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}, Config{Config: hooks.Config{Grace: shortGrace}}, left)
	dir := g.state()
	for life := range uint64(2) {
		if life > 0 {
			g = setUp(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}, Config{Config: hooks.Config{Grace: shortGrace}, Dir: dir})
		}
		g.run()
		g.become(8 + life)
		if res := g.wants(hooks.BecomeLeader, 8+life, false, false); !strings.Contains(res.Err.Error(), "cannot be ended, it waits for its disk: nothing is started beside it") {
			t.Errorf("life %d says %v", life, res.Err)
		}
		g.lose(8 + life)
		g.wants(hooks.LoseLeadership, 8+life, true, false)
		if life == 0 {
			g.end()
		}
	}
	thaw()
	<-ended
	g.Until("that to be known", g.knowsThatItIsGone)
	g.become(20)
	g.wants(hooks.BecomeLeader, 20, true, true)
	g.lose(20)
	g.wants(hooks.LoseLeadership, 20, true, true)
}
