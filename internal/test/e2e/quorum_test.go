package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// Quorum mode on real hosts: whatever happens, never do two lead. No test here
// calls mayOverlap, so the verdict at its end holds them all to that.

// newQuorum is a LAN of three voters.
func newQuorum(t *testing.T, options ...string) *lan {
	t.Helper()
	return newLAN(t, 3, append([]string{"--expect", "3"}, options...)...)
}

// A killed leader is followed by the next one when its keeper has ended what it led, and
// has said so.
func TestQuorumOutlivesALeader(t *testing.T) {
	t.Parallel()
	l := newQuorum(t)
	best, next := l.best(), l.next()
	l.start()
	l.agreeOn(best)
	l.led(best)

	best.kill()
	l.agreeOn(next)
	l.led(best, next)
	l.gap(on(best, isKilled), on(next, becomeBegin))

	best.start()
	l.agreeOn(best)
	l.led(best, next, best)
	l.journal.order(
		on(best, becomeBegin).because("boot"), on(best, isKilled), on(best, loseBegin).because("agent-died"), on(best, loseEnd),
		on(next, becomeBegin), on(best, isStarted),
		on(next, loseBegin).because("preempted"), on(next, loseEnd), on(best, becomeBegin).because("handed-over"))
}

// The leader is killed, and its lose hook takes long. With one more voter gone the others
// need its vote: they have it when the lease has ended, and not when the hook has ended. Before
// that its host does not stand.
func TestASlowLoseHookSilencesNoVoter(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(h *host){
		"the last keeper runs it": (*host).kill,
		"this life's keeper does": (*host).killWithKeeper,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newQuorum(t)
			low, best, next := l.hosts[0], l.best(), l.next()
			best.onLose = "sleep 10"
			l.start()
			l.agreeOn(best)
			low.kill()
			kill(best)
			best.start()
			l.agreeOn(next)
			s, err := best.status()
			must(t, err)
			if !slices.ContainsFunc(s.Notes, func(n string) bool {
				return strings.Contains(n, "cannot lead yet: the lose-leadership hook of epoch 1")
			}) {
				t.Errorf("%s does not say why it does not stand: %q", best, s.Notes)
			}
			l.agreeOn(best)
			l.journal.order(on(best, isStarted), on(next, becomeBegin), on(best, loseEnd), on(next, loseEnd), on(best, becomeBegin).because("handed-over"))
			l.led(best, next, best)
		})
	}
}

// Where nobody can say that nothing of a dead leader's acts any more, its lease is waited
// out: that its process is gone is no proof.
func TestQuorumWaitsForTheLease(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(l *lan, best *host){
		"the keeper is killed, too": func(l *lan, best *host) {
			must(l.t, syscall.Kill(l.keeperOf(best, 0), syscall.SIGSTOP)) // so that it does not see the agent's death
			best.kill()
			for _, pid := range best.net.Processes() {
				must(l.t, syscall.Kill(pid, syscall.SIGKILL))
			}
		},
		"somebody acts on the lease": func(l *lan, best *host) {
			best.run(append([]string{"hold", "--"}, l.command("")...)...)
			l.lives(best, 1)
			best.kill()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newQuorum(t)
			best, next := l.best(), l.next()
			l.start()
			l.agreeOn(best)
			kill(l, best)
			l.agreeOn(next)
			// The lease of 400 ms runs from the last heartbeat, at most 50 ms old.
			if took := l.journal.last(next, becomeBegin).At - l.journal.last(best, isKilled).At; took < 300*time.Millisecond {
				t.Errorf("%s took over after %v, which is within the lease", next, took)
			}
		})
	}
}

// A leader that is cut off with a minority has let go when the majority's
// begins, and nobody in the minority leads, for as long as the cut lasts.
func TestQuorumLeaderInMinority(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	tests := []struct {
		name  string
		hosts int
		how   func(l *lan, minority []*host)
		why   string // nobody leads, as the minority says
	}{
		{"alone, silently", 3, func(l *lan, minority []*host) { l.cut(minority[0]) }, "of 3 voters"},
		{"alone, unplugged", 3, func(l *lan, minority []*host) { l.unplug(minority[0]) }, "the link of this host is down"},
		{"two of five", 5, func(l *lan, minority []*host) { l.split(minority...) }, "of 5 voters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, tt.hosts, "--expect", fmt.Sprint(tt.hosts))
			l.hasRoomToLetGo()
			l.start()
			best := l.best()
			l.agreeOn(best)

			majority, minority := l.hosts[:tt.hosts/2+1], l.hosts[tt.hosts/2+1:]
			next := majority[len(majority)-1]
			tt.how(l, minority)
			l.agreeOn(next, majority...)
			l.journal.order(on(best, loseBegin), on(best, loseEnd), on(next, becomeBegin))
			l.gap(on(best, loseEnd), on(next, becomeBegin))
			for _, h := range minority {
				l.sayNoLeader(h, tt.why, 2*time.Second)
			}
			l.led(best, next)

			l.plug(best) // first, or the second best may lead in between
			l.agreeOn(best, append(slices.Clone(majority), best)...)
			for _, h := range minority[:len(minority)-1] {
				l.plug(h)
			}
			l.agreeOn(best)
			l.led(best, next, best)
			l.journal.order(on(next, becomeBegin), on(next, loseBegin), on(next, loseEnd), on(best, becomeBegin))
		})
	}
}

// sayNoLeader waits until the agent of h knows no leader and says why in a
// sentence with these words, and watches that this lasts for d.
func (l *lan) sayNoLeader(h *host, why string, d time.Duration) {
	l.t.Helper()
	leaderless := func() (s control.Status, err error) {
		s, err = h.status()
		switch {
		case err != nil:
		case s.Leader != nil || s.LeaderIsSelf:
			err = fmt.Errorf("%s follows %s", h, s.Leader.Name)
		case !strings.Contains(s.WhyNoLeader, why):
			err = fmt.Errorf("%s says why nobody leads: %q, expected %q in it", h, s.WhyNoLeader, why)
		}
		return s, err
	}
	l.eventually(fmt.Sprintf("%s knows no leader", h), patience, func() error {
		_, err := leaderless()
		return err
	})
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if s, err := leaderless(); err != nil {
			l.t.Fatalf("%v (%s)", err, s.Cause)
		}
	}
	s, err := leaderless()
	must(l.t, err)
	l.t.Logf("%s says: %s", h, s.WhyNoLeader)
}

// One of three is no majority: it does not lead, at the start or later, says
// why, and leads as soon as a second one is back.
func TestQuorumOneOfThree(t *testing.T) {
	t.Parallel()
	l := newQuorum(t)
	first, best := l.hosts[0], l.best()
	l.start(first)
	l.sayNoLeader(first, "waiting for 3 voters, 1 seen", 2*time.Second)
	if becomes := l.journal.becomes(); len(becomes) > 0 {
		t.Fatalf("%v began to lead alone", becomes)
	}
	l.start(l.hosts[1:]...)
	l.agreeOn(best)

	best.kill()
	l.next().kill()
	l.sayNoLeader(first, "of 3 voters", 3*time.Second)
	l.led(best)
	if _, code := first.cli("leader"); code != 3 {
		t.Errorf("leader on %s: exit code %d, expected 3", first, code)
	}
	out, _ := first.cli("status")
	if !strings.Contains(out, "of 3 voters") {
		t.Errorf("status does not say why nobody leads:\n%s", out)
	}
	l.next().start() // two can elect: the first at once, or the better one once it has settled
	l.agreeOn(l.next())
}

// step-down moves the leadership cleanly, to the best other or to whom it names, in both modes.
func TestOrdersMoveTheLeadership(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	for mode, options := range map[string][]string{"available": nil, "quorum": {"--expect", "3"}} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 3, append(options, "--preempt", "never")...)
			l.start()
			first, last := l.agree(), l.hosts[0]
			if first == last {
				t.Fatalf("%s leads first", last)
			}
			l.knowEachOther()
			l.order(first, "step-down", "--to", last.name)
			l.agreeOn(last)
			l.journal.order(on(first, loseBegin), on(first, loseEnd), on(last, becomeBegin).because("handed-over"))
			l.gap(on(first, loseEnd), on(last, becomeBegin))

			l.order(last, "step-down", "--for", "1m")
			second := l.agree()
			if second == last {
				t.Errorf("%s leads in spite of its step-down", last)
			}
			l.journal.order(on(last, becomeBegin), on(last, loseBegin), on(last, loseEnd), on(second, becomeBegin).because("handed-over"))
			l.led(first, last, second)

			if _, code := last.cli("step-down", "--to", first.name); code != 6 {
				t.Errorf("step-down on %s, which does not lead: exit code %d, expected 6", last, code)
			}
			if _, code := second.cli("step-down", "--to", "nobody"); code != 6 {
				t.Errorf("step-down to nobody: exit code %d, expected 6", code)
			}
			l.steady(second, time.Second)
		})
	}
}

// order gives an order to h, which must carry it out.
func (l *lan) order(h *host, args ...string) {
	l.t.Helper()
	if out, code := h.cli(args...); code != 0 {
		l.t.Fatalf("%v on %s: exit code %d: %s", args, h, code, out)
	}
}

// knowEachOther waits until all that run know all.
func (l *lan) knowEachOther() {
	l.t.Helper()
	for _, h := range l.running() {
		l.eventually(fmt.Sprintf("%s knows all", h), patience, func() error {
			s, err := h.status()
			if err == nil && s.Alive != len(l.running()) {
				err = fmt.Errorf("%d hosts are alive to it", s.Alive)
			}
			return err
		})
	}
}

// Each algorithm elects its best host, replaces it when it dies, and has it back.
func TestAlgorithms(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	tests := []struct {
		algorithm  string
		options    []string
		best, next int // of the hosts
	}{
		{"classic", []string{"--expect", "3"}, 2, 1},
		{"enhanced", nil, 2, 1},
		{"enhanced", []string{"--expect", "3"}, 2, 1},
		{"smallest", nil, 0, 1},
		{"smallest", []string{"--expect", "3"}, 0, 1},
	}
	for _, tt := range tests {
		t.Run(strings.Join(append([]string{tt.algorithm}, tt.options...), " "), func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 3, append(tt.options, "--algorithm", tt.algorithm)...)
			best, next := l.hosts[tt.best], l.hosts[tt.next]
			l.start()
			l.agreeOn(best)
			s, err := best.status()
			must(t, err)
			if s.Algorithm != tt.algorithm {
				t.Errorf("the agents run algorithm %q", s.Algorithm)
			}
			best.kill()
			l.agreeOn(next)
			l.gap(on(best, isKilled), on(next, becomeBegin))
			best.start()
			l.agreeOn(best)
			l.led(best, next, best)
		})
	}
}
