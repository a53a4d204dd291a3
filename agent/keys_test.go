package agent

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/sealed"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/wire"
)

// fakeSeal says of peers what a test puts into it.
type fakeSeal struct {
	mu    sync.Mutex
	rings []key.Ring // that it was given
	peers []fakePeer
	isNew bool // everybody is
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

func (f *fakeSeal) Renew(uint32, [8]byte, netip.AddrPort) {}
func (s *fakeSeal) Report() (r sealed.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.peers {
		r.Peers = append(r.Peers, session.Peer{ID: p.id, Keys: p.has, InUse: p.uses})
	}
	return r
}

func (s *fakeSeal) Heard(wire.ID, uint32) (uint32, netip.AddrPort, time.Duration, bool) {
	return 0, netip.AddrPort{}, 0, false
}
func (s *fakeSeal) SetCard([]byte)            {}
func (s *fakeSeal) HasSaid() bool             { return true }
func (s *fakeSeal) Watch(func(session.Shown)) {}
func (s *fakeSeal) ShowAgain(wire.ID)         {}
func (s *fakeSeal) Ask(netip.AddrPort)        {}
func (s *fakeSeal) KeepWarm([]netip.AddrPort) {}
func (s *fakeSeal) IsKnown(wire.ID) bool      { return !s.isNew }
func (s *fakeSeal) SetRoster([]wire.ID)       {}
func (s *fakeSeal) Receipts(since uint64) ([]session.Receipt, uint64) {
	return nil, since
}
func (s *fakeSeal) WatchShut(func()) {}
func (s *fakeSeal) IsShut() bool     { return false }
func (s *fakeSeal) SetHosts(identity.Hosts, wire.ID, time.Duration, bool) []session.Sender {
	return nil
}

// sealed has h's agent think that its port is sealed, with these keys.
func (h *testHost) sealed(ring key.Ring) *fakeSeal {
	seal := &fakeSeal{}
	h.agent.seal = seal
	h.agent.keys.Store(&keyring{file: "/etc/bully-agent/key", ring: ring})
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

// What protects the traffic is in status: nothing, or nothing as somebody wished. Where it is sealed it is known which
// host has which keys.
func TestStatusSaysWhatProtectsTheTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		plain, insecure, top := c.hosts[0], c.hosts[1], c.hosts[2]
		insecure.settings = func(cfg *Config) { cfg.Insecure = true }
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		for h, want := range map[*testHost]string{plain: "none: each host that reaches the port can join", insecure: "none (--insecure)"} {
			if got := h.agent.Status().Encryption; got != want {
				t.Errorf("%s says %q, want %q", h.name, got, want)
			}
		}
		a, b := testKey(1), testKey(2)
		seal := top.sealed(key.Ring{a, b})
		seal.say(fakePeer{plain.agent.seat.state.ID, []key.ID{a.ID}, []key.ID{a.ID}}, fakePeer{insecure.agent.seat.state.ID, nil, nil})
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
		h.settings = func(cfg *Config) {
			cfg.Reload = func() (Reloaded, error) {
				next.Seeds, next.Priority, next.LogLevel = cfg.Seeds, h.priority, hclog.Info
				return next, bad
			}
		}
		c.start(h)
		c.agrees(h)
		seal := h.sealed(key.Ring{a})
		shows := func(want ...key.ID) {
			t.Helper()
			if got := h.agent.Keys().Keys; !slices.Equal(got, hexIDs(want)) {
				t.Errorf("keys %q, want %q", got, hexIDs(want))
			}
		}

		next = Reloaded{Keys: key.Ring{a, b}, KeyFile: "/elsewhere/key"}
		if err := h.agent.Reload(context.Background(), false); err != nil {
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
		err := h.agent.Reload(context.Background(), false)
		var refused *control.APIError
		if !errors.As(err, &refused) || !errors.Is(err, control.ErrInvalid) || !strings.Contains(err.Error(), "31 bytes") {
			t.Errorf("a bad file: %v", err)
		}
		shows(a.ID, b.ID)

		bad = nil
		if err := h.agent.Reload(context.Background(), false); err != nil { // the same again
			t.Fatal(err)
		}
		next.Keys = nil
		if err := h.agent.Reload(context.Background(), false); err != nil {
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
