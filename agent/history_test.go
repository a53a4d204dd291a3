package agent

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/internal/control"
)

// A leader that was frozen was none after its lease: its row ends before the next
// leader's begins, on its own host and compared with the other's.
func TestAFrozenLeadersRowEndsWithItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		for _, h := range c.hosts {
			c.start(h)
		}
		mid, top := c.hosts[1], c.hosts[2]
		c.agrees(top)
		time.Sleep(5 * time.Second)
		frozen := time.Now()
		top.agent.call(nil, func() { time.Sleep(3 * time.Second) })
		c.agrees(top) // it takes over again
		own, others := top.agent.History(), mid.agent.History()
		if len(own) < 2 || len(others) != 3 {
			t.Fatalf("the frozen leader's history %+v, another's %+v", own, others)
		}
		if lasted := own[0].To.Sub(frozen); lasted <= 0 || lasted > time.Second {
			t.Errorf("the row ends %v after the freeze began: %+v", lasted, own[0])
		}
		if next := others[1]; next.Leader.Name != mid.name || own[0].To.After(next.From) || !own[0].Self {
			t.Errorf("rows overlap: %+v and %+v", own[0], next)
		}
		c.stopAll()
	})
}

// A row has the cause of its beginning and that of its end, each in its place.
func TestARowOfTheHistoryHasBothCauses(t *testing.T) {
	h, err := openHistory(t.TempDir(), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	row := func(id, began string) control.Leadership {
		return control.Leadership{Leader: control.Node{ID: id, Name: id}, From: start, Began: began}
	}
	h.record(row("a", "boot"), "boot", start)
	h.record(control.Leadership{Began: "leader-failed"}, "leader-failed", start.Add(time.Second))
	h.record(row("b", "claimed"), "claimed", start.Add(2*time.Second))
	all := h.all()
	if len(all) != 2 || all[0].Began != "boot" || all[0].Ended != "leader-failed" || !all[0].To.Equal(start.Add(time.Second)) ||
		all[1].Began != "claimed" || all[1].Ended != "" || !all[1].To.IsZero() {
		t.Errorf("%+v", all)
	}
	h.loseSight()
	h.record(row("c", "claimed"), "claimed", start.Add(time.Hour))
	if all := h.all(); all[1].Ended != "unclean-restart" || !all[1].To.IsZero() {
		t.Errorf("an end that nobody saw: %+v", all[1])
	}
}

// A leader that is heard of before it is known gets its name when it is.
func TestHistoryLearnsNames(t *testing.T) {
	h, err := openHistory(t.TempDir(), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	h.record(control.Leadership{Leader: control.Node{ID: "3ab0d4a0-18fa", Name: "3ab0d4a0"}, From: time.Now()}, "boot", time.Now())
	known := control.Node{ID: "3ab0d4a0-18fa", Name: "alpha", Addr: "10.0.0.1:7950"}
	h.name(control.Node{ID: "other", Name: "beta", Addr: "10.0.0.2:7950"})
	h.name(known)
	if got := h.all()[0].Leader; got != known {
		t.Errorf("the leader of the row is %+v", got)
	}
	h.name(control.Node{ID: known.ID, Name: "renamed", Addr: "10.0.0.9:7950"})
	if got := h.all()[0].Leader; got != known {
		t.Errorf("a row keeps the name of its time: %+v", got)
	}
}

// The disk is left to the hooks of a failover first; an orderly end writes at once.
func TestHistoryIsWrittenAWhileAfterAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := openHistory(t.TempDir(), hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); h.run(ctx) }()
		rows := func() int {
			again, err := openHistory(filepath.Dir(h.path), hclog.NewNullLogger())
			if err != nil {
				t.Fatal(err)
			}
			return len(again.all())
		}
		row := func(id string) control.Leadership {
			return control.Leadership{Leader: control.Node{ID: id, Name: id}, From: time.Now()}
		}
		h.record(row("a"), "", time.Now())
		synctest.Wait()
		if got := rows(); got != 0 {
			t.Errorf("%d rows on disk at once, expected none", got)
		}
		time.Sleep(historyDelay + time.Millisecond)
		synctest.Wait()
		if got := rows(); got != 1 {
			t.Errorf("%d rows on disk after %v, expected 1", got, historyDelay)
		}
		h.record(row("b"), "failed", time.Now())
		end()
		<-ended
		if got := rows(); got != 2 {
			t.Errorf("%d rows on disk at the end, expected 2", got)
		}
	})
}
