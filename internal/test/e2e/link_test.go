package e2e

import (
	"errors"
	"fmt"
	"slices"
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
