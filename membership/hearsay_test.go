package membership

import (
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/sealed"
	"github.com/bully-agent/bully-agent/wire"
)

// forger is a host with the cluster's key and an id of its own, which says by gossip what it likes.
type forger struct {
	site *site
	host *sealed.LAN
}

func (s *site) forger() forger {
	s.hostile = true
	return forger{s, s.port("forger")}
}

// tell sends messages to an agent, one in each datagram.
func (f forger) tell(to *agent, messages ...[]byte) {
	f.site.t.Helper()
	for _, m := range messages {
		if _, err := f.host.WriteTo(packet(m), addrOf(to.name).String()); err != nil {
			f.site.t.Fatal(err)
		}
	}
	time.Sleep(10 * time.Millisecond)
}

// node is a member's name in memberlist.
func (a *agent) node() string { return a.Membership.name }

func (a *agent) forgedDead(incarnation uint32, from string) []byte {
	return says(deadMsg, "Incarnation", incarnation, "Node", a.node(), "From", from)
}

// is gives what a knows of a member.
func (a *agent) is(name string) Member {
	a.site.t.Helper()
	for _, m := range a.Known() {
		if m.ID == idOf(name) {
			return m
		}
	}
	return Member{Status: Dead}
}

// seesTrue: a believes the member alive in this life, at its true address.
func (a *agent) seesTrue(of *agent) bool {
	m := a.is(of.name)
	return m.Status == Alive && m.Nonce == of.self.Nonce && m.Addr == addrOf(of.name)
}

// Case 41: of 20,000 lives of one id few are taken, neither the member nor
// memberlist's memory suffers, and the member is there as it was once they have ended.
func TestCase41ManyLivesOfOneID(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes of gossip")
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, beta, gamma := s.start("alpha"), s.start("beta", "alpha"), s.start("gamma", "alpha")
		s.allSee(10*time.Second, alpha, beta, gamma)
		time.Sleep(10 * time.Second) // all have answered
		f := s.forger()
		for i := range 20_000 {
			m := betaAt("forger")
			m.Incarnation, m.Nonce = uint32(2+i), uint32(i)
			f.tell(alpha, aliveOf(m, 1))
		}
		if n := alpha.list.NumMembers(); n > 3+maxHintsOfOne {
			t.Errorf("memberlist has %d members", n)
		}
		if n := alpha.JoinState().Refused["lives"] + alpha.JoinState().Refused["rate"]; n < 19_000 {
			t.Errorf("%d are refused", n)
		}
		if !slices.Contains(gamma.sees(), "beta") {
			t.Error("gamma does not see beta any more")
		}
		took := s.within(5*time.Minute, "alpha sees beta as it is", func() bool { return alpha.seesTrue(beta) })
		t.Logf("beta is back %s after the last of them", took)
	})
}

// Restarts are not refused, nor is a member that comes back while others make up
// members as fast as they can.
func TestTrueMembersComeBackBesideForgedOnes(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes of gossip")
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, beta := s.start("alpha"), s.start("beta", "alpha")
		s.allSee(10*time.Second, alpha, beta)
		time.Sleep(10 * time.Second)
		f := s.forger()
		for i := range 2 * maxHints {
			m := betaAt("forger")
			m.ID[13], m.ID[14] = byte(1+i>>8), byte(i)
			f.tell(alpha, aliveOf(m, 1))
		}
		if n := len(alpha.sees()); n > maxHints+1 {
			t.Errorf("%d members are believed", n)
		}
		if n := alpha.JoinState().Refused["full"] + alpha.JoinState().Refused["rate"]; n < maxHints/2 {
			t.Errorf("%d are refused", n)
		}
		for life := range uint32(4) {
			beta.kill()
			beta = s.startWith("beta", func(cfg *Config) {
				cfg.Self.Incarnation, cfg.Self.Nonce = 2+life, 0xcafe0002+life
				cfg.Seeds = []string{addrOf("alpha").String()}
			})
			s.within(5*time.Second, "alpha sees beta's next life", func() bool { return alpha.seesTrue(beta) })
		}
	})
}

// Who is said to be dead, or to have left, is believed all the same while it answers, and denies it.
func TestForgedDeathsAreDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, beta, gamma := s.start("alpha"), s.start("beta", "alpha"), s.start("gamma", "alpha")
		s.allSee(10*time.Second, alpha, beta, gamma)
		time.Sleep(10 * time.Second)
		f := s.forger()
		alpha.heard()
		for i, from := range []*agent{gamma, beta} { // a death; a departure in its own name
			f.tell(alpha, beta.forgedDead(uint32(100*(i+1)), from.node()))
			time.Sleep(20 * time.Second)
			if !alpha.seesTrue(beta) {
				t.Errorf("alpha believes it: %v", alpha.is("beta"))
			}
		}
		alpha.hears()
		beta.kill()
		s.within(20*time.Second, "alpha sees that it is gone", func() bool { return alpha.is("beta").Status == Dead })
	})
}

// Who is said to have left, and then to be elsewhere, stays where it is: memberlist
// alone would follow.
func TestNobodyMovesAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, beta, gamma := s.start("alpha"), s.start("beta", "alpha"), s.start("gamma", "alpha")
		s.allSee(10*time.Second, alpha, beta, gamma)
		f := s.forger()
		f.tell(alpha, beta.forgedDead(100, beta.node()))
		f.tell(alpha, aliveOf(betaAt("forger"), 101))
		if got := alpha.is("beta"); got.Addr != addrOf("beta") {
			t.Errorf("alpha looks for beta at %s", got.Addr)
		}
		if n := alpha.JoinState().Refused["moved"]; n != 1 {
			t.Errorf("%d refusals are counted", n)
		}
		s.within(5*time.Second, "alpha sees beta again", func() bool { return alpha.seesTrue(beta) })
		f.tell(alpha, aliveOf(betaAt("forger"), 1<<20)) // memberlist's conflict
		if got := alpha.is("beta"); got.Addr != addrOf("beta") || got.Status != Alive {
			t.Errorf("alpha knows %v", got)
		}
	})
}

// Nobody made up is told, and members find each other as soon as ever,
// also beside as many as a forger can make up at once.
func TestWhoNeverAnswersIsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, beta := s.start("alpha"), s.start("beta", "alpha")
		s.allSee(2*time.Second, alpha, beta)
		f := s.forger()
		for i := range uint32(2 * dialsAtOnce * 8) {
			m := betaAt("forger")
			m.Nonce, m.Incarnation = 1000+i, 2
			if i%4 > 0 {
				m.ID[14], m.ID[13] = byte(i), byte(i>>8)
			}
			if _, err := f.host.WriteTo(packet(aliveOf(m, 1)), addrOf("alpha").String()); err != nil {
				t.Fatal(err)
			}
		}
		gamma := s.start("gamma", "alpha")
		s.allSee(10*time.Second, alpha, beta, gamma)
		if !alpha.seesTrue(beta) {
			t.Errorf("alpha takes beta for %v", alpha.is("beta"))
		}
		if got := alpha.heard(); !slices.Equal(got, []string{"joined beta#1", "joined gamma#1"}) {
			t.Errorf("alpha was told %q", got)
		}
	})
}

// One holder of the key makes up a thousand hosts, and goes on with more than any host dials. A true host that nobody knows meets the
// leader within seconds, whoever it asks. One that was known comes back to all within seconds.
func TestATrueHostJoinsBesideAThousandIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, beta, gamma := s.start("alpha"), s.start("beta", "alpha"), s.start("gamma", "alpha")
		s.allSee(2*time.Second, alpha, beta, gamma)
		for _, a := range []*agent{alpha, beta, gamma} {
			a.SetLeader(wire.Epoch{Counter: 1, Owner: idOf("alpha")})
		}
		time.Sleep(11 * time.Minute) // they are known
		f, made := s.forger(), 0
		crowd := func(datagrams int) {
			for range datagrams {
				var six [][]byte
				for range 6 {
					made++
					m := betaAt("forger")
					m.Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(made >> 8), byte(made)}), defaultPort)
					m.ID[12], m.ID[13], m.ID[14] = byte(made>>16), byte(made>>8), byte(made)
					six = append(six, aliveOf(m, 1))
				}
				f.tell(alpha, compoundOf(six...))
				f.tell(beta, compoundOf(six...))
			}
		}
		crowd(170)
		var attack sync.WaitGroup
		stop := make(chan struct{})
		attack.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					crowd(1)
				}
			}
		})
		defer attack.Wait()
		defer close(stop)
		delta := s.start("delta", "beta")
		took := s.within(10*time.Second, "alpha and delta see each other", func() bool { return alpha.seesTrue(delta) && delta.seesTrue(alpha) })
		t.Logf("a host that is new has met the leader after %s", took)
		gamma.kill()
		gamma = s.startWith("gamma", func(cfg *Config) {
			cfg.Self.Incarnation, cfg.Self.Nonce = 2, 0xcafe0002
			cfg.Seeds = []string{addrOf("alpha").String()}
		})
		took = s.within(10*time.Second, "all see gamma's next life", func() bool {
			return alpha.seesTrue(gamma) && beta.seesTrue(gamma) && gamma.seesTrue(alpha) && gamma.seesTrue(beta)
		})
		t.Logf("one that was known is back after %s; refused %v", took, alpha.JoinState().Refused)
	})
}

// A host that is new meets all others within seconds, though hosts that one member has made up are told of beside them. Nothing tells it
// which of them are true: who does not answer at once gives its place to the next.
func TestATrueHostMeetsAllBesideAThousandIDs(t *testing.T) {
	for made, limit := range map[int]time.Duration{1000: 13 * time.Second, 2000: 26 * time.Second} {
		t.Run(strconv.Itoa(made), func(t *testing.T) {
			if made > 1000 && os.Getenv("BULLY_SIM") != "long" {
				t.Skip("skipped: many handshakes; make schedules has them")
			}
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t)
				var all []*agent
				for _, name := range []string{"alpha", "beta", "gamma", "kappa", "omega"} {
					all = append(all, s.start(name, "alpha"))
				}
				s.allSee(10*time.Second, all...)
				f := s.forger()
				for i := range made {
					m := betaAt("forger")
					m.ID[13], m.ID[14], m.Nonce = byte(i>>8), byte(i), 1000
					m.Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), defaultPort)
					f.tell(all[1], aliveOf(m, 1))
				}
				delta := s.start("delta", "beta")
				took := s.allSee(limit, append(all, delta)...)
				t.Logf("all see each other after %s", took)
			})
		})
	}
}

// chatter has the forger say messages, 100 a second to each agent, until it is told to stop.
func (f forger) chatter(to []*agent, message func(n int) []byte) (stop func()) {
	end := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-end:
				return
			case <-time.After(10 * time.Millisecond):
			}
			for _, a := range to {
				_, _ = f.host.WriteTo(packet(message(n)), addrOf(a.name).String())
			}
		}
	})
	return func() {
		close(end)
		ended.Wait()
	}
}

// A member says something of another one a hundred times a second, to each other one, under numbers that the other has to deny. It says
// that the other is dead, or suspect, or has begun a later life, or is another (its meta). Or it says what an asked host would answer.
// Nothing changes that anybody is told of the other.
func TestWordsInAnothersNameChangeNothing(t *testing.T) {
	for name, word := range map[string]func(of *agent, n int) []byte{
		"dead": func(of *agent, n int) []byte { return of.forgedDead(uint32(2+n), "somebody") },
		"left": func(of *agent, n int) []byte { return of.forgedDead(uint32(2+n), of.node()) },
		"suspect": func(of *agent, n int) []byte {
			return says(suspectMsg, "Incarnation", uint32(2+n), "Node", of.node(), "From", "somebody")
		},
		"ack": func(_ *agent, n int) []byte { return says(ackMsg, "SeqNo", uint32(1+n%100), "Payload", []byte{}) },
		"later life": func(_ *agent, n int) []byte {
			m := betaAt("beta")
			m.Incarnation, m.Nonce = uint32(2+n), uint32(n)
			return aliveOf(m, 1)
		},
		"meta": func(_ *agent, n int) []byte {
			m := betaAt("beta")
			m.Incarnation = uint32(2 + n)
			return aliveOf(m, uint32(2+n))
		},
		"elsewhere": func(_ *agent, n int) []byte { return aliveOf(betaAt("forger"), uint32(2+n)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t)
				alpha, beta, gamma := s.start("alpha"), s.start("beta", "alpha"), s.start("gamma", "alpha")
				all := []*agent{alpha, beta, gamma}
				s.allSee(10*time.Second, all...)
				time.Sleep(10 * time.Second)
				was := alpha.is("beta")
				for _, a := range all {
					a.heard()
				}
				stop := s.forger().chatter(all, func(n int) []byte { return word(beta, n) })
				time.Sleep(20 * time.Second)
				stop()
				for _, a := range all {
					a.hears()
				}
				if now := alpha.is("beta"); now != was {
					t.Errorf("alpha knows %v, and knew %v", now, was)
				}
				beta.kill()
				s.within(2*time.Minute, "alpha sees that it is gone", func() bool { return alpha.is("beta").Status == Dead })
			})
		})
	}
}

// A member answers a hundred times a second whatever others may have asked a dead one, and memberlist takes that for the dead one's
// answers. No number of them makes up for a sign of life in its own session. By its nonce the dead one is asked as late as any is.
func TestAcksInAnothersNameKeepNobodyAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, gamma := s.start("alpha"), s.start("gamma", "alpha")
		beta := s.startWith("beta", func(cfg *Config) {
			cfg.Self.Nonce = uint32(believedEvery/time.Millisecond) - 1
			cfg.Seeds = []string{addrOf("alpha").String()}
		})
		s.allSee(10*time.Second, alpha, beta, gamma)
		time.Sleep(10 * time.Second)
		stop := s.forger().chatter([]*agent{alpha, gamma}, func(n int) []byte { return says(ackMsg, "SeqNo", uint32(1+n%100), "Payload", []byte{}) })
		defer stop()
		beta.kill()
		killed := time.Now()
		limit := 2*believedEvery + questionsMore*alpha.lives.patient + time.Second
		for _, a := range []*agent{alpha, gamma} {
			s.within(limit-time.Since(killed), a.name+" sees that beta is gone", func() bool { return a.is("beta").Status == Dead })
			t.Logf("%s sees it after %s", a.name, time.Since(killed))
		}
	})
}
