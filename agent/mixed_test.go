package agent

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// lines keeps what one agent logs.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// with counts the lines that have all the words.
func (l *lines) with(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.SplitSeq(l.text.String(), "\n") {
		found := true
		for _, w := range words {
			found = found && strings.Contains(line, w)
		}
		if found {
			n++
		}
	}
	return n
}

// logging keeps what h says.
func (h *testHost) logging() *lines {
	l, also := &lines{}, h.settings
	h.settings = func(cfg *Config) {
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: h.name, Level: hclog.Info, Output: l})
		if also != nil {
			also(cfg)
		}
	}
	return l
}

// also changes what start gives h, after what changes it already.
func (h *testHost) also(change func(*Config)) {
	before := h.settings
	h.settings = func(cfg *Config) {
		if before != nil {
			before(cfg)
		}
		change(cfg)
	}
}

// expectGivesWay: h ends by itself with a refusal that has all the words.
func (c *cluster) expectGivesWay(h *testHost, words ...string) {
	c.t.Helper()
	var err error
	select {
	case err = <-h.done:
		h.agent = nil
	case <-time.After(time.Minute):
		c.t.Errorf("%s did not give way: %+v", h.name, h.agent.Status())
		return
	}
	var refused *Refusal
	if !errors.As(err, &refused) || refused.ExitCode() != 7 || !errors.Is(err, ErrSettings) {
		c.t.Errorf("%s ended with %v, want a refusal", h.name, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			c.t.Errorf("%q lacks %q", err, w)
		}
	}
}

// Each setting that all must agree on keeps a newcomer out of a cluster that
// lives, whatever its rank: it ends with both values and both names, and each of
// the others names it in one line.
func TestMixedSettingsAreRefused(t *testing.T) {
	cases := map[string]struct {
		change func(*election.Config)
		says   string
	}{
		"algorithm":     {func(e *election.Config) { e.Algorithm = election.Enhanced }, "algorithm: enhanced here, classic at n"},
		"order":         {func(e *election.Config) { e.Algorithm = election.Smallest }, "algorithm: smallest here, classic at n"},
		"mode":          {func(e *election.Config) { e.Expect = 3 }, "mode: quorum here, available at n"},
		"heartbeat":     {func(e *election.Config) { e.Heartbeat, e.Lease = 40*time.Millisecond, 400*time.Millisecond }, "heartbeat: 40ms here, 50ms at n"},
		"lease":         {func(e *election.Config) { e.Lease, e.StopBudget = time.Second, 100*time.Millisecond }, "lease: 1s here, 400ms at n"},
		"stop budget":   {func(e *election.Config) { e.StopBudget = 50 * time.Millisecond }, "stop_budget: 50ms here, 100ms at n"},
		"takeover":      {func(e *election.Config) { e.TakeoverDelay = 2 * time.Second }, "takeover_delay: 2s here, 0s at n"},
		"preempt":       {func(e *election.Config) { e.Preempt = election.PreemptAlways }, "preempt: always here, priority at n"},
		"preempt never": {func(e *election.Config) { e.Preempt = election.PreemptNever }, "preempt: never here, priority at n"},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				low, lead, odd := c.hosts[0], c.hosts[1], c.hosts[2]
				logs := []*lines{low.logging(), lead.logging()}
				c.start(low)
				c.start(lead)
				c.agrees(lead)
				time.Sleep(5 * time.Second)
				odd.also(func(cfg *Config) { tt.change(&cfg.Election) })
				c.start(odd)
				c.expectGivesWay(odd, "n3 does not join the cluster of n", tt.says)
				time.Sleep(10 * time.Second)
				c.agrees(lead)
				for i, l := range logs {
					if n := l.with("[WARN]", "member has other settings", "member=n3", strings.Split(tt.says, ":")[0]+": "); n != 1 {
						t.Errorf("%s named it in %d lines, want 1:\n%s", c.hosts[i].name, n, l.text.String())
					}
				}
				lead.expectHooks(t, "become-leader 1 boot")
				odd.expectHooks(t)
				if s := lead.agent.Status(); s.Members != 2 {
					t.Errorf("%d members are known after it has left, want 2", s.Members)
				}
				c.stopAll()
			})
		})
	}
}

// Two that are new and do not agree: the better one stays, and leads.
func TestMixedSettingsOfNewcomers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		worse, better := c.hosts[0], c.hosts[1]
		worse.also(func(cfg *Config) { cfg.Election.Lease = time.Second })
		log := better.logging()
		c.start(worse)
		c.start(better)
		c.expectGivesWay(worse, "n1 does not join the cluster of n2", "lease: 1s here, 400ms at n2", "stop_budget: 250ms here, 100ms at n2")
		c.agrees(better)
		if n := log.with("[WARN]", "member has other settings", "member=n1", "lease: 400ms here, 1s at n1"); n != 1 {
			t.Errorf("n2 named it in %d lines, want 1:\n%s", n, log.text.String())
		}
		c.stopAll()
	})
}

// Two clusters that met late go on each for itself: nobody who leads or follows
// is stopped by a stranger, and both say what is wrong.
func TestMixedSettingsOfTwoThatLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		a, b := c.hosts[0], c.hosts[1]
		b.settings = func(cfg *Config) { cfg.Election.Preempt = election.PreemptNever }
		c.lan.Partition([]string{"n1"}, []string{"n2"})
		c.start(a)
		c.start(b)
		time.Sleep(10 * time.Second)
		c.lan.Heal()
		time.Sleep(time.Minute)
		for _, h := range c.hosts {
			other := map[*testHost]string{a: "n2", b: "n1"}[h]
			s := h.agent.Status()
			if !s.LeaderIsSelf || !hasNote(s, other+" takes no part here, settings that must be the same on all nodes differ: preempt: ") {
				t.Errorf("%s: leads %t, notes %q", h.name, s.LeaderIsSelf, s.Notes)
			}
			if got := h.notesOn(t, other); !slices.Equal(got, []string{"settings differ"}) {
				t.Errorf("%s lists %s with the notes %q", h.name, other, got)
			}
			if got := h.notesOn(t, h.name); len(got) > 0 {
				t.Errorf("%s lists itself with the notes %q", h.name, got)
			}
			if ran := h.hooks.ran(); len(ran) != 1 {
				t.Errorf("%s ran hooks %q", h.name, ran)
			}
		}
		c.stopAll()
	})
}

// notesOn are those that the host's list of members has on one of them.
func (h *testHost) notesOn(t *testing.T, name string) []string {
	t.Helper()
	for _, m := range h.agent.Members() {
		if m.Name == name {
			return m.Notes
		}
	}
	t.Errorf("%s does not list %s", h.name, name)
	return nil
}

// Both sides come to one result: exactly one of two gives way, or none if both
// are settled.
func TestWhoGivesWay(t *testing.T) {
	for _, settledA := range []bool{false, true} {
		for _, settledB := range []bool{false, true} {
			for _, priorityB := range []uint16{9, 10, 11} {
				a := membership.Member{ID: wire.ID{1}, Priority: 10, Settled: settledA}
				b := membership.Member{ID: wire.ID{2}, Priority: priorityB, Settled: settledB}
				goesA, goesB := (&view{self: a}).mustGiveWayTo(b), (&view{self: b}).mustGiveWayTo(a)
				what := fmt.Sprintf("a settled %t, b settled %t with priority %d", settledA, settledB, priorityB)
				switch {
				case settledA && settledB && (goesA || goesB), goesA && settledA, goesB && settledB:
					t.Errorf("%s: a settled one gives way", what)
				case !(settledA && settledB) && goesA == goesB:
					t.Errorf("%s: a goes %t, b goes %t", what, goesA, goesB)
				case !settledA && !settledB && goesA != (priorityB >= 10):
					t.Errorf("%s: the better one gives way", what)
				}
			}
		}
	}
}

// The longest text of settings fits where it is sent.
func TestSettingsFitTheMeta(t *testing.T) {
	longest := election.Config{Algorithm: election.Enhanced, Heartbeat: 59*time.Second + 999*time.Millisecond + 999*time.Microsecond + 999,
		Lease: 9*time.Minute + 59*time.Second + 999*time.Millisecond + 1, StopBudget: 4*time.Minute + 59*time.Second + 999*time.Millisecond + 1,
		TakeoverDelay: 59*time.Minute + 59*time.Second + 999*time.Millisecond + 1}
	if n := len(longest.Describe()); n > membership.MaxSettings {
		t.Errorf("settings of %d bytes, and %d fit: %s", n, membership.MaxSettings, longest.Describe())
	}
}
