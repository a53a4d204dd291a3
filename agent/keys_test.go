package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/test/lantest"
	"github.com/bully-agent/bully-agent/internal/transport"
	"github.com/bully-agent/bully-agent/wire"
)

// fakeSeal is a LAN that says to seal, and of its peers what a test puts into it.
type fakeSeal struct {
	*lantest.Host
	mu    sync.Mutex
	rings []key.Ring // that it was given
	peers []fakePeer
}

type fakePeer struct {
	id        wire.ID
	has, uses []key.ID
}

func (s *fakeSeal) SetKeys(ring key.Ring) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rings = append(s.rings, ring)
}

func (s *fakeSeal) given() []key.Ring {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rings)
}

func (s *fakeSeal) say(peers ...fakePeer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = peers
}

func (s *fakeSeal) EachPeer(f func(id wire.ID, has, uses []key.ID)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.peers {
		f(p.id, p.has, p.uses)
	}
}

// sealed gives h a LAN that seals, with these keys.
func (c *cluster) sealed(h *testHost, ring key.Ring, reload func() (Reloaded, error)) *fakeSeal {
	seal := &fakeSeal{}
	h.settings = func(cfg *Config) {
		cfg.Keys, cfg.KeyFile = ring, "/etc/bully-agent/key"
		cfg.Listen = func() (transport.LAN, error) {
			h.port = c.lan.Host(h.name, h.addr)
			seal.Host = h.port
			return seal, nil
		}
		if reload != nil {
			cfg.Reload = func() (Reloaded, error) {
				r, err := reload()
				r.Seeds, r.Priority, r.LogLevel = cfg.Seeds, h.priority, hclog.Info
				return r, err
			}
		}
	}
	return seal
}

func testKey(n byte) key.Key {
	k := key.Key{Made: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)}
	for i := range k.Secret {
		k.Secret[i] = n
	}
	k.ID = key.IDOf(k.Secret)
	return k
}

// What protects the traffic is in status: nothing, nothing as somebody wished, or a key, and how many hosts have it.
func TestStatusSaysWhatProtectsTheTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		plain, insecure, top := c.hosts[0], c.hosts[1], c.hosts[2]
		insecure.settings = func(cfg *Config) { cfg.Insecure = true }
		a, b := testKey(1), testKey(2)
		seal := c.sealed(top, key.Ring{a, b}, nil)
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		wants := map[*testHost]string{plain: "none: traffic is neither encrypted nor authenticated", insecure: "none (--insecure)",
			top: "sealed, key " + a.ID.String() + " (1 of 2), 1 of 3 hosts"}
		for h, want := range wants {
			if got := h.agent.Status().Encryption; got != want {
				t.Errorf("%s says %q, want %q", h.name, got, want)
			}
		}
		seal.say(fakePeer{plain.agent.seat.state.ID, []key.ID{a.ID}, []key.ID{a.ID}}, fakePeer{insecure.agent.seat.state.ID, nil, nil})
		if got, want := top.agent.Status().Encryption, "sealed, key "+a.ID.String()+" (1 of 2), 2 of 3 hosts"; got != want {
			t.Errorf("with one peer: %q, want %q", got, want)
		}
		for _, m := range top.agent.Members() {
			if want := map[string]string{plain.name: b.ID.String()}[m.Name]; strings.Join(m.LacksKeys, " ") != want {
				t.Errorf("%s is said to lack %q, want %q", m.Name, m.LacksKeys, want)
			}
		}
		keys := top.agent.Keys()
		var said []string
		for _, h := range keys.Hosts {
			said = append(said, h.Name+": "+strings.Join(h.Keys, " ")+" / "+strings.Join(h.Uses, " "))
		}
		both := a.ID.String() + " " + b.ID.String()
		want := []string{"n3: " + both + " / ", "n1: " + a.ID.String() + " / " + a.ID.String(), "n2:  / "}
		if !slices.Equal(said, want) || strings.Join(keys.Keys, " ") != both || !keys.Sealed || keys.Insecure || keys.File != "/etc/bully-agent/key" {
			t.Errorf("keys: %q of %+v, want %q", said, keys, want)
		}
		if keys := insecure.agent.Keys(); keys.Sealed || !keys.Insecure || len(keys.Keys) > 0 {
			t.Errorf("insecure: %+v", keys)
		}
		c.stopAll()
	})
}

// Case 73: a reload takes up another ring; one whose file is bad changes nothing, and neither changes the leader.
func TestCase73ReloadOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		h := c.hosts[0]
		a, b := testKey(1), testKey(2)
		var next Reloaded
		var bad error
		seal := c.sealed(h, key.Ring{a}, func() (Reloaded, error) { return next, bad })
		c.start(h)
		c.agrees(h)
		shows := func(want ...key.ID) {
			t.Helper()
			if got := h.agent.Keys().Keys; !slices.Equal(got, hexIDs(want)) {
				t.Errorf("keys %q, want %q", got, hexIDs(want))
			}
		}

		next = Reloaded{Keys: key.Ring{a, b}, KeyFile: "/elsewhere/key"}
		if err := h.agent.Reload(context.Background()); err != nil {
			t.Fatal(err)
		}
		shows(a.ID, b.ID)
		if given := seal.given(); len(given) != 1 || !given[0].Equal(next.Keys) {
			t.Errorf("the LAN was given %v", given)
		}
		if file := h.agent.Keys().File; file != "/elsewhere/key" {
			t.Errorf("the file is %q", file)
		}

		bad = errors.New("/elsewhere/key:1: 31 bytes")
		err := h.agent.Reload(context.Background())
		var refused *control.APIError
		if !errors.As(err, &refused) || !errors.Is(err, control.ErrInvalid) || !strings.Contains(err.Error(), "31 bytes") {
			t.Errorf("a bad file: %v", err)
		}
		shows(a.ID, b.ID)

		bad = nil
		if err := h.agent.Reload(context.Background()); err != nil { // the same again
			t.Fatal(err)
		}
		next.Keys = nil
		if err := h.agent.Reload(context.Background()); err != nil {
			t.Fatal(err)
		}
		shows(a.ID, b.ID)
		if given := seal.given(); len(given) != 1 {
			t.Errorf("the LAN was given %v", given)
		}
		want := control.Waiting{Setting: "network.key", Now: a.ID.String() + " " + b.ID.String(), Then: "none"}
		if waiting := h.agent.Status().Waiting; !slices.Equal(waiting, []control.Waiting{want}) {
			t.Errorf("waiting %v, want %v", waiting, want)
		}
		h.expectHooks(t, "become-leader 1 boot")
		c.stopAll()
	})
}
