package keeper

import (
	"os"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

// How resources are is said when that changes, with a word for who waits for it, and before the agent hears what comes of it.
func TestResourcesAreSaid(t *testing.T) {
	r := newRig(t)
	s := r.config(scripts{hooks.LoseLeadership: note})
	line := "cd " + r.Dir.Name + "; while test ! -e down; do sleep 0.01; done; exit 3"
	s.Hooks.Resources = []hooks.Resource{{Name: "worker", Command: hooks.Command{Shell: line}, Timeout: patience, Grace: patience}}
	d := r.open(s)
	d.leads(7)
	if states := d.Resources(); len(states) != 1 || !states[0].Has || states[0].Why != "" {
		t.Errorf("resources %+v when the success is told", states)
	}
	select {
	case <-d.Checked():
	case <-time.After(patience):
		t.Error("nobody is woken")
	}
	if err := os.WriteFile(r.Path("down"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	failed := d.wants(hooks.BecomeLeader, 7, false)
	const why = "has failed: it ended 5 times within a minute: exit status 3"
	if failed.Resource != "worker" || failed.Err.Error() != "worker "+why {
		t.Fatalf("result %v", failed)
	}
	if states := d.Resources(); len(states) != 1 || states[0].Has || states[0].Why != why {
		t.Errorf("resources %+v when the failure is told", states)
	}
	d.lose(7)
	d.wants(hooks.LoseLeadership, 7, true)
	if states := d.Resources(); len(states) != 0 {
		t.Errorf("resources %+v when the end is told", states)
	}
}
