package membership

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/sealed"
	"github.com/bully-agent/bully-agent/wire"
)

// forger sends gossip of the cluster "test" in anybody's name.
type forger struct {
	site *site
	host *sealed.LAN
}

func (s *site) forger() forger {
	s.hostile = true
	f := forger{s, s.plug("forger", addrOf("forger"))}
	go readFrames(f.host)
	s.t.Cleanup(func() { _ = f.host.Shutdown() })
	s.warm(f.host)
	time.Sleep(100 * time.Millisecond) // what it says does not wait for a session
	return f
}

// tell sends messages to an agent, one in each datagram, and lets them come.
func (f forger) tell(to *agent, messages ...[]byte) {
	f.site.t.Helper()
	f.send(to, messages...)
	time.Sleep(10 * time.Millisecond)
}

func (f forger) send(to *agent, messages ...[]byte) {
	f.site.t.Helper()
	for _, m := range messages {
		if _, err := f.host.WriteTo(packet(m), addrOf(to.name).String()); err != nil {
			f.site.t.Fatal(err)
		}
	}
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
		if n := alpha.list.NumMembers(); n > 3+maxLives {
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
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, beta := s.start("alpha"), s.start("beta", "alpha")
		s.allSee(10*time.Second, alpha, beta)
		time.Sleep(10 * time.Second)
		f := s.forger()
		for i := range 2 * maxMembers {
			m := betaAt("forger")
			m.ID[13], m.ID[14] = byte(1+i>>8), byte(i)
			f.tell(alpha, aliveOf(m, 1))
		}
		if n := len(alpha.sees()); n > maxMembers+1 {
			t.Errorf("%d members are believed", n)
		}
		if n := alpha.JoinState().Refused["full"] + alpha.JoinState().Refused["rate"]; n < maxMembers/2 {
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

// Made-up members that come and go do not have those forgotten who were there.
func TestForgedEndsDoNotHaveTrueOnesForgotten(t *testing.T) {
	l, now := newLives(), time.Unix(1000, 0)
	lost := Member{ID: idOf("beta"), Nonce: 1, Addr: addrOf("beta")}
	l.meet(lost, now)
	l.lose(lost, now)
	for i := range 3 * maxEnded {
		now = now.Add(time.Second)
		m := Member{ID: wire.ID{0: 1, 14: byte(i >> 8), 15: byte(i)}, Nonce: 1}
		l.joined(m, now)
		l.take()
		l.gone(m, now)
		l.take()
	}
	if _, lost := l.addresses(); !lost[addrOf("beta")] || len(l.byID) > maxEnded+1 {
		t.Errorf("of %d members that are kept, beta is one: %t", len(l.byID), lost[addrOf("beta")])
	}
	if l.present != 0 {
		t.Errorf("%d lives are believed to be present", l.present)
	}
}

// Case 48: nobody can have memberlist count over. With the highest incarnation that
// is taken a member is hidden for seconds, and a restart is another life anyway.
func TestCase48TheHighestIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, beta, gamma := s.start("alpha"), s.start("beta", "alpha"), s.start("gamma", "alpha")
		s.allSee(10*time.Second, alpha, beta, gamma)
		f := s.forger()
		others := []*agent{alpha, gamma}
		for _, a := range others {
			f.tell(a, beta.forgedDead(anyUint, a.node()), says(suspectMsg, "Incarnation", uint32(anyUint), "Node", beta.node(), "From", a.node()))
			if !a.seesTrue(beta) || a.JoinState().Kept["incarnation"] != 2 {
				t.Errorf("%s knows %v, counted %v", a.name, a.is("beta"), a.JoinState().Kept)
			}
		}
		for _, a := range others {
			f.tell(a, beta.forgedDead(uint32(maxIncarnation(time.Now())), a.node()))
		}
		took := s.within(2*time.Minute, "both see beta again", func() bool { return alpha.seesTrue(beta) && gamma.seesTrue(beta) })
		t.Logf("beta was hidden for %s", took)
		time.Sleep(time.Minute)
		for _, a := range others {
			if !a.seesTrue(beta) {
				t.Errorf("%s has lost beta again", a.name)
			}
		}
		beta.kill()
		beta = s.startWith("beta", func(cfg *Config) {
			cfg.Self.Incarnation, cfg.Self.Nonce = 2, 0xcafe0002
			cfg.Seeds = []string{addrOf("alpha").String()}
		})
		s.within(10*time.Second, "its next life is seen", func() bool { return alpha.seesTrue(beta) && gamma.seesTrue(beta) })
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
		f.send(alpha, beta.forgedDead(100, beta.node()))
		time.Sleep(time.Millisecond) // beta has not denied it yet
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
		for i := range uint32(2 * maxAsking) {
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

// Names that memberlist has not had before come at a bounded rate, for it forgets none of
// them soon. A member that once answered has its own share: it comes back, whatever is made
// up meanwhile.
func TestNewNamesAreBounded(t *testing.T) {
	l, now := newLives(), time.Unix(1000, 0)
	beta := Member{ID: idOf("beta"), Name: "beta", Incarnation: 1, Nonce: 1, Addr: addrOf("beta")}
	l.meet(beta, now)
	l.lose(beta, now)
	taken := 0
	for i := range 2 * newNames {
		made := Member{ID: wire.ID{1, byte(i), byte(i >> 8)}, Incarnation: 1, Nonce: 1, Addr: addrOf("gamma")}
		if l.admit(made, now) == nil {
			taken++
		}
	}
	if taken != newNames {
		t.Errorf("%d new names at once, want %d", taken, newNames)
	}
	back := beta
	back.Incarnation, back.Nonce = 2, 2
	if r := l.admit(back, now); r != nil {
		t.Errorf("beta comes back: %v", r)
	}
	made := Member{ID: wire.ID{2}, Incarnation: 1, Nonce: 1, Addr: addrOf("gamma")}
	if r := l.admit(made, now.Add(time.Second)); r != nil {
		t.Errorf("a second later: %v", r)
	}
}

// A life counts once, however often it is said to have joined, and not after it was
// forgotten: else true members would find the group full.
func TestALifeCountsOnce(t *testing.T) {
	for name, happens := range map[string]func(l *lives, i int, now time.Time){
		"who joins again and again": func(l *lives, _ int, now time.Time) {
			l.joined(Member{ID: idOf("beta"), Incarnation: 1, Nonce: 1, Addr: addrOf("beta")}, now)
		},
		"who left by frame and was forgotten": func(l *lives, i int, now time.Time) {
			id := wire.ID{1, byte(i), byte(i >> 8)}
			l.meet(Member{ID: id, Incarnation: 1, Nonce: 1, Addr: addrOf("beta")}, now)
			l.markLeft(id, 1, now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, now := newLives(), time.Unix(1000, 0)
			for i := range 2 * maxMembers {
				happens(&l, i, now)
			}
			if r := l.admit(Member{ID: idOf("gamma"), Incarnation: 1, Nonce: 1, Addr: addrOf("gamma")}, now); r != nil {
				t.Errorf("gamma is refused: %v", r)
			}
		})
	}
}
