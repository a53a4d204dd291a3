package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// The best host leads, the next one after its death, and the best one again
// once it is back, by a hand-over.
func TestPriorityDecides(t *testing.T) {
	eachSize(t, func(t *testing.T, n int) {
		l := newLAN(t, n)
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
		l.gap(on(next, loseEnd), on(best, becomeBegin))
		l.journal.order(on(best, isKilled), on(best, loseBegin).because("agent-died"), on(best, loseEnd), on(best, becomeBegin))
		l.journal.order(
			on(best, becomeBegin).because("boot"), on(best, becomeEnd), on(best, isKilled),
			on(next, becomeBegin), on(next, becomeEnd), on(best, isStarted),
			on(next, loseBegin).because("preempted"), on(next, loseEnd),
			on(best, becomeBegin).because("handed-over"), on(best, becomeEnd))
	})
}

// A random id is no reason to move a running service.
func TestEqualPrioritiesStay(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	for _, h := range l.hosts {
		h.priority = 50
	}
	l.start()
	first := l.agree()
	first.kill()
	second := l.agree()
	first.start()
	l.agreeOn(second)
	l.steady(second, 3*time.Second) // ten times the preempt delay
	l.led(first, second)
}

// The textbook's rule: the highest id leads whenever it is there.
func TestPreemptAlways(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3, "--preempt", "always")
	for _, h := range l.hosts {
		h.priority = 50
	}
	l.start()
	first := l.agree()
	byID := slices.SortedFunc(slices.Values(l.hosts), func(a, b *host) int { return compareIDs(t, b, a) })
	if first != byID[0] {
		t.Fatalf("%s leads; %s has the highest id", first, byID[0])
	}
	first.kill()
	l.agreeOn(byID[1])
	first.start()
	l.agreeOn(first)
	l.led(first, byID[1], first)
}

func compareIDs(t *testing.T, a, b *host) int {
	t.Helper()
	sa, err := a.status()
	must(t, err)
	sb, err := b.status()
	must(t, err)
	switch { // lower-case hexadecimal of one length: its order is that of the bytes
	case sa.Self.ID < sb.Self.ID:
		return -1
	case sa.Self.ID > sb.Self.ID:
		return 1
	}
	return 0
}

// Hosts are stopped and started one after the other, as for an upgrade. At no
// time do two lead, and the leadership moves by hand-over only.
func TestRollingRestart(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	for mode, options := range map[string][]string{"available": nil, "quorum": {"--expect", "3"}} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			rollingRestart(t, options...)
		})
	}
}

func rollingRestart(t *testing.T, options ...string) {
	l := newLAN(t, 3, options...)
	l.start()
	best, next := l.best(), l.next()
	l.agreeOn(best)
	for _, h := range l.hosts {
		if code := h.stop(); code != 0 {
			t.Fatalf("the agent of %s exited with %d after SIGTERM", h, code)
		}
		l.agree()
		if left := h.net.Processes(); len(left) > 0 {
			t.Errorf("processes %v were left behind on %s", left, h)
		}
		h.start()
		l.agreeOn(best)
		if len(options) > 0 { // a restarted voter grants nothing for its hold, and the leader would pass it over
			time.Sleep(time.Second)
		}
	}
	l.led(best, next, best)
	l.journal.order(
		on(best, isStopped), on(best, loseBegin).because("stopped"), on(best, loseEnd),
		on(next, becomeBegin).because("handed-over"), on(next, loseBegin).because("preempted"), on(next, loseEnd),
		on(best, becomeBegin).because("handed-over"))
	l.gap(on(best, loseEnd), on(next, becomeBegin))
}

// All agents die at once. The next leadership has a higher epoch than any
// before, and the lose hook of the old one comes first.
func TestTotalRestart(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	l.start()
	best := l.best()
	l.agreeOn(best)
	for _, h := range l.hosts {
		h.kill()
	}
	l.start()
	l.agreeOn(best)
	l.led(best, best)
	l.journal.order(on(best, becomeEnd), on(best, isKilled), on(best, loseBegin).because("agent-died"), on(best, loseEnd), on(best, becomeBegin))
}

// An agent that is killed and comes back before anybody could miss it does not
// pretend that nothing happened.
func TestKilledAndRestartedAtOnce(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	l.start()
	best := l.best()
	l.agreeOn(best)
	best.kill()
	best.start()
	l.eventually("the lose hook has run", patience, func() error {
		if l.journal.last(best, loseEnd).Epoch.Counter == 0 {
			return fmt.Errorf("no lose hook on %s", best)
		}
		return nil
	})
	l.eventually("a new epoch", patience, func() error {
		s, err := best.status()
		if err == nil && (!s.LeaderIsSelf || s.Epoch.Counter <= l.journal.last(best, loseEnd).Epoch.Counter) {
			err = fmt.Errorf("epoch %d, %s", s.Epoch.Counter, s.State)
		}
		return err
	})
	l.agreeOn(best)
}

// Two clusters share a switch and know each other's addresses, and have nothing
// to do with each other.
func TestClustersKeepApart(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	l.mayOverlap("each of the two clusters has a leader")
	red, blue := l.hosts[:2], l.hosts[2:]
	for _, h := range red {
		h.options = []string{"--cluster", "red"}
	}
	for _, h := range blue {
		h.options = []string{"--cluster", "blue"}
	}
	l.start()
	l.agreeOn(red[1], red...)
	l.agreeOn(blue[1], blue...)
	l.steady(red[1], 2*time.Second, red...)
	l.agreeOn(blue[1], blue...)
	for i, h := range l.hosts {
		s, err := h.status()
		must(t, err)
		if want := []string{"red", "red", "blue", "blue"}[i]; s.Cluster != want {
			t.Errorf("%s is in cluster %s, expected %s", h, s.Cluster, want)
		}
		if s.Members != 2 {
			t.Errorf("%s knows %d members, expected the 2 of its cluster", h, s.Members)
		}
	}
	if got := l.journal.becomes(); len(got) != 2 {
		t.Errorf("become-leader hooks ran on %v, expected one in each cluster", got)
	}
}

// Hosts that have only IPv6 elect, without a word about it in their options, and
// on links with the smallest MTU that IPv6 allows.
func TestIPv6Only(t *testing.T) {
	t.Parallel()
	l := newLANOf(t, ipv6, 3)
	for _, h := range l.hosts {
		l.ip(h.net.Namespace, "link set eth0 mtu 1280")
	}
	l.start()
	l.agreeOn(l.best())
	l.best().kill()
	l.agreeOn(l.next())
	l.led(l.best(), l.next())
	s, err := l.next().status()
	must(t, err)
	if want := l.next().addr.String(); s.Self.Addr != want {
		t.Errorf("%s is reached at %s, expected %s", l.next(), s.Self.Addr, want)
	}
}

// What a user on a host is told agrees with what the hooks did.
func TestCommandsOnHosts(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	l.start()
	for _, h := range l.hosts {
		if _, code := h.cli("wait", "--for", "members=3", "--timeout", "30s"); code != 0 {
			t.Fatalf("wait on %s: exit code %d", h, code)
		}
	}
	l.agreeOn(l.best())
	for _, h := range l.hosts {
		want := 1
		if h == l.best() {
			want = 0
		}
		if _, code := h.cli("is-leader", "-q"); code != want {
			t.Errorf("is-leader on %s: exit code %d, expected %d", h, code, want)
		}
	}
	h := l.hosts[0]
	h.kill()
	if _, code := h.cli("is-leader"); code != 4 {
		t.Errorf("is-leader without an agent: exit code %d, expected 4", code)
	}
}
