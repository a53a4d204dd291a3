package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A leader that is cut off alone lets go before anybody takes over: its lose
// hook has ended when the next become hook begins. Both hosts are well, but
// cannot say a word to each other; only the lease orders them.
func TestCutLeaderLetsGoFirst(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	tests := []struct {
		name string
		how  func(l *lan, h *host)
	}{
		{"silently", (*lan).cut},     // the switch is gone, the carrier stays
		{"unplugged", (*lan).unplug}, // the carrier goes
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 3)
			l.hasRoomToLetGo()
			best, next := l.best(), l.next()
			l.start()
			l.agreeOn(best)

			tt.how(l, best)
			l.agreeOn(next, l.except(best)...)
			l.journal.order(
				on(best, isCut), on(best, loseBegin), on(best, loseEnd),
				on(next, becomeBegin).because("leader-failed"), on(next, becomeEnd))
			l.gap(on(best, isCut), on(best, loseEnd))
			l.gap(on(best, loseEnd), on(next, becomeBegin))
			l.led(best, next)

			l.plug(best)
			l.agreeOn(best)
			l.journal.order(on(best, isPlugged), on(next, loseBegin), on(next, loseEnd), on(best, becomeBegin))
			l.led(best, next, best)
		})
	}
}

// A follower that is cut off and comes back changes nothing, whatever it did
// meanwhile.
func TestCutFollowerDisturbsNobody(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	l.start()
	best, lost := l.best(), l.hosts[0]
	l.agreeOn(best)
	l.cut(lost)
	l.eventually("the lost host misses its leader", patience, func() error {
		s, err := lost.status()
		if err == nil && s.Leader != nil && s.Leader.Name == best.name {
			err = fmt.Errorf("it follows %s (%s)", s.Leader.Name, s.State)
		}
		return err
	})
	l.steady(best, time.Second, l.except(lost)...)
	l.plug(lost)
	l.agreeOn(best)
	l.steady(best, time.Second)
	l.led(best)
}

// A partition splits five hosts into two and three for as long as it takes both
// halves to have a leader of their own. Afterwards they are one cluster again.
func TestPartitionHeals(t *testing.T) {
	t.Parallel()
	partition(t, 0)
}

// The same for a minute: twice as long as memberlist remembers the dead.
func TestLongPartitionHeals(t *testing.T) {
	isLong(t)
	t.Parallel()
	partition(t, time.Minute)
}

func partition(t *testing.T, lasting time.Duration) {
	l := newLAN(t, 5)
	l.mayOverlap("available mode: each half has a leader")
	l.start()
	best := l.best()
	l.agreeOn(best)

	minority, majority := l.hosts[3:], l.hosts[:3]
	begun := time.Now()
	l.split(minority...)
	l.agreeOn(majority[2], majority...)
	l.agreeOn(best, minority...)
	l.led(best, majority[2])
	for time.Since(begun) < lasting {
		l.steady(majority[2], time.Second, majority...)
		l.steady(best, time.Second, minority...)
	}
	for _, h := range minority {
		l.plug(h)
	}
	l.agreeOn(best)
	for _, h := range l.hosts {
		l.eventually(fmt.Sprintf("%s knows all", h), patience, func() error {
			s, err := h.status()
			if err == nil && s.Alive != len(l.hosts) {
				err = fmt.Errorf("%d of %d hosts are alive to it", s.Alive, len(l.hosts))
			}
			return err
		})
	}
	l.steady(best, 2*time.Second)
}

// A leader that is paused for longer than its lease cannot let go in time; its holder
// does. When it goes on, it knows that, does not let go again, and there is one
// leader in the end.
func TestPausedLeader(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	l.hasStopBudget(time.Second)
	best, next := l.best(), l.next()
	l.start()
	l.agreeOn(best)
	best.pause()
	l.agreeOn(next, l.except(best)...)
	l.gap(on(best, isPaused), on(next, becomeBegin))
	best.resume()
	l.agreeOn(best)
	l.steady(best, time.Second)
	if _, cut := l.ended(); len(cut) == 0 { // else the machine was too busy for it, and remove says so
		l.journal.order(on(best, isPaused), on(best, loseBegin).because("agent-died"), on(best, loseEnd), on(next, becomeBegin), on(best, isResumed))
	}
	l.journal.order(on(best, isPaused), on(next, becomeBegin), on(best, isResumed), on(next, loseBegin), on(next, loseEnd), on(best, becomeBegin))
	l.led(best, next, best)
}

// Between two hosts datagrams are lost while streams pass, in one direction or
// in both; every other pair is well. Everybody still reaches the leader through
// somebody, so nobody takes over (CE5, CE6).
func TestDatagramsBlockedBetweenTwo(t *testing.T) {
	needsNft(t)
	t.Parallel()
	tests := []struct {
		name   string
		filter func(l *lan, leader, other *host)
	}{
		{"both ways", func(l *lan, leader, other *host) { l.dropDatagrams(leader, other); l.dropDatagrams(other, leader) }},
		{"from the leader", func(l *lan, leader, other *host) { l.dropDatagrams(leader, other) }},
		{"to the leader", func(l *lan, leader, other *host) { l.dropDatagrams(other, leader) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 3)
			best, next := l.best(), l.next()
			l.start()
			l.agreeOn(best)
			tt.filter(l, best, next)
			l.onlyLeads(best, 6*time.Second)

			best.kill() // the filter is no obstacle to the next election
			l.agreeOn(next)
			l.led(best, next)
		})
	}
}

// dropDatagrams filters what from sends to to by UDP. It is done at the
// receiver, so that the sender sees no error.
func (l *lan) dropDatagrams(from, to *host) {
	l.t.Helper()
	l.nft(to, "table inet e2e { chain in { type filter hook input priority 0; }; }",
		"add rule inet e2e in ip saddr "+from.addr.Addr().String()+" meta l4proto udp drop")
}

// onlyLeads watches for d that leader leads by its own word and that no hook
// runs; what the others know is another matter.
func (l *lan) onlyLeads(leader *host, d time.Duration) {
	l.t.Helper()
	hooks := len(l.journal.becomes())
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		s, err := leader.status()
		must(l.t, err)
		if !s.LeaderIsSelf {
			l.t.Fatalf("%s gave up: %s, %s", leader, s.State, s.Cause)
		}
		if becomes := l.journal.becomes(); len(becomes) != hooks {
			l.t.Fatalf("%v began to lead while %s did", becomes[hooks:], leader)
		}
	}
}

// All hosts hear each other by TCP only. memberlist would call everybody alive
// for ever; the election must not.
func TestAllDatagramsBlocked(t *testing.T) {
	needsNft(t)
	t.Parallel()
	l := newLAN(t, 2)
	l.mayOverlap("available mode: without datagrams each host is a part of its own")
	a, b := l.hosts[0], l.hosts[1]
	l.start()
	l.agreeOn(b)
	l.dropDatagrams(a, b)
	l.dropDatagrams(b, a)
	l.agreeOn(a, a)
	l.agreeOn(b, b)
	for _, h := range l.hosts {
		l.nft(h, "delete table inet e2e")
	}
	l.agreeOn(b)
	l.steady(b, time.Second)
}

// A copied state directory makes two agents of one id. One of them goes on, the
// other says so and exits with the code that keeps systemd from trying again.
func TestCopiedStateDirectory(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	original, clone := l.hosts[0], l.hosts[1]
	l.start(original, l.hosts[2])
	l.agreeOn(l.hosts[2])
	original.kill()
	if out, err := exec.Command("cp", "-a", filepath.Join(original.dir, "state"), filepath.Join(clone.dir, "state")).CombinedOutput(); err != nil {
		t.Fatalf("copy the state directory: %v: %s", err, out)
	}
	l.start(original, clone)
	l.eventually("one of the two has ended", patience, func() error {
		for _, h := range []*host{original, clone} {
			select {
			case <-h.agent.done:
				return nil
			default:
			}
		}
		return fmt.Errorf("both run")
	})
	survivor, ended := original, clone
	select {
	case <-original.agent.done:
		survivor, ended = clone, original
	default:
	}
	if code := ended.exits(time.Second); code != 7 {
		t.Errorf("%s exited with %d, expected 7: the configuration is wrong", ended, code)
	}
	l.agreeOn(l.hosts[2], survivor, l.hosts[2])
	l.led(l.hosts[2])
}

// Two agents cannot share a state directory on one host.
func TestStateDirectoryInUse(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	h.start()
	l.agreeOn(h)
	_, code := h.cli("run", "--state-dir", filepath.Join(h.dir, "state"), "--socket", filepath.Join(h.dir, "other.sock"),
		"--bind", "0.0.0.0:7951", "--key", l.key())
	if code != 7 {
		t.Errorf("the second agent exited with %d, expected 7: the configuration is wrong", code)
	}
	if _, err := os.Stat(filepath.Join(h.dir, "other.sock")); err == nil {
		t.Errorf("the second agent made a socket")
	}
	l.steady(h, time.Second)
}
