package agent

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/test/lantest"
	"github.com/bully-agent/bully-agent/internal/transport"
)

// slowToConnect is a port whose streams take so long to be made.
type slowToConnect struct {
	*lantest.Host
	by time.Duration
}

func (s slowToConnect) Dial(to netip.AddrPort, timeout time.Duration) (net.Conn, error) {
	time.Sleep(min(s.by, timeout))
	return s.Host.Dial(to, max(timeout-s.by, 0))
}

// connectsIn has the streams of h be made after so long.
func (h *testHost) connectsIn(by time.Duration) {
	h.settings = func(cfg *Config) {
		listen := cfg.Listen
		cfg.Listen = func() (transport.LAN, error) {
			_, err := listen()
			return slowToConnect{h.port, by}, err
		}
	}
}

// A host that starts and waits for the answer of its first seed does not lead meanwhile: there may be a leader.
func TestAStartWaitsForTheFirstJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		late, top := c.hosts[0], c.hosts[2]
		c.start(c.hosts[1])
		c.start(top)
		c.agrees(top)
		time.Sleep(5 * time.Minute) // they look for it every few seconds only
		late.connectsIn(2500 * time.Millisecond)
		c.start(late)
		c.agrees(top)
		time.Sleep(time.Minute)
		late.expectHooks(t)
		top.expectHooks(t, "become-leader 1 boot")
		c.stopAll()
	})
}

// Three copies of one state directory start at once, and one of them is slow to reach the others: at most one leads.
func TestCopiesThatStartAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		first, slow := c.hosts[0], c.hosts[1]
		c.start(first)
		c.agrees(first)
		first.stop()
		<-first.done
		first.agent = nil
		first.hooks = newFakeHooks()
		for _, h := range c.hosts[1:] {
			copyState(t, first.dir, h.dir)
		}
		slow.connectsIn(2500 * time.Millisecond)
		for _, h := range c.hosts {
			c.start(h)
		}
		time.Sleep(40 * time.Second)
		var leaderships []string
		for _, h := range c.hosts {
			for _, line := range h.hooks.ran() {
				leaderships = append(leaderships, h.name+" "+line)
			}
		}
		if len(leaderships) != 1 || !strings.Contains(leaderships[0], "become-leader") {
			t.Errorf("hooks ran %q; expected that one host became leader", leaderships)
		}
		for _, h := range c.hosts {
			select {
			case <-h.done:
				h.agent = nil // it ended since it is a copy
			default:
			}
		}
		c.stopAll()
	})
}

// A seed that does not answer delays the first leadership of a lone host until the attempt at it has ended, and one that
// refuses does not delay it.
func TestALoneStartIsDelayedByOneAttemptAtMost(t *testing.T) {
	for name, want := range map[string]time.Duration{"silent": 3 * time.Second, "nothing there": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 2)
				h := c.hosts[0]
				if name == "silent" {
					c.lan.Host("n2", c.hosts[1].addr) // takes streams and answers nothing
				}
				began := time.Now()
				c.start(h)
				c.agrees(h)
				if took := time.Since(began); took < want || took > want+100*time.Millisecond {
					t.Errorf("it leads after %v, want %v", took, want)
				}
				if !slices.Equal(h.hooks.ran(), []string{"become-leader 1 boot"}) {
					t.Errorf("it ran %q", h.hooks.ran())
				}
				c.stopAll()
			})
		})
	}
}
