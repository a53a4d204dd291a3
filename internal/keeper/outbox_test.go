package keeper

import (
	"testing"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/resourcerun"
)

// An agent that reads nothing for a while hears what is so then, and not what was so every second.
func TestOldNewsIsReplaced(t *testing.T) {
	o := newOutbox()
	for i := range 3 {
		for _, name := range []string{"a", "b"} {
			o.add(report{Say: sayCheck, Check: &hooks.CheckReport{Name: name}, Read: uint64(i)})
		}
		o.add(report{Say: sayClients, Clients: make([]resourcerun.Client, i), Read: uint64(i)})
	}
	if len(o.waiting) != 3 {
		t.Fatalf("%d reports wait", len(o.waiting))
	}
	for _, r := range o.waiting {
		if r.Read != 2 || r.Say == sayClients && len(r.Clients) != 2 {
			t.Errorf("%+v waits", r)
		}
	}
}
