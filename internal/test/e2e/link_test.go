package e2e

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// A leader whose own link goes knows it at once, and lets go without waiting
// for acknowledgements that cannot come. When the link is back so is the host.
func TestLeaderWithoutLink(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	tests := []struct {
		name     string
		lose     func(l *lan, h *host)
		giveBack func(l *lan, h *host)
	}{
		{"no carrier", (*lan).unplug, (*lan).plug},
		{"interface down",
			func(l *lan, h *host) { l.befalls(h, isCut, "link set eth0 down") },
			func(l *lan, h *host) { l.befalls(h, isPlugged, "link set eth0 up") }},
		{"address removed",
			func(l *lan, h *host) { l.befalls(h, isCut, "addr del dev eth0 "+h.addr.Addr().String()+"/24") },
			func(l *lan, h *host) { l.befalls(h, isPlugged, "addr add dev eth0 "+h.addr.Addr().String()+"/24") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 3)
			l.hasRoomToLetGo()
			best, next := l.best(), l.next()
			l.start()
			l.agreeOn(best)
			tt.lose(l, best)
			l.agreeOn(next, l.except(best)...)
			l.gap(on(best, isCut), on(best, loseBegin)) // what takes the link included
			l.journal.order(on(best, isCut), on(best, loseBegin).because("link-lost"), on(best, loseEnd), on(next, becomeBegin))
			l.gap(on(best, loseEnd), on(next, becomeBegin))
			l.led(best, next)

			tt.giveBack(l, best)
			l.agreeOn(best)
			l.gap(on(best, isPlugged), on(next, loseBegin))
			l.led(best, next, best)
		})
	}
}

// A follower's link concerns nobody else.
func TestFollowerWithoutLink(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	best, lost := l.best(), l.next()
	l.start()
	l.agreeOn(best)
	l.unplug(lost)
	l.said(lost, "link-lost")
	l.steady(best, time.Second, l.except(lost)...)
	l.plug(lost)
	l.said(lost, "link-back")
	l.agreeOn(best)
	l.led(best)
}

// The best of four voters reaches only the host that leads in its place: no two others hear it, for good. The other three are
// well. It may ask for its turn as often as it likes: a majority does not hear it, so the lead stays where it is (M36).
func TestBestReachesOnlyTheLeader(t *testing.T) {
	needsNft(t)
	t.Parallel()
	lasting := 8 * time.Second // preempt_delay eight times over
	if os.Getenv("BULLY_E2E") == "long" {
		lasting = 3 * time.Minute
	}
	l := newLAN(t, 4, "--expect", "4")
	l.hasRoomToLetGo()
	best, next := l.best(), l.next()
	l.start()
	l.agreeOn(best)
	for _, far := range l.except(best, next) {
		l.drop(best, far)
		l.drop(far, best)
	}
	l.agreeOn(next)
	l.steady(next, lasting)
	l.led(best, next)
}

// drop filters all that from sends to to, at the receiver, so that the sender sees no error.
func (l *lan) drop(from, to *host) {
	l.t.Helper()
	table := "inet from-" + from.name
	l.nft(to, "table "+table+" { chain in { type filter hook input priority 0; }; }",
		"add rule "+table+" in ip saddr "+from.addr.Addr().String()+" drop")
}

// said waits until h has told of its own link.
func (l *lan) said(h *host, cause string) {
	l.t.Helper()
	l.eventually(fmt.Sprintf("%s says %s", h, cause), patience, func() error {
		isIt := func(e control.Event) bool { return e.Type == "link" && e.Cause == cause }
		if !slices.ContainsFunc(h.events(0), isIt) {
			return errors.New("it has not said so")
		}
		return nil
	})
}

// befalls gives a command to iproute2 on h, and writes down what it means.
func (l *lan) befalls(h *host, what verdict.What, command string) {
	l.t.Helper()
	l.journal.note(h, what)
	l.ip(h.net.Namespace, command)
}

// After a power cut hosts are up before their switch: an agent that starts without a cable
// is found at its address when the cable is there.
func TestStartedBeforeTheSwitch(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	early := l.hosts[0]
	l.unplug(early)
	l.start()
	l.agreeOn(l.best(), l.hosts[1:]...)
	l.plug(early)
	l.agreeOn(l.best())
}

// DHCP gives the leader another address in place of its own. It lets go at once, and goes on at the new address without a
// person; nobody leads beside whoever took over.
func TestLeaderWithAnotherAddress(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	l.hasRoomToLetGo()
	best, next := l.best(), l.next()
	l.start()
	l.agreeOn(best)
	another := fmt.Sprintf("10.78.%d.113", l.number)
	l.ip(best.net.Namespace, "addr add dev eth0 "+another+"/24")
	l.befalls(best, isCut, "addr del dev eth0 "+best.addr.Addr().String()+"/24")
	l.ip(best.net.Namespace, "addr replace dev eth0 "+another+"/24") // the kernel took it with the first of its network
	l.agreeOn(next, l.except(best)...)
	l.journal.order(on(best, isCut), on(best, loseBegin).because("link-lost"), on(best, loseEnd), on(next, becomeBegin))
	l.isAt(best, another)
	l.agreeOn(best)
	l.led(best, next, best)
}

// A host that boots before its address leads nobody, says why, and takes its place among the others once it has one.
func TestAddressComesLate(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	best, next := l.addressOfBestComesLate()
	best.says("!no address but")
	l.led(next, best)
}

// The same where nobody is named: it asks, and is announced, on the link that has its address now. It leads nobody beside the
// others meanwhile, nor after it.
func TestAddressComesLateWithMDNS(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3, "--join", "mdns")
	l.mayOverlap("available mode: until they find each other, each host is a part of its own")
	for _, h := range l.hosts {
		h.join = []string{}
	}
	best, _ := l.addressOfBestComesLate()
	best.says("!mDNS")
}

// addressOfBestComesLate starts all, the best host without its address. The others agree on the next, and on the best
// once it has its address.
func (l *lan) addressOfBestComesLate() (best, next *host) {
	l.t.Helper()
	best, next = l.best(), l.next()
	own := best.addr.Addr().String()
	l.ip(best.net.Namespace, "addr del dev eth0 "+own+"/24")
	l.start()
	l.agreeOn(next, l.except(best)...)
	best.says("no address but 127.0.0.1")
	l.ip(best.net.Namespace, "addr add dev eth0 "+own+"/24")
	l.isAt(best, own)
	l.agreeOn(best)
	return best, next
}

// isAt waits until all know h, alive, at an address.
func (l *lan) isAt(h *host, addr string) {
	l.t.Helper()
	l.eventually(fmt.Sprintf("all know %s at %s", h, addr), patience, func() error {
		for _, other := range l.running() {
			members, err := other.client.Members(l.t.Context())
			if err != nil {
				return err
			}
			isKnown := func(m control.Member) bool {
				return m.Name == h.name && m.Status == "alive" && strings.HasPrefix(m.Addr, addr+":")
			}
			if !slices.ContainsFunc(members, isKnown) {
				return fmt.Errorf("%s does not", other)
			}
		}
		return nil
	})
}
