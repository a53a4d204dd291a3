package agent

import (
	"crypto/sha256"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/key"
)

func sealKey(n byte) key.Key {
	k := key.Key{Secret: sha256.Sum256([]byte{n})}
	k.ID = key.IDOf(k.Secret)
	return k
}

// newSealedCluster has agents with one key.
func newSealedCluster(t *testing.T, n int) *cluster {
	c := newCluster(t, n)
	for _, h := range c.hosts {
		h.settings = func(cfg *Config) { cfg.Keys = key.Ring{sealKey(1)} }
	}
	return c
}

// The usual life of a cluster, sealed: the best leads, dies, is replaced, comes back,
// takes over, and hands over when it is stopped.
func TestSealedClusterElectsAndFailsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 3)
		low, mid, top := c.hosts[0], c.hosts[1], c.hosts[2]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		top.expectHooks(t, "become-leader 1 boot")
		time.Sleep(5 * time.Second)
		if s := low.agent.Status(); !strings.HasSuffix(s.Encryption, "(1 of 1), 3 of 3 hosts") {
			t.Errorf("encryption is %q", s.Encryption)
		}

		c.kill(top)
		c.agrees(mid)
		mid.expectHooks(t, "become-leader 2 process-gone")

		c.start(top)
		c.agrees(top)
		mid.expectHooks(t, "become-leader 2 process-gone", "lose-leadership 2 preempted")

		top.stop()
		if err := <-top.done; err != nil {
			t.Fatal(err)
		}
		top.agent = nil
		c.agrees(mid)
		low.expectHooks(t)
		c.stopAll()
	})
}

// Case 69: keys are replaced in three steps, one host after the other, and nobody loses
// the leadership or a member.
func TestRotationChangesNoLeaderCase69(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 3)
		top := c.hosts[2]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		time.Sleep(30 * time.Second)
		before, now := sealKey(1), sealKey(2)
		for _, ring := range []key.Ring{{before, now}, {now, before}, {now}} {
			for _, h := range c.hosts {
				h.agent.call(nil, func() { h.agent.takeKeys(keyring{ring: ring}) })
				time.Sleep(3 * time.Second)
			}
			time.Sleep(90 * time.Second)
		}
		c.agrees(top)
		top.expectHooks(t, "become-leader 1 boot")
		for _, h := range c.hosts {
			for _, e := range eventsOf(h) {
				if e.Type == "member" && e.Cause != "joined" {
					t.Errorf("%s saw %q", h.name, e.Text)
				}
			}
			for _, p := range h.agent.seal.Report().Peers {
				if len(p.InUse) != 1 || p.InUse[0] != now.ID || len(p.Keys) != 1 || p.Keys[0] != now.ID {
					t.Errorf("%s: with %s keys %v are in use, and it has %v", h.name, p.Addr, p.InUse, p.Keys)
				}
			}
		}
		c.stopAll()
	})
}

func eventsOf(h *testHost) []control.Event {
	events, _ := h.agent.Events(0)
	return events
}
