package agent

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/wire"
)

// poisoned is a ledger whose fence is so far ahead, as an older agent let a host that lies
// raise it.
func poisoned(t *testing.T, epoch uint64) []byte {
	t.Helper()
	s := jobs.NewScheduler(jobs.SchedulerConfig{Self: wire.ID{1}}, nil)
	for _, effect := range s.Step(wallClock(), jobs.Heard{From: wire.ID{2}, Known: epoch,
		Message: jobs.Message{Kind: wire.LedgerQuery, Epoch: epoch, Owner: wire.ID{2}}}) {
		if save, isSave := effect.(jobs.Save); isSave {
			return save.Bytes
		}
	}
	t.Fatal("nothing is saved")
	return nil
}

// Ledgers that were poisoned on all hosts are mended as the agents start, by
// themselves, and say so: jobs run.
func TestCase45_APoisonedLedgerIsMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.expecting(3)
		log := c.withJobs(100*time.Millisecond, someJob("tick", "@every 1s", nil))
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(c.hosts[2])
		time.Sleep(5 * time.Second)
		for _, h := range c.hosts {
			c.kill(h)
			if err := os.WriteFile(filepath.Join(h.dir, ledgerName), poisoned(t, 1<<40), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before := len(log.all())
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(c.hosts[2])
		time.Sleep(20 * time.Second)
		if n := len(log.all()) - before; n < 10 {
			t.Errorf("%d slots have started", n)
		}
		for _, h := range c.hosts {
			if !isNoted(h, "was mended as this agent started: the fence, epoch 1099511627776, is above all epochs") {
				t.Errorf("notes %q", h.agent.Status().Notes)
			}
		}
		c.kill(c.hosts[0])
		c.start(c.hosts[0])
		c.agrees(c.hosts[2])
		if isNoted(c.hosts[0], "was mended") {
			t.Error("it is mended again: the disk was not")
		}
		c.stopAll()
	})
}

// A host whose clock is off says so, and so do the others: nothing is lost silently.
func TestAClockThatIsOffIsNoted(t *testing.T) {
	name := func(wire.ID) string { return "beta" }
	var a apart
	now := wallClock()
	if got := a.note(now, name); got != "" {
		t.Errorf("of nobody: %q", got)
	}
	a.learn(jobs.Refused{From: wire.ID{2}, Why: "ledger"}, now)
	if got := a.note(now, name); got != "" {
		t.Errorf("of a damaged ledger: %q", got)
	}
	for _, why := range []string{"ahead", "claim-ahead"} {
		a.learn(jobs.Refused{From: wire.ID{2}, Why: why}, now)
		const want = "the clocks of this host and of beta differ by more than 1m0s: neither takes the other's statements " +
			"about jobs, and jobs may not run; correct the wrong clock (NTP)"
		if got := a.note(now.Add(apartFor), name); got != want {
			t.Errorf("%s: %q", why, got)
		}
		if got := a.note(now.Add(apartFor+1), name); got != "" {
			t.Errorf("%s, later: %q", why, got)
		}
	}
}
