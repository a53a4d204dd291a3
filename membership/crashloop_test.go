package membership

import (
	"testing"
	"testing/synctest"
	"time"
)

// An agent that is killed and started again many times, faster than memberlist finds its lives dead, is a member that restarts.
// Each host hears of each life, none is refused, and nobody is warned. Of the lives that have ended gossip still tells.
func TestACrashLoopIsNoLie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		var others []*agent
		for _, name := range []string{"alpha", "beta", "gamma", "delta"} {
			others = append(others, s.start(name, "alpha"))
		}
		life := uint32(0)
		start := func() *agent {
			life++
			return s.startWith("omega", func(cfg *Config) {
				cfg.Self.Incarnation, cfg.Self.Nonce = life, 0xcafe0000+life
				cfg.Seeds = []string{addrOf("alpha").String()}
			})
		}
		omega := start()
		s.allSee(10*time.Second, append(others, omega)...)
		for range 10 {
			omega.kill()
			omega = start()
			time.Sleep(time.Second)
			for _, a := range others {
				if !a.seesTrue(omega) {
					t.Errorf("%s takes life %d for %v", a.name, life, a.is("omega"))
				}
			}
		}
		for _, a := range others {
			for cause, n := range a.JoinState().Refused {
				if cause != causePast {
					t.Errorf("%s refused %d words for %q", a.name, n, cause)
				}
			}
		}
		if lines := s.log.lines("member refused"); len(lines) > 0 {
			t.Errorf("warnings: %q", lines)
		}
		time.Sleep(time.Minute)
		for _, a := range append(others, omega) {
			if n := a.list.NumMembers(); n != len(others)+1 {
				t.Errorf("%s's memberlist has %d members in the end", a.name, n)
			}
		}
	})
}
