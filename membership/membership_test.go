package membership

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/internal/test/lantest"
	"github.com/bully-agent/bully-agent/wire"
)

func TestMembersJoinChangeLeaveAndDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha := s.start("alpha")
		beta := s.start("beta", "alpha")
		gamma := s.start("gamma", "alpha")
		s.allSee(10*time.Second, alpha, beta, gamma)
		alpha.hears("joined beta#1", "joined gamma#1")
		beta.hears("joined alpha#1", "joined gamma#1")
		gamma.hears("joined alpha#1", "joined beta#1")

		beta.SetSelf(200, Witness, true, false)
		time.Sleep(3 * time.Second)
		alpha.hears("updated beta#1")
		gamma.hears("updated beta#1")
		got := alpha.Known()[0]
		if got.Priority != 200 || got.Role != Witness || !got.Draining || got.Addr != addrOf("beta") {
			t.Errorf("alpha knows %+v; expected beta's new priority, role and draining", got)
		}

		if err := beta.Leave(5 * time.Second); err != nil {
			t.Errorf("beta: %v", err)
		}
		beta.kill()
		time.Sleep(time.Minute)
		gone := func(lines []string) []string {
			return slices.DeleteFunc(lines, func(l string) bool { return l == "updated beta#1" }) // it is leaving
		}
		for _, a := range []*agent{alpha, gamma} {
			if got := gone(a.heard()); !slices.Equal(got, []string{"left beta#1"}) {
				t.Errorf("%s was told %q; expected that beta left, once", a.name, got)
			}
		}

		gamma.kill()
		time.Sleep(time.Minute)
		alpha.hears("failed gamma#1")
		if known := alpha.Known(); known[0].Status != Left || known[1].Status != Dead {
			t.Errorf("alpha knows %v; expected beta left and gamma dead", known)
		}
		if n := alpha.JoinState().Lost; n != 1 {
			t.Errorf("alpha looks for %d addresses; expected gamma's only", n)
		}
	})
}

// TestLeaveFrame: memberlist cannot tell a departure from a death (P3); the
// LEAVE frame is the first to say so, and the death that follows is no news.
func TestLeaveFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, beta := s.start("alpha"), s.start("beta", "alpha")
		s.allSee(10*time.Second, alpha, beta)
		alpha.hears("joined beta#1")

		alpha.MarkLeft(idOf("beta"), beta.self.Nonce+1) // of another life: nothing
		alpha.MarkLeft(idOf("beta"), beta.self.Nonce)
		synctest.Wait()
		alpha.hears("left beta#1")
		beta.kill()
		time.Sleep(time.Minute)
		alpha.hears()
	})
}

// TestForgedLeaveFrame: a member that goes on speaking in its session has not left.
func TestForgedLeaveFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, beta := s.start("alpha"), s.start("beta", "alpha")
		s.allSee(10*time.Second, alpha, beta)
		alpha.heard()
		alpha.MarkLeft(idOf("beta"), beta.self.Nonce)
		time.Sleep(leaveGrace + 5*time.Second)
		alpha.hearsInOrder("left beta#1", "joined beta#1")
	})
}

// TestRestartFasterThanDetection is P9 and CE4: memberlist itself would report
// nothing, and a leader that forgot that it led would go unnoticed.
func TestRestartFasterThanDetection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, beta := s.start("alpha"), s.start("beta", "alpha")
		s.allSee(10*time.Second, alpha, beta)
		alpha.heard()

		beta.kill()
		s.startWith("beta", func(cfg *Config) {
			cfg.Self.Incarnation, cfg.Self.Nonce = 2, 0xcafe0002
			cfg.Seeds = []string{addrOf("alpha").String()}
		})
		time.Sleep(time.Second)
		alpha.hearsInOrder("failed beta#1", "joined beta#2")
		time.Sleep(time.Minute) // memberlist finds the old life dead
		alpha.hears()
	})
}

// TestPartitionHeals is P8: after half a minute memberlist
// never speaks to a lost member again.
func TestPartitionHeals(t *testing.T) {
	for _, cut := range []time.Duration{20 * time.Second, time.Minute, 5 * time.Minute} {
		t.Run(cut.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t)
				alpha, beta := s.start("alpha"), s.start("beta", "alpha")
				gamma, delta := s.start("gamma", "alpha"), s.start("delta", "gamma")
				agents := []*agent{alpha, beta, gamma, delta}
				s.allSee(15*time.Second, agents...)
				for _, a := range agents {
					a.SetSeeds(nil) // what was known must do
				}
				s.lan.Partition([]string{"alpha", "beta"}, []string{"gamma", "delta"})
				time.Sleep(cut)
				if got := alpha.sees(); !slices.Equal(got, []string{"beta"}) {
					t.Fatalf("alpha sees %q; expected beta only", got)
				}
				alpha.heard()
				s.lan.Heal()
				s.allSee(30*time.Second, agents...)
				synctest.Wait()
				alpha.hears("joined gamma#1", "joined delta#1")
			})
		})
	}
}

// TestNudge: when its own link comes back an agent does not wait.
func TestNudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, beta := s.start("alpha"), s.start("beta", "alpha")
		s.allSee(10*time.Second, alpha, beta)
		s.lan.Isolate("alpha")
		time.Sleep(5 * time.Minute)
		s.lan.Heal()
		time.Sleep(2 * time.Second) // attempts that began before have ended
		alpha.Nudge()
		took := s.within(6*time.Second, "alpha sees beta", func() bool { return len(alpha.sees()) == 1 })
		t.Logf("healed %s after the link came back", took)
	})
}

// TestOnlyTCPPasses is P19: a member whom no election frame
// reaches is dead, and stays so although TCP would bring it back every time.
func TestOnlyTCPPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, beta := s.start("alpha"), s.start("beta", "alpha")
		s.allSee(10*time.Second, alpha, beta)
		alpha.heard()
		s.lan.CutUDP("alpha", "beta")
		s.lan.CutUDP("beta", "alpha")
		time.Sleep(5 * time.Minute)
		alpha.hears("failed beta#1")
		if got := alpha.JoinState().LastError; !strings.Contains(got, "no answer by UDP") {
			t.Errorf("alpha's last error is %q; expected that it names UDP", got)
		}
		s.lan.Heal()
		s.allSee(30*time.Second, alpha, beta)
	})
}

// TestSeedResolvesLater: no error of a name server ends the search.
func TestSeedResolvesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.start("alpha")
		ready := time.Now().Add(150 * time.Second)
		beta := s.startWith("beta", func(cfg *Config) {
			cfg.Seeds = []string{"alpha.lan"}
			cfg.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
				if time.Now().Before(ready) {
					return nil, &net.DNSError{Err: "no such host", Name: host}
				}
				return []netip.Addr{addrOf("alpha").Addr()}, nil
			}
		})
		time.Sleep(149 * time.Second)
		beta.hears()
		if n := len(s.log.lines("seed not resolved")); n < 2 || n > 3 {
			t.Errorf("%d lines in two and a half minutes; expected one a minute", n)
		}
		if got := beta.JoinState(); len(got.Failing) != 1 || !strings.Contains(got.Failing[0].Err, "look up alpha.lan: ") || !got.LastSuccess.IsZero() {
			t.Errorf("join state is %+v; expected an error that names the seed", got)
		}
		s.within(30*time.Second, "beta sees alpha", func() bool { return len(beta.sees()) == 1 })
		if beta.JoinState().LastSuccess.IsZero() || len(s.log.lines("[INFO]  beta: joined")) != 1 {
			t.Errorf("the success was not told")
		}
	})
}

// TestHungNameServer: one seed's name server does not delay the other seed.
func TestHungNameServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.start("alpha")
		beta := s.startWith("beta", func(cfg *Config) {
			cfg.Seeds = []string{"hangs.lan", addrOf("alpha").String()}
			cfg.Resolve = func(ctx context.Context, _ string) ([]netip.Addr, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		s.within(time.Second, "beta sees alpha", func() bool { return len(beta.sees()) == 1 })
	})
}

// TestOtherCluster is P15: what has another cluster's label is not read.
func TestOtherCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.hostile = true
		alpha := s.start("alpha")
		beta := s.startWith("beta", func(cfg *Config) {
			cfg.Cluster = "other"
			cfg.Seeds = []string{addrOf("alpha").String()}
		})
		time.Sleep(2 * time.Minute)
		alpha.hears()
		beta.hears()
		if got := beta.JoinState().LastError; !strings.Contains(got, "another cluster") {
			t.Errorf("beta's last error is %q; expected that it names the cause", got)
		}
		if n := len(s.log.lines("join failed")); n < 2 || n > 3 {
			t.Errorf("%d lines in two minutes; expected one a minute", n)
		}
	})
}

// Who shows a card that nobody may show is no member, whatever its memberlist says.
func TestStrangersAreNotAdmitted(t *testing.T) {
	good := selfOf("stranger")
	good.WireMin, good.WireMax = wire.Major, wire.Major
	card := func(change func(*Member)) []byte {
		m := good
		change(&m)
		return appendCard(nil, m)
	}
	for _, c := range []struct {
		what, cause string
		card        []byte
	}{
		{"nothing on it", "card", nil},
		{"399 bytes of nothing", "card", make([]byte, 399)},
		{"case 47: a label with a line in it", "unsafe name", card(func(m *Member) { m.Name = "evil\n2026/11/20 [INFO] leader is evil $(touch x)" })},
		{"a label with a shell in it", "unsafe name", card(func(m *Member) { m.Name = "x;reboot" })},
		{"case 46: a label that is a directory", "unsafe name", card(func(m *Member) { m.Name = ".." })},
		{"case 46: a label that is an option", "unsafe name", card(func(m *Member) { m.Name = "-rf" })},
		{"a protocol of tomorrow", "wire-version", card(func(m *Member) { m.WireMin, m.WireMax = wire.Major+1, wire.Major+2 })},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t)
				alpha, evil := s.start("alpha"), s.port("evil")
				evil.SetCard(c.card)
				for range 20 {
					evil.Ask(addrOf("alpha"))
					evil.SetCard(append(bytes.Clone(c.card), 1)) // what is behind a card is ignored
					time.Sleep(time.Second)
					evil.SetCard(c.card)
					time.Sleep(time.Second)
				}
				alpha.hears()
				if n := alpha.JoinState().Refused[c.cause]; n < 10 {
					t.Errorf("refused %v; expected some for %q", alpha.JoinState().Refused, c.cause)
				}
				if n := len(s.log.lines("member refused")); n != 1 {
					t.Errorf("%d lines about it; expected one a minute", n)
				}
				if len(s.log.lines("[ERROR]")) > 0 {
					t.Errorf("a stranger made us log errors: %q", s.log.lines("[ERROR]"))
				}
				for _, line := range s.log.lines("leader is evil") {
					if strings.HasPrefix(line, "2026/11/20") {
						t.Errorf("a stranger wrote our log: %q", line)
					}
				}
				evil.SetCard(card(func(*Member) {}))
				time.Sleep(time.Second)
				alpha.hears("joined stranger#1")
			})
		})
	}
}

// TestNothingAfterShutdown: memberlist's suspicion timers fire late.
func TestNothingAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, beta := s.start("alpha"), s.start("beta", "alpha")
		s.allSee(10*time.Second, alpha, beta)
		node := *memberNode(alpha, "beta")
		beta.kill()
		s.within(5*time.Second, "alpha suspects beta", func() bool { return len(s.log.lines("alpha: Suspect")) > 0 })
		alpha.heard()
		alpha.SetLeader(wire.Epoch{Counter: 1, Owner: idOf("beta")})
		alpha.mu.Lock() // its consumer is busy, and does not come to what happened last
		alpha.MarkLeft(idOf("beta"), beta.self.Nonce)
		if err := alpha.Shutdown(); err != nil {
			t.Error(err)
		}
		if events := alpha.Events(); len(events) > 0 {
			t.Errorf("told %v after shutdown, of before", events)
		}
		alpha.mu.Unlock()
		alpha.kill()
		time.Sleep(time.Minute)

		// And one by hand, to be sure that there was something to hold back.
		d := delegate{alpha.Membership}
		d.NotifyLeave(&node)
		alpha.onShown(session.Shown{Sender: session.Sender{Life: session.Life{ID: idOf("gamma"), Incarnation: 1}, Addr: addrOf("gamma")},
			Card: appendCard(nil, alpha.self)})
		alpha.turn()
		d.MergeRemoteState(appendRecord(nil, wire.Epoch{Counter: 2, Owner: idOf("beta")}), false)
		alpha.MarkLeft(idOf("beta"), beta.self.Nonce)
		alpha.SetSelf(1, Observer, true, true)
		alpha.hears()
		if events := alpha.Events(); len(events) > 0 || len(alpha.Wake()) > 0 {
			t.Errorf("told %v after shutdown", events)
		}
		if err := alpha.Leave(time.Second); !errors.Is(err, ErrClosed) {
			t.Errorf("leave after shutdown: %v; expected %v", err, ErrClosed)
		}
	})
}

func memberNode(a *agent, name string) *memberlist.Node {
	for _, n := range a.list.Members() {
		if n.Name == nodeName(idOf(name), 0xcafe0001) {
			return n
		}
	}
	return nil
}

// TestNobodyListens is P1: a consumer that sleeps and a log pipe that nobody
// reads stop nothing (antrea #4469 froze so).
func TestNobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		pipe := make(chan struct{})
		host := s.open(s.lan.Host("alpha", addrOf("alpha")), selfOf("alpha"), "test")
		alpha, err := New(Config{
			Self: selfOf("alpha"), Cluster: "test", Transport: host, Sessions: host,
			Logger: hclog.New(&hclog.LoggerOptions{Output: stuck(pipe), Level: hclog.Trace}),
		})
		if err != nil {
			t.Fatal(err)
		}
		go readFrames(host)
		beta := s.start("beta", "alpha")
		for i := range uint16(400) {
			beta.SetSelf(i, Voter, false, false)
			time.Sleep(time.Second)
		}
		if got := beta.sees(); !slices.Equal(got, []string{"alpha"}) {
			t.Errorf("beta sees %q; expected that alpha goes on", got)
		}
		if events := alpha.Events(); len(events) != 2 || events[0].Kind != Joined || events[0].Member.Priority != 399 || events[1].Kind != JoinEnded {
			t.Errorf("alpha was told %v; expected the newest of beta, once, and the outcome of the first join", events)
		}
		if err := alpha.Shutdown(); err != nil {
			t.Error(err)
		}
		if len(alpha.Wake()) > 0 {
			t.Error("there is a signal after shutdown")
		}
		close(pipe)
	})
}

// stuck is a log pipe that nobody reads until the channel is closed.
type stuck chan struct{}

func (s stuck) Write(p []byte) (int, error) {
	<-s
	return len(p), nil
}

// TestLeaderRecord is protocol 6.3: a joiner learns of the leader with its
// first push/pull, everybody else with the next pings.
func TestLeaderRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		first, second := wire.Epoch{Counter: 41, Owner: idOf("alpha")}, wire.Epoch{Counter: 42, Owner: idOf("alpha")}
		alpha := s.start("alpha")
		alpha.SetLeader(first)
		beta := s.start("beta", "alpha")
		s.within(time.Second, "beta sees alpha", func() bool { return len(beta.sees()) == 1 })
		synctest.Wait()
		beta.hears("joined alpha#1", "leader-reported "+first.String())

		alpha.SetLeader(second)
		time.Sleep(4 * time.Second) // less than a push/pull interval
		beta.hears("leader-reported " + second.String())
		beta.SetLeader(second)
		time.Sleep(time.Minute)
		beta.hears()
		alpha.hears("joined beta#1") // never its own record
	})
}

// TestTwoLeaderRecords: of what is pending the newest is told, and what is below
// our own is no news.
func TestTwoLeaderRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		a := s.start("alpha")
		record := func(counter uint64) []byte {
			return appendRecord([]byte{stateVersion, recordSize}, wire.Epoch{Counter: counter, Owner: idOf("beta")})
		}
		a.SetLeader(wire.Epoch{Counter: 5, Owner: idOf("alpha")})
		for _, counter := range []uint64{4, 7, 9, 8, 9} {
			delegate{a.Membership}.MergeRemoteState(record(counter), false)
		}
		synctest.Wait()
		if got := a.heard(); len(got) == 0 || got[len(got)-1] != "leader-reported 9/"+idOf("beta").Short() {
			t.Errorf("told %q; expected 9 last", got)
		}
		delegate{a.Membership}.MergeRemoteState(record(9), false)
		synctest.Wait()
		a.hears()
	})
}

// TestAnnouncementsDoNotWait: whoever changes priority is in the agent's loop.
func TestAnnouncementsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, beta := s.start("alpha"), s.start("beta", "alpha")
		s.allSee(10*time.Second, alpha, beta)
		start := time.Now()
		alpha.SetSelf(7, Voter, false, false)
		alpha.SetSelf(8, Voter, false, false)
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %s", took)
		}
		time.Sleep(3 * time.Second)
		if got := beta.Known()[0]; got.Priority != 8 {
			t.Errorf("beta knows %+v; expected the last change", got)
		}
	})
}

// TestSameIDAsOurs is R2: the election decides, so it must be told.
func TestSameIDAsOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha := s.start("alpha")
		s.startWith("beta", func(cfg *Config) {
			cfg.Self.ID, cfg.Self.Nonce = idOf("alpha"), 0xcafe0009
			cfg.Seeds = []string{addrOf("alpha").String()}
		})
		time.Sleep(5 * time.Second)
		alpha.hears("joined beta#1") // in its session: gossip alone is no reason to tell of it
	})
}

func TestIPv6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		start := func(name, addr, seed string) *Membership {
			host := s.open(s.lan.Host(name, netip.MustParseAddrPort(addr)), selfOf(name), "test")
			m, err := New(Config{Self: selfOf(name), Cluster: "test", Transport: host, Sessions: host, Seeds: []string{seed}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			go readFrames(host)
			go func() { _ = m.Rejoin(ctx) }()
			t.Cleanup(func() { cancel(); _ = m.Shutdown() })
			return m
		}
		alpha := start("alpha", "[fd00::a]:7950", "fd00::b")
		start("beta", "[fd00::b]:7950", "[fd00::a]:7950")
		time.Sleep(10 * time.Second)
		if known := alpha.Known(); len(known) != 1 || known[0].Addr != netip.MustParseAddrPort("[fd00::b]:7950") {
			t.Errorf("alpha knows %v; expected beta at its IPv6 address", known)
		}
	})
}

// TestProfilesDetect gives the figures of protocol 6.1 a bound each.
func TestProfilesDetect(t *testing.T) {
	for profile, limit := range map[string]time.Duration{"fast": 3 * time.Second, "lan": 16 * time.Second, "wan": 110 * time.Second} {
		t.Run(profile, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t)
				var agents []*agent
				for _, name := range []string{"alpha", "beta", "gamma", "delta", "epsilon"} {
					agents = append(agents, s.startWith(name, func(cfg *Config) {
						cfg.Profile = profile
						cfg.Seeds = []string{addrOf("alpha").String()}
					}))
				}
				s.allSee(30*time.Second, agents...)
				agents[4].kill()
				took := s.within(limit, "everybody knows that epsilon died", func() bool {
					return !slices.ContainsFunc(agents[:4], func(a *agent) bool { return len(a.sees()) != 3 })
				})
				t.Logf("detected after %s", took)
			})
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	s := &site{t: t, lan: lantest.New(1)}
	host := s.open(s.lan.Host("alpha", addrOf("alpha")), selfOf("alpha"), "test")
	linkLocal := s.open(s.lan.Host("beta", netip.MustParseAddrPort("[fe80::1]:7950")), selfOf("beta"), "test")
	cases := []struct {
		what, want string
		change     func(*Config)
	}{
		{"no cluster", "cluster name has 0 bytes", func(c *Config) { c.Cluster = "" }},
		{"long cluster", "expected 1 to 255", func(c *Config) { c.Cluster = strings.Repeat("x", 256) }},
		{"no id", "id is zero", func(c *Config) { c.Self.ID = wire.ID{} }},
		{"no name", "expected 1 to 63", func(c *Config) { c.Self.Name = "" }},
		{"long name", "expected 1 to 63", func(c *Config) { c.Self.Name = strings.Repeat("x", 300) }},
		{"name with a space", "characters other than", func(c *Config) { c.Self.Name = "al pha" }},
		{"no transport", "no transport", func(c *Config) { c.Transport = nil }},
		{"no sessions", "no sessions", func(c *Config) { c.Sessions = nil }},
		{"profile", "expected lan, fast or wan", func(c *Config) { c.Profile = "lann" }},
		{"link-local", "unique-local", func(c *Config) { c.Transport = linkLocal }},
	}
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			cfg := Config{Self: selfOf("alpha"), Cluster: "test", Transport: host, Sessions: host}
			c.change(&cfg)
			m, err := New(cfg)
			if err == nil {
				_ = m.Shutdown()
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "create membership: ") {
				t.Errorf("error is %q; expected it to say %q", err, c.want)
			}
		})
	}
}

// Whoever is told of a member is told how far away it is: it seeds the election's
// timeouts, and later round trips are no news.
func TestFirstRoundTripIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha := s.start("alpha")
		beta := s.start("beta", "alpha")
		s.allSee(10*time.Second, alpha, beta)
		time.Sleep(20 * time.Second)
		alpha.mu.Lock()
		defer alpha.mu.Unlock()
		measured := 0
		for _, e := range alpha.told {
			if e.Kind == Joined && e.Member.RTT > 0 {
				measured++
			}
		}
		if len(alpha.told) != 2 || measured != 1 {
			t.Errorf("told %v; expected to meet beta, with its round trip, and the outcome of the first join", alpha.told)
		}
	})
}
