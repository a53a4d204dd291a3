package membership

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/sealed"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/internal/test/lantest"
	"github.com/bully-agent/bully-agent/wire"
)

// site is a LAN with agents on it, inside a synctest bubble.
type site struct {
	t   *testing.T
	lan *lantest.LAN
	log lockedLog

	receipts map[wire.ID][]session.Receipt // what the last life of each host has kept
	hostile  bool                          // others than our own memberlist send, and the filter has something to do
}

// newSite also lets everything end that is under way when the test has ended:
// then the bubble's clock stops, and memberlist's probes would wait for ever.
func newSite(t *testing.T) *site {
	t.Cleanup(func() { time.Sleep(2 * time.Minute) })
	return &site{t: t, lan: lantest.New(1), receipts: make(map[wire.ID][]session.Receipt)}
}

// agent is a Membership that runs, with everything that it ever told.
type agent struct {
	*Membership
	site *site
	name string
	host *lantest.Host
	seal *sealed.LAN
	stop context.CancelFunc

	rejoined chan error // what Rejoin ended with

	mu   sync.Mutex
	told []Event
}

// keys are the private keys of hosts by their ids: each has that of its name.
var (
	keysMu sync.Mutex
	keys   = make(map[wire.ID]identity.Private)
)

func idOf(name string) wire.ID {
	private := identity.FromBytes(sha256.Sum256([]byte(name)))
	id := private.Public().ID()
	keysMu.Lock()
	defer keysMu.Unlock()
	keys[id] = private
	return id
}

func keyOf(id wire.ID) identity.Private {
	keysMu.Lock()
	defer keysMu.Unlock()
	return keys[id]
}

// ring is the cluster's key.
var ring = func() key.Ring {
	k := key.Key{Secret: sha256.Sum256([]byte("the cluster's"))}
	k.ID = key.IDOf(k.Secret)
	return key.Ring{k}
}()

// open opens the sealed port of a life at a host, which nobody reads.
func (s *site) open(host *lantest.Host, self Member, cluster string) *sealed.LAN {
	s.t.Helper()
	life := [8]byte{7: 1}
	binary.BigEndian.PutUint32(life[:], self.Nonce)
	seal, err := sealed.Wrap(host, sealed.Config{Cluster: cluster, Key: keyOf(self.ID), Incarnation: self.Incarnation, Life: life, Keys: ring, Receipts: s.receipts[self.ID]})
	if err != nil {
		s.t.Fatal(err)
	}
	return seal
}

// port is a host that has the cluster's key and an id of its own, and no memberlist of ours.
func (s *site) port(name string) *sealed.LAN {
	seal := s.open(s.lan.Host(name, addrOf(name)), selfOf(name), "test")
	go readFrames(seal)
	s.t.Cleanup(func() { _ = seal.Shutdown() })
	return seal
}

// addrOf gives alpha 10.0.0.97, beta 10.0.0.98 and so on: by the first letter.
func addrOf(name string) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, name[0]}), defaultPort)
}

func selfOf(name string) Member {
	return Member{ID: idOf(name), Name: name, Incarnation: 1, Nonce: 0xcafe0001, Priority: 100}
}

// start runs an agent whose seeds are the hosts of the given names.
func (s *site) start(name string, seeds ...string) *agent {
	return s.startWith(name, func(cfg *Config) {
		for _, seed := range seeds {
			cfg.Seeds = append(cfg.Seeds, addrOf(seed).String())
		}
	})
}

func (s *site) startWith(name string, change func(*Config)) *agent {
	s.t.Helper()
	a := &agent{site: s, name: name, host: s.lan.Host(name, addrOf(name)), rejoined: make(chan error, 1)}
	cfg := Config{
		Self:    selfOf(name),
		Cluster: "test",
		Resolve: func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") },
		Seed:    7,
		Logger:  hclog.New(&hclog.LoggerOptions{Output: &s.log, Level: hclog.Trace, Name: name}),
	}
	change(&cfg)
	a.seal = s.open(a.host, cfg.Self, cfg.Cluster)
	cfg.Transport, cfg.Sessions = a.seal, a.seal
	m, err := New(cfg)
	if err != nil {
		s.t.Fatalf("start %s: %v", name, err)
	}
	a.Membership = m
	ctx, cancel := context.WithCancel(context.Background())
	a.stop = cancel
	go readFrames(a.seal)
	go func() { a.rejoined <- m.Rejoin(ctx) }()
	go a.listen(ctx)
	s.t.Cleanup(a.kill)
	return a
}

// readFrames drives the datagrams of a host, as the agent's receiver does.
func readFrames(h interface {
	ReadFrame([]byte) (int, netip.AddrPort, error)
}) {
	b := make([]byte, wire.MaxFrame)
	for {
		if _, _, err := h.ReadFrame(b); err != nil {
			return
		}
	}
}

func (a *agent) listen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.Wake():
			events := a.Events()
			a.mu.Lock()
			a.told = append(a.told, events...)
			a.mu.Unlock()
		}
	}
}

// kill is the death of the process: nothing is said to anybody.
func (a *agent) kill() {
	if kept := a.JoinState().Kept; len(kept) > 0 && !a.site.hostile {
		a.site.t.Errorf("%s: the filter refused %v of what our own memberlist sends", a.name, kept)
	}
	a.stop()
	a.site.receipts[a.self.ID], _ = a.seal.Receipts(0)
	_ = a.Shutdown()
}

// heard takes what the agent was told since the last call, as "kind name#life".
func (a *agent) heard() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var lines []string
	for _, e := range a.told {
		if e.Kind == JoinEnded {
			continue // it comes in its time; see TestTheFirstJoinHasAnOutcome
		}
		if e.Kind == LeaderReported {
			lines = append(lines, e.String())
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %s#%d", e.Kind, e.Member.Name, e.Member.Incarnation))
	}
	a.told = nil
	return lines
}

// hears checks that exactly these events were told, in any order.
func (a *agent) hears(want ...string) {
	a.site.t.Helper()
	got := a.heard()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		a.site.t.Errorf("%s was told %q; expected %q", a.name, got, want)
	}
}

// hearsInOrder is hears where the order matters.
func (a *agent) hearsInOrder(want ...string) {
	a.site.t.Helper()
	if got := a.heard(); !slices.Equal(got, want) {
		a.site.t.Errorf("%s was told %q; expected %q, in this order", a.name, got, want)
	}
}

// sees lists the names of the living others.
func (a *agent) sees() []string {
	var names []string
	for _, m := range a.Known() {
		if m.Status == Alive {
			names = append(names, m.Name)
		}
	}
	return names
}

// within waits, in fake time, until claim holds.
func (s *site) within(limit time.Duration, what string, claim func() bool) time.Duration {
	s.t.Helper()
	start := time.Now()
	for !claim() {
		if time.Since(start) > limit {
			s.t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return time.Since(start)
}

// allSee waits until each agent sees all the others.
func (s *site) allSee(limit time.Duration, agents ...*agent) time.Duration {
	s.t.Helper()
	return s.within(limit, "everybody sees everybody", func() bool {
		for _, a := range agents {
			if len(a.sees()) != len(agents)-1 {
				return false
			}
		}
		return true
	})
}

// lockedLog keeps what was logged.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines gives those that contain what.
func (l *lockedLog) lines(what string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for line := range strings.SplitSeq(l.text.String(), "\n") {
		if strings.Contains(line, what) {
			found = append(found, line)
		}
	}
	return found
}
