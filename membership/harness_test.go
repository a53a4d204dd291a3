package membership

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
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
	"github.com/bully-agent/bully-agent/internal/test/lantest"
	"github.com/bully-agent/bully-agent/wire"
)

// site is a LAN with agents on it, inside a synctest bubble.
type site struct {
	t   *testing.T
	lan *lantest.LAN
	log lockedLog

	mu   sync.Mutex
	runs map[string]Member // by nodeName: the lives that run, each at its address

	hostile bool // others than our own memberlist send, and the filter has something to do
}

// newSite also lets everything end that is under way when the test has ended:
// then the bubble's clock stops, and memberlist's probes would wait for ever.
func newSite(t *testing.T) *site {
	t.Cleanup(func() { time.Sleep(2 * time.Minute) })
	return &site{t: t, lan: lantest.New(1), runs: make(map[string]Member)}
}

// Heard implements Sessions: each life that runs has a session with each other. Whether it is reached now an answer to a
// ping shows, which only it gives here.
func (s *site) Heard(id wire.ID, nonce uint32) (incarnation uint32, addr netip.AddrPort, at time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.runs[nodeName(id, nonce)]
	return m.Incarnation, m.Addr, time.Now(), ok
}

// plug is the sealed port of a host on the site's LAN.
func (s *site) plug(name string, addr netip.AddrPort) *sealed.LAN {
	s.t.Helper()
	return plug(s.t, s.lan, name, addr)
}

// plug is the sealed port of a host: a new life, under the key that everybody has.
func plug(t *testing.T, lan *lantest.LAN, name string, addr netip.AddrPort) *sealed.LAN {
	t.Helper()
	var life [8]byte
	_, _ = rand.Read(life[:])
	port, err := sealed.Wrap(lan.Host(name, addr), sealed.Config{Cluster: "test", Key: identity.FromBytes(sha256.Sum256([]byte(name))), Life: life, Keys: key.Open()})
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// warm has a port begin sessions with all lives that run, as an agent does that starts.
func (s *site) warm(port *sealed.LAN) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []netip.AddrPort
	for _, m := range s.runs {
		all = append(all, m.Addr)
	}
	port.KeepWarm(all)
}

func (s *site) begins(m Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[nodeName(m.ID, m.Nonce)] = m
}

func (s *site) ends(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, node)
}

// agent is a Membership that runs, with everything that it ever told.
type agent struct {
	*Membership
	site *site
	name string
	host *sealed.LAN
	stop context.CancelFunc

	rejoined chan error // what Rejoin ended with

	mu   sync.Mutex
	told []Event
}

func idOf(name string) wire.ID {
	id := wire.ID{15: 1}
	copy(id[:8], name)
	return id
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
	a := &agent{site: s, name: name, host: s.plug(name, addrOf(name)), rejoined: make(chan error, 1)}
	cfg := Config{
		Self:      selfOf(name),
		Cluster:   "test",
		Transport: a.host,
		Sessions:  s,
		Resolve:   func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") },
		Seed:      7,
		Logger:    hclog.New(&hclog.LoggerOptions{Output: &s.log, Level: hclog.Trace, Name: name}),
	}
	change(&cfg)
	m, err := New(cfg)
	if err != nil {
		s.t.Fatalf("start %s: %v", name, err)
	}
	a.Membership = m
	s.begins(m.self)
	ctx, cancel := context.WithCancel(context.Background())
	a.stop = cancel
	go readFrames(a.host)
	s.warm(a.host)
	go func() { a.rejoined <- m.Rejoin(ctx) }()
	go a.listen(ctx)
	s.t.Cleanup(a.kill)
	return a
}

// readFrames drives the datagrams of a host, as the agent's receiver does.
func readFrames(h *sealed.LAN) {
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
	_ = a.Shutdown()
	a.site.ends(a.Membership.name)
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
