package membership

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSeedForms(t *testing.T) {
	cases := []struct{ seed, want string }{
		{"10.0.0.7", "10.0.0.7:7950"},
		{"10.0.0.7:8000", "10.0.0.7:8000"},
		{"::ffff:10.0.0.7", "10.0.0.7:7950"},
		{"fd00::7", "[fd00::7]:7950"},
		{"[fd00::7]:8000", "[fd00::7]:8000"},
		{"beta.lan", "10.0.0.98:7950"},
		{"beta.lan:8000", "10.0.0.98:8000"},
		{"", "error: seed is empty"},
		{"beta.lan:0", "error: \"beta.lan:0\" is not host:port"},
		{"beta.lan:http", "error: \"beta.lan:http\" is not host:port"},
		{":7950", "error: \":7950\" is not host:port"},
		{"[fd00::7", "error: address [fd00::7: missing ']'"},
		{"gamma.lan", "error: look up gamma.lan: no such host"},
		{"empty.lan", "error: look up empty.lan: no addresses"},
	}
	r := newRejoin(Config{Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
		switch host {
		case "beta.lan":
			return []netip.Addr{addrOf("beta").Addr()}, nil
		case "empty.lan":
			return nil, nil
		}
		return nil, errors.New("no such host")
	}})
	for _, c := range cases {
		addrs, err := r.lookup(t.Context(), c.seed)
		got := ""
		if len(addrs) > 0 {
			got = addrs[0].String()
		}
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, c.want) || err == nil && got != c.want {
			t.Errorf("seed %q gives %q; expected %q", c.seed, got, c.want)
		}
	}
}

// TestPauses is protocol 6.2, P8: 1–5 s in the first minute after a loss,
// 5–30 s before and later.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRejoin(Config{Seed: 1})
		check := func(when string, low, high time.Duration) {
			t.Helper()
			shortest, longest := time.Hour, time.Duration(0)
			for range 1000 {
				p := r.pause()
				shortest, longest = min(shortest, p), max(longest, p)
			}
			spread := high - low
			if shortest < low || longest > high || longest-shortest < spread*8/10 {
				t.Errorf("%s: pauses from %s to %s; expected them spread over %s to %s", when, shortest, longest, low, high)
			}
		}
		check("at first", 5*time.Second, 30*time.Second)
		r.lostMember()
		check("after a loss", time.Second, 5*time.Second)
		time.Sleep(59 * time.Second)
		check("59 s after a loss", time.Second, 5*time.Second)
		time.Sleep(time.Second)
		check("a minute after a loss", 5*time.Second, 30*time.Second)
	})
}

// TestWhoIsAskedToJoin: living members and ourselves are left alone, and nobody
// is asked twice at a time.
func TestWhoIsAskedToJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		var asked atomic.Int32
		alpha := s.startWith("alpha", func(cfg *Config) {
			cfg.Seeds = []string{"beta.lan", addrOf("alpha").String(), "127.0.1.1"}
			cfg.Resolve = func(context.Context, string) ([]netip.Addr, error) {
				asked.Add(1)
				return []netip.Addr{addrOf("beta").Addr()}, nil
			}
		})
		beta := s.start("beta")
		s.allSee(40*time.Second, alpha, beta)
		time.Sleep(firstFor) // the exchanges of a young agent have ended
		before := len(s.log.lines("Initiating push/pull sync with:  "))
		if before == 0 {
			t.Fatal("memberlist does not say who is asked; this test sees nothing")
		}
		time.Sleep(5 * time.Minute)
		if after := len(s.log.lines("Initiating push/pull sync with:  ")); after != before {
			t.Errorf("%d joins while everybody was there", after-before)
		}
		if asked.Load() < 8 {
			t.Errorf("the seed was resolved %d times in five minutes; expected it at each attempt", asked.Load())
		}
	})
}

// TestASeedThatIsAsked: what a seed stands for is asked at each attempt; hosts that it gives are
// tried though some of them, or the rest of it, are not to be had, and that is told by seed, with
// the next attempt, until it is mended or the seed is gone.
func TestASeedThatIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		var asked atomic.Int32
		var broken atomic.Bool
		broken.Store(true)
		alpha := s.startWith("alpha", func(cfg *Config) {
			cfg.Seeds = []string{"source", "beta.lan"}
			cfg.Find = func(_ context.Context, seed string) ([]string, error) {
				if seed != "source" {
					return []string{seed}, nil
				}
				asked.Add(1)
				if broken.Load() {
					return []string{"gone.lan", addrOf("beta").String()}, errors.New("line 2: nonsense\nline 3: nonsense")
				}
				return []string{addrOf("beta").String()}, nil
			}
			cfg.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
				if host == "gone.lan" {
					return nil, errors.New("no such host")
				}
				return []netip.Addr{addrOf("beta").Addr()}, nil
			}
		})
		beta := s.start("beta")
		s.allSee(10*time.Second, alpha, beta)
		failing := alpha.JoinState().Failing
		if len(failing) != 1 || failing[0].Seed != "source" || failing[0].Err != "line 2: nonsense; line 3: nonsense; look up gone.lan: no such host" {
			t.Fatalf("failing are %+v", failing)
		}
		if in := time.Until(failing[0].Next); in < 0 || in > steadyHigh {
			t.Errorf("the next attempt is in %v", in)
		}
		time.Sleep(5 * time.Minute)
		if said := len(s.log.lines("seed not resolved, trying again: addr=source")); said < 3 || said > 6 { // at the first attempt after a minute
			t.Errorf("said %d times in five minutes", said)
		}
		if asked.Load() < 8 {
			t.Errorf("asked %d times in five minutes; expected it at each attempt", asked.Load())
		}
		broken.Store(false)
		s.within(steadyHigh+time.Second, "nothing fails", func() bool { return len(alpha.JoinState().Failing) == 0 })
		broken.Store(true)
		s.within(steadyHigh+time.Second, "the source fails again", func() bool { return len(alpha.JoinState().Failing) == 1 })
		alpha.SetSeeds([]string{"beta.lan"})
		time.Sleep(time.Minute)
		if failing := alpha.JoinState().Failing; len(failing) > 0 {
			t.Errorf("failing are %+v, of a seed that is gone", failing)
		}
	})
}

// TestASeedThatHangs keeps no other from being tried, and is not asked twice at a time.
func TestASeedThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		var asked atomic.Int32
		beta := s.start("beta")
		alpha := s.startWith("alpha", func(cfg *Config) {
			cfg.Seeds = []string{"source", "beta.lan"}
			cfg.Find = func(ctx context.Context, seed string) ([]string, error) {
				if seed == "source" {
					asked.Add(1)
					<-ctx.Done()
				}
				return []string{addrOf("beta").String()}, nil
			}
		})
		s.allSee(2*time.Second, alpha, beta)
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times while it hung", n)
		}
	})
}

// TestASourceThatLies names many addresses where nobody answers: seeds and lost members do not
// wait for these, not even one that the source names, too.
func TestASourceThatLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		var nobody []string
		for i := range byte(255) {
			addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, i}), defaultPort)
			s.lan.Host("hole"+addr.String(), addr) // takes streams and answers nothing
			nobody = append(nobody, addr.String())
		}
		nobody = append(nobody, addrOf("beta").String())
		var isOn atomic.Bool
		alpha := s.startWith("alpha", func(cfg *Config) {
			cfg.Seeds = []string{"source", addrOf("beta").String()}
			cfg.Find = func(_ context.Context, seed string) ([]string, error) {
				if seed == "source" {
					return nobody, nil
				}
				if !isOn.Load() {
					return nil, errors.New("not yet")
				}
				return []string{seed}, nil
			}
		})
		time.Sleep(5 * time.Second) // all holes wait for a slot, or have one
		if n := len(alpha.rejoin.hinted); n != maxHinted || len(alpha.rejoin.joining) > 0 {
			t.Fatalf("%d attempts at what the source gave, %d others", n, len(alpha.rejoin.joining))
		}
		isOn.Store(true)
		beta := s.start("beta")
		s.allSee(2*time.Second, alpha, beta)
	})
}

func TestErrorsInOneLine(t *testing.T) {
	for in, want := range map[string]string{"a": "a", "a\nb": "a; b", "a\nb\nc": "a; b; c", "a\nb\nc\nd\ne": "a; b; c; and 2 more"} {
		if got := inOneLine(errors.New(in)).Error(); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if inOneLine(nil) != nil {
		t.Error("nothing became an error")
	}
}

// TestAYoungAgentAsksAgain: twice more, though its seed lives.
func TestAYoungAgentAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		beta := s.start("beta")
		alpha := s.start("alpha", "beta")
		s.allSee(time.Second, alpha, beta)
		time.Sleep(firstFor)
		if n := len(s.log.lines("Initiating push/pull sync with:  ")); n != 1+len(settled) {
			t.Errorf("%d exchanges; expected the join and %d more", n, len(settled))
		}
	})
}

// The first failure at an address is not said. The second one is, however long after it.
func TestASecondFailureIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha := s.start("alpha")
		for want := range 2 {
			alpha.join(addrOf("nobody"), false, true)
			time.Sleep(2 * minuteBetween)
			if n := len(s.log.lines("join failed")); n != want {
				t.Errorf("%d lines, expected %d", n, want)
			}
		}
	})
}

// TestALossIsFollowedUp: whoever lost a member does not sleep out the pause that
// it is in.
func TestALossIsFollowedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		var attempts atomic.Int32
		alpha := s.startWith("alpha", func(cfg *Config) {
			cfg.Seeds = []string{"beta.lan"}
			cfg.Resolve = func(context.Context, string) ([]netip.Addr, error) {
				attempts.Add(1)
				return []netip.Addr{addrOf("beta").Addr()}, nil
			}
		})
		beta := s.start("beta")
		s.allSee(40*time.Second, alpha, beta)
		beta.kill()
		s.within(20*time.Second, "alpha knows that beta died", func() bool { return len(alpha.sees()) == 0 })
		attempts.Store(0)
		time.Sleep(time.Minute)
		if n := attempts.Load(); n < 13 || n > 60 { // one in 1–5 s; one in 5–30 s would be 12 at most
			t.Errorf("%d attempts in the minute after the loss", n)
		}
	})
}

func TestIsSelf(t *testing.T) {
	cases := []struct {
		own, addr string
		self      bool
	}{
		{"10.0.0.7:7950", "10.0.0.7:7950", true},
		{"10.0.0.7:7950", "10.0.0.7:7951", false},
		{"10.0.0.7:7950", "127.0.1.1:7950", true},
		{"10.0.0.7:7950", "127.0.1.1:7951", false}, // another agent on this host
		{"127.0.0.1:7950", "127.0.0.2:7950", false},
		{"[fd00::7]:7950", "[::1]:7950", true},
	}
	for _, c := range cases {
		m := Membership{admit: admission{self: Member{Addr: netip.MustParseAddrPort(c.own)}}}
		if got := m.isSelf(netip.MustParseAddrPort(c.addr)); got != c.self {
			t.Errorf("%s is us at %s: %v", c.addr, c.own, got)
		}
	}
}

func TestAloneWithoutSeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.start("alpha")
		time.Sleep(150 * time.Second)
		if n := len(s.log.lines("alone without seeds")); n < 2 || n > 3 {
			t.Errorf("%d lines in two and a half minutes; expected one a minute", n)
		}
	})
}

// TestWhereMembersWereBefore: an address of before this life is tried until a member is met there,
// and not again when that one has left.
func TestWhereMembersWereBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha := s.startWith("alpha", func(cfg *Config) { cfg.Lost = []netip.AddrPort{addrOf("beta")} })
		time.Sleep(time.Minute)
		if alpha.JoinState().LastErrorAt.IsZero() {
			t.Fatal("nothing was tried where beta was")
		}
		beta := s.start("beta")
		s.allSee(steadyHigh+time.Second, alpha, beta)
		time.Sleep(steadyHigh + time.Second) // alpha looks for who is absent once more
		if err := beta.Leave(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		beta.kill()
		s.within(time.Minute, "alpha knows that beta left", func() bool { return len(alpha.sees()) == 0 })
		time.Sleep(time.Minute) // what was under way has ended
		before := alpha.JoinState().LastErrorAt
		time.Sleep(5 * time.Minute)
		if last := alpha.JoinState().LastErrorAt; last != before {
			t.Errorf("%s was tried, %v after beta had left", addrOf("beta"), last.Sub(before))
		}
	})
}

// TestRejoinEndsWithItsContext, whatever is under way.
func TestRejoinEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha := s.start("alpha", "beta")
		s.lan.Host("beta", addrOf("beta")) // takes streams and answers nothing
		time.Sleep(time.Second)
		alpha.stop()
		synctest.Wait()
		select {
		case err := <-alpha.rejoined:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
		default:
			t.Error("goes on")
		}
	})
}

func TestExplain(t *testing.T) {
	one := func(cause string) string {
		return "1 error occurred:\n\t* failed to join [fd00::7]:7950: " + cause + "\n\n"
	}
	const closed = "connection closed without an answer: it is in another cluster, has a key while this host has none, or is no bully-agent"
	cases := []struct{ text, want string }{
		{one("dial tcp [fd00::7]:7950: connection refused"), "dial tcp [fd00::7]:7950: connection refused"},
		{one("EOF"), closed},
		{one("write tcp x: connection reset by peer"), closed},
		{one("dial tcp [fd00::7]:7950: the other end did not prove that it has a key of ours: it has none of this host's keys"),
			"dial tcp [fd00::7]:7950: the other end did not prove that it has a key of ours: it has none of this host's keys"},
		{"failed to join x", ""},
		{"something else", "something else"},
		{"", ""},
	}
	for _, c := range cases {
		if got := explain(errors.New(c.text)).Error(); got != c.want {
			t.Errorf("%q is explained as %q; expected %q", c.text, got, c.want)
		}
	}
}
