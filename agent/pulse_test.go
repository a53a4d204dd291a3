package agent

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

// pulses writes down what a host's loop says of itself, and when.
type pulses struct {
	mu  sync.Mutex
	all []Pulse
	due []time.Time
}

const testPulse = 5 * time.Second

func (p *pulses) of(h *testHost) {
	h.settings = func(cfg *Config) {
		cfg.PulseEvery = testPulse
		cfg.Pulse = func(now Pulse) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.all = append(p.all, now)
			if now.IsDue {
				p.due = append(p.due, time.Now())
			}
		}
	}
}

// said gives the last pulse, and how many were due.
func (p *pulses) said() (last Pulse, due int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[len(p.all)-1], len(p.due)
}

// A pulse says who leads at once, comes in time from a loop that has nothing to do, and from one that stands still not at
// all: whoever waits for it finds out.
func TestPulseComesOfTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		var p pulses
		p.of(low)
		c.start(top)
		c.agrees(top)
		c.start(low)
		c.agrees(top)
		synctest.Wait()
		last, _ := p.said()
		if last.IsDue = false; last != (Pulse{Role: "follower", Leader: "n2", Epoch: 1, Alive: 2, Members: 2}) {
			t.Errorf("a follower says %+v", last)
		}
		_, before := p.said()
		time.Sleep(10 * testPulse)
		if _, now := p.said(); now-before < 9 { // the last may be due in this instant
			t.Errorf("%d pulses were due in %v, expected one each %v", now-before, 10*testPulse, testPulse)
		}

		freed := make(chan struct{})
		low.agent.calls <- func() { <-freed }
		_, before = p.said()
		time.Sleep(10 * testPulse)
		if _, now := p.said(); now != before {
			t.Errorf("a loop that stands still gave %d pulses", now-before)
		}
		close(freed)
		time.Sleep(testPulse)
		if _, now := p.said(); now == before {
			t.Error("a loop that goes on gives no pulse")
		}

		c.kill(top)
		c.agrees(low)
		time.Sleep(time.Minute) // until memberlist has given the other up
		if last, _ = p.said(); !last.Leads || last.Role != "leader" || last.Epoch < 2 || last.Alive != 1 {
			t.Errorf("a leader says %+v", last)
		}
		c.stopAll()
	})
}

// As long as the lose hook of a stop runs, each pulse says so: whoever waits for the end must wait on.
func TestPulseSaysThatALoseHookRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		only := c.hosts[0]
		var p pulses
		p.of(only)
		c.start(only)
		c.agrees(only)
		only.hooks.setLength(10 * testPulse)
		only.hooks.setRunning(hooks.LoseLeadership)
		_, before := p.said()
		if last, _ := p.said(); last.IsLosing || last.IsStopping {
			t.Errorf("before the stop it says %+v", last)
		}
		only.stop()
		time.Sleep(9 * testPulse)
		last, now := p.said()
		if !last.IsLosing || !last.IsStopping || now-before < 9 {
			t.Errorf("%d pulses in %v of a lose hook, the last %+v", now-before, 9*testPulse, last)
		}
		if err := <-only.done; err != nil {
			t.Error(err)
		}
		only.agent = nil
		c.stopAll()
	})
}
