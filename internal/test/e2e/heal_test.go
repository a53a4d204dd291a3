package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// healBound is what a client may miss of an address after a heal. It is 0.1 s mostly; without an announcement a Linux client asks
// anew after 4 s and more, others after minutes.
const healBound = 3 * time.Second

// After a tear both parts have a leader, and each has the address. On the host that stays at the heal nothing changes, so no hook
// runs that would tell; neighbours that know the other's hardware address learn so all the same.
func TestNeighboursLearnWhoStaysAtAHeal(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	l := newLAN(t, 4, "--preempt", "never")
	l.hasRoomToLetGo()
	l.mayOverlap("available mode: each part of a torn network has a leader")
	for _, h := range l.hosts { // one that goes must not pass on what the client sends it
		must(t, h.command("sysctl", "-qw", "net.ipv4.ip_forward=0", "net.ipv4.conf.all.forwarding=0", "net.ipv4.conf.eth0.forwarding=0").Run())
	}
	// With a hardware address that changes with its ports the switch would forget all neighbours.
	l.ip(l.net.Switch(), "link set dev "+netlab.Bridge+" address 02:00:5e:10:00:fe")
	v := newVirtual(l, ipv4)
	l.start()
	goes := l.agree()
	v.isAt(goes)

	// The client is in the part of the host that goes: the other part has the higher epoch, after two changes.
	part := l.except(goes)[:2]
	l.split(part...)
	stays := l.agree(part...)
	l.order(stays, "step-down")
	l.eventually("another leads the other part", patience, func() error {
		now, err := leaderOf(part)
		if err == nil && now == stays {
			err = errors.New("the same one leads")
		}
		return err
	})
	stays = l.agree(part...)
	l.eventually("all has been said that is said at the start of a leadership", patience, func() error {
		if came, ok := v.moves.first(stays, true, time.Time{}); !ok || time.Since(came.at) < 6*time.Second {
			return errors.New("not yet")
		}
		return nil
	})

	healed := time.Now()
	for _, h := range part {
		l.plug(h)
	}
	l.agreeOn(stays)
	v.isAt(stays)
	left, ok := v.moves.first(goes, false, healed)
	if !ok {
		t.Fatalf("the address has not left %s", goes)
	}
	var last time.Time // answer from the host that goes, in the end
	var gap time.Duration
	replies := v.client.since(healed)
	for i, r := range replies[1:] {
		if r.host == goes.name {
			last = r.at
		}
		gap = max(gap, r.at.Sub(replies[i].at))
	}
	t.Logf("the address left %v after the heal, its last answer came %v after it; longest time without an answer %v",
		left.at.Sub(healed).Round(time.Millisecond), last.Sub(healed).Round(time.Millisecond), gap.Round(time.Millisecond))
	if gap > healBound {
		t.Errorf("the client waited for %v, expected at most %v", gap, healBound)
	}
}
