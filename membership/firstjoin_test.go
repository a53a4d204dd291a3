package membership

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestTheFirstJoinHasAnOutcome once, and as soon as it is known who is there: when a member of another id was met, or when
// nobody is where the seeds say.
func TestTheFirstJoinHasAnOutcome(t *testing.T) {
	const soon = 50 * time.Millisecond
	for name, c := range map[string]struct {
		seeds []string
		want  time.Duration // at the latest
		least time.Duration
	}{
		"without seeds":                  {nil, soon, 0},
		"nothing runs there":             {[]string{"delta"}, soon, 0},
		"a member":                       {[]string{"beta"}, soon, 0},
		"a member and nothing":           {[]string{"beta", "delta"}, soon, 0},
		"a member and one that is stuck": {[]string{"stuck", "beta"}, soon, 0},
		"one that is stuck":              {[]string{"stuck"}, JoinTimeout + soon, JoinTimeout},
		"a copy and one that is stuck":   {[]string{"copy", "stuck"}, JoinTimeout + soon, JoinTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t)
				s.start("beta")
				s.lan.Host("stuck", addrOf("stuck")) // takes streams and answers nothing
				if slices.Contains(c.seeds, "copy") {
					s.startWith("copy", func(cfg *Config) { cfg.Self.ID, cfg.Self.Nonce = idOf("alpha"), 99 })
				}
				began := time.Now()
				alpha := s.start("alpha", c.seeds...)
				s.within(10*time.Second, "its first join has an outcome", func() bool { return alpha.joinsEnded() > 0 })
				if took := time.Since(began); took < c.least || took > c.want {
					t.Errorf("after %v; expected %v to %v", took, c.least, c.want)
				}
				time.Sleep(time.Minute)
				if n := alpha.joinsEnded(); n != 1 {
					t.Errorf("told %d times", n)
				}
			})
		})
	}
}

// TestALifeThatHasToAnswerFirst is met once it has answered: until then its join has no outcome.
func TestALifeThatHasToAnswerFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.start("beta")
		s.lan.SetDelay(200*time.Millisecond, 200*time.Millisecond)
		alpha := s.startWith("alpha", func(cfg *Config) {
			cfg.Seeds = []string{addrOf("beta").String()}
		})
		s.within(10*time.Second, "its first join has an outcome", func() bool { return alpha.joinsEnded() > 0 })
		alpha.mu.Lock()
		defer alpha.mu.Unlock()
		if first := alpha.told[0]; first.Kind != Joined || first.Member.Name != "beta" {
			t.Errorf("told %v; expected to meet beta first", alpha.told)
		}
	})
}

func (a *agent) joinsEnded() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, e := range a.told {
		if e.Kind == JoinEnded {
			n++
		}
	}
	return n
}
