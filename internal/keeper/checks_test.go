package keeper

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
)

func (r *rig) checked(line string) Settings {
	s := r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note})
	s.Checks = []hooks.Check{{Name: "web", Command: hooks.Command{Shell: "cd " + r.Dir.Name + "; " + line}, Interval: 20 * time.Millisecond,
		Timeout: patience, Rise: 1, Fall: 1}}
	return s
}

// says waits for the word that the check is in this state.
func (d *desk) says(state hooks.CheckState) {
	d.t.Helper()
	d.Until("the word that the check "+state.String(), func() bool {
		for _, r := range d.Checks() {
			if r.Name == "web" && r.State == state {
				return true
			}
		}
		return false
	})
}

// A keeper runs checks from its start on, says what changes, and takes others with a reload.
func TestChecks(t *testing.T) {
	r := newRig(t)
	d := r.open(r.checked("test ! -e down"))
	d.says(hooks.CheckPasses)
	if err := os.WriteFile(r.Path("down"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.says(hooks.CheckFails)
	d.reload(r.checked("exit 0"))
	d.says(hooks.CheckPasses)
}

// The keeper is killed: the next one says what it finds.
func TestChecksOfTheNextKeeper(t *testing.T) {
	r := newRig(t)
	d := r.open(r.checked("exit 0"))
	d.says(hooks.CheckPasses)
	r.kill(d.Status().Process, unix.SIGKILL)
	d.says(hooks.CheckPasses)
}

// A check that hangs keeps no hook from running, and dies with the agent, with all that it
// has started.
func TestACheckDiesWithTheAgent(t *testing.T) {
	r := newRig(t)
	a := r.agent(agentOrder{Lease: patience}, r.checked("sleep 1000 & echo $! >child; echo $$ >pid; wait"))
	a.says()
	r.UntilFile("pid")
	a.signal(unix.SIGKILL)
	r.untilQuiet()
	r.noneLives()
	r.ordered("become-leader:test:7 lose-leadership:agent-died:7")
	if child := strings.TrimSpace(r.Text("child")); child == "" {
		t.Error("the check had no child")
	}
}

// A check may pass before the client has taken the keeper that runs it. It is said once.
func TestACheckIsHeardOfAtOnce(t *testing.T) {
	r := newRig(t)
	d := r.desk(r.checked("exit 0"))
	d.hear(&process{}, report{Say: sayCheck, Check: &hooks.CheckReport{Name: "web", State: hooks.CheckPasses}})
	d.says(hooks.CheckPasses)
}

// A keeper says that a check fails, and dies; the next one knows nothing yet before the agent has asked for the word.
func TestAnotherKeeperTakesNoVerdictBack(t *testing.T) {
	r := newRig(t)
	d := r.desk(r.checked("exit 1"))
	for _, state := range []hooks.CheckState{hooks.CheckPending, hooks.CheckFails, hooks.CheckPending} {
		d.hear(&process{}, report{Say: sayCheck, Check: &hooks.CheckReport{Name: "web", State: state}})
	}
	d.says(hooks.CheckFails)
}
