package lab

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// The history of a lab has the whole of a failover between two leaderships: from the fault, and not from when it was noticed.
func TestABoardEndsALeadershipWithItsFault(t *testing.T) {
	at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	l := &lab{journal: newJournal(nil)}
	l.journal.records = []verdict.Record{
		{At: at(0), Node: "n3", What: verdict.Became, Epoch: verdict.Epoch{Counter: 1, Owner: "3"}, Cause: "boot"},
		{At: at(100), Node: "n3", What: verdict.Paused}, {At: at(200), Node: "n3", What: verdict.Continued}, // it came through
		{At: at(1000), Node: "n3", What: verdict.Cut},
		{At: at(1390), Node: "n3", What: verdict.Losing, Epoch: verdict.Epoch{Counter: 1}, Cause: "lease-expired"},
		{At: at(1400), Node: "n2", What: verdict.Became, Epoch: verdict.Epoch{Counter: 2, Owner: "2"}},
		{At: at(2000), Node: "n2", What: verdict.Losing, Epoch: verdict.Epoch{Counter: 2}, Cause: "preempted"},
		{At: at(2004), Node: "n1", What: verdict.Became, Epoch: verdict.Epoch{Counter: 3, Owner: "1"}},
		{At: at(3000), Node: "n1", What: verdict.Killed},
		{At: at(3020), Node: "n2", What: verdict.Became, Epoch: verdict.Epoch{Counter: 4, Owner: "2"}},
	}
	history := newBoard(l).History()
	want := []struct {
		leader, ended string
		gap           int
	}{{"n3", "cut", 400}, {"n2", "preempted", 4}, {"n1", "kill", 20}, {"n2", "", -1}}
	if len(history) != len(want) {
		t.Fatalf("%d leaderships: expected %d: %+v", len(history), len(want), history)
	}
	for i, w := range want {
		h := history[i]
		if h.Leader.Name != w.leader || h.Ended != w.ended {
			t.Errorf("leadership %d: %s, %q: expected %s, %q", i, h.Leader.Name, h.Ended, w.leader, w.ended)
		}
		if w.gap >= 0 && history[i+1].From.Sub(h.To) != at(w.gap) {
			t.Errorf("after leadership %d: %v without a leader, expected %d ms", i, history[i+1].From.Sub(h.To), w.gap)
		}
	}
}
