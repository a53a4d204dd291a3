package agent

import (
	"crypto/rand"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/sealed"
	"github.com/bully-agent/bully-agent/internal/test/attack"
	"github.com/bully-agent/bully-agent/wire"
)

// insider is a host of the LAN that has the cluster's key and an id of its own, and wishes the others ill.
type insider struct {
	addr netip.AddrPort
	seal *sealed.LAN
	id   wire.ID
}

func newInsider(t *testing.T, c *cluster) *insider {
	private, err := identity.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &insider{addr: netip.MustParseAddrPort("10.0.0.66:7950"), id: private.Public().ID()}
	i.seal, err = sealed.Wrap(c.lan.Host("insider", i.addr), sealed.Config{Cluster: "test", Key: private, Incarnation: 1, Life: [8]byte{6, 6, 6},
		Keys: key.Ring{sealKey(1)}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for b := make([]byte, wire.MaxFrame+1); ; {
			if _, _, err := i.seal.ReadFrame(b); err != nil {
				return
			}
		}
	}()
	return i
}

// tells says gossip in the insider's own sessions.
func (i *insider) tells(to netip.AddrPort, messages ...[]byte) {
	_, _ = i.seal.WriteToAddress(attack.Gossip{Cluster: "test"}.Datagram(messages...), memberlist.Address{Addr: to.String()})
}

// asTold is what gossip says of a host that runs.
func asTold(h *testHost) (l attack.Life) {
	h.agent.call(nil, func() {
		m := h.agent.view.self
		l = attack.Life{ID: m.ID, Incarnation: m.Incarnation, Nonce: m.Nonce, Addr: m.Addr, Gossip: 1000}
	})
	return l
}

// hearsay is what the insider says of the leader, each time something else.
var hearsay = map[string]func(i *insider, of attack.Life, n uint32) []byte{
	"the highest life at its address": func(_ *insider, of attack.Life, _ uint32) []byte {
		of.Incarnation, of.Nonce = 1<<32-1, 0x5ec5ec01
		return of.Alive()
	},
	"the next life at its address": func(_ *insider, of attack.Life, n uint32) []byte {
		of.Incarnation, of.Nonce = of.Incarnation+1, 0x5ec5ec00+n
		return of.Alive()
	},
	"the next life at the insider's address": func(i *insider, of attack.Life, n uint32) []byte {
		of.Incarnation, of.Nonce, of.Addr = of.Incarnation+1, 0x5ec5ec00+n, i.addr
		return of.Alive()
	},
	"another number of its life": func(_ *insider, of attack.Life, n uint32) []byte {
		of.Incarnation, of.Gossip = 1<<32-1, of.Gossip+n
		return of.Alive()
	},
	"another address of its life": func(i *insider, of attack.Life, n uint32) []byte {
		of.Addr, of.Gossip = i.addr, of.Gossip+n
		return of.Alive()
	},
	"that it leaves": func(_ *insider, of attack.Life, n uint32) []byte {
		of.Gossip += n
		return attack.Compound(of.Alive(), of.Dead()) // a death in its own name
	},
	"that it is dead": func(_ *insider, of attack.Life, n uint32) []byte {
		of.Gossip += n
		return of.Dead()
	},
	"that it is suspect": func(_ *insider, of attack.Life, n uint32) []byte {
		of.Gossip += n
		return of.Suspect()
	},
}

// A holder of the cluster's key, with an id of its own, says by gossip of the leader what is false, a hundred times a second.
// Nobody leads or follows anybody else for that. The leader is killed meanwhile and comes back, and nobody is locked out.
func TestAnInsidersHearsayChangesNothing(t *testing.T) {
	modes, lasts := []string{"available", "quorum"}, 4*time.Second
	switch {
	case os.Getenv("BULLY_SIM") == "long":
		lasts = 15 * time.Second
	case testing.Short():
		modes = modes[1:]
	}
	for _, mode := range modes {
		for what, say := range hearsay {
			t.Run(mode+"/"+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newSealedCluster(t, 3)
					if mode == "quorum" {
						for _, h := range c.hosts {
							h.also(func(cfg *Config) { cfg.Election.Expect = 3 })
						}
					}
					low, mid, top := c.hosts[0], c.hosts[1], c.hosts[2]
					for _, h := range c.hosts {
						c.start(h)
					}
					c.agrees(top)
					time.Sleep(5 * time.Second)
					i := newInsider(t, c)
					of, victim, end := asTold(top), top.addr, make(chan struct{})
					var ended = make(chan struct{})
					go func() {
						defer close(ended)
						for n := uint32(0); ; n++ {
							select {
							case <-end:
								return
							case <-time.After(10 * time.Millisecond):
							}
							for _, h := range c.hosts {
								if h.addr != victim {
									i.tells(h.addr, say(i, of, n))
								}
							}
						}
					}()
					began := time.Now()
					for time.Since(began) < lasts && !t.Failed() {
						time.Sleep(50 * time.Millisecond)
						for _, h := range c.hosts {
							if s := h.agent.Status(); s.Leader == nil || s.Leader.Name != top.name || s.Alive != 3 {
								t.Errorf("after %v %s follows %+v, and %d are alive: %+v", time.Since(began), h.name, s.Leader, s.Alive, h.agent.Members())
							}
						}
					}
					top.expectHooks(t, "become-leader 1 boot")
					low.expectHooks(t)
					mid.expectHooks(t)
					if !t.Failed() {
						c.kill(top)
						c.agrees(mid)
						c.start(top)
						c.agrees(top)
					}
					close(end)
					<-ended
					_ = i.seal.Shutdown()
					c.stopAll()
				})
			})
		}
	}
}

// A member that is made up ends nobody who starts, and is nobody: what it is, gossip does not say.
func TestAnInsidersInventionEndsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 3)
		for _, h := range c.hosts[:2] {
			c.start(h)
		}
		c.agrees(c.hosts[1])
		i := newInsider(t, c)
		odd := asTold(c.hosts[1])
		odd.ID, odd.Nonce, odd.Addr = wire.ID{0: 0xdd, 6: 0x40, 8: 0x80}, 5, i.addr
		for n := range uint32(20) {
			odd.Gossip = n + 1
			i.tells(c.hosts[0].addr, odd.Alive())
			time.Sleep(50 * time.Millisecond)
		}
		c.start(c.hosts[2])
		c.agrees(c.hosts[2])
		_ = i.seal.Shutdown()
		c.stopAll()
	})
}
