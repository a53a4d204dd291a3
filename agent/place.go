package agent

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/advertise"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// Where this host is reached, and whether it is on a network: package advertise decides, from what the kernel shows. A host
// that is not is part of no network (protocol 4.5). One whose address has gone goes on at another, as a new life: all that
// holds of a restart holds of it, and nobody has to learn of lives that move.

// whereabouts is what the loop knows of it.
type whereabouts struct {
	place  advertise.Place
	sight  advertise.Sight
	isSeen bool // there is a sight
	view   advertise.View
	wanted netip.Addr // the better address of the last look; invalid: none

	isSteady bool // it was wanted a look before, too

	sharedSince map[wire.ID]time.Time // when a member was first seen alive at this place
}

// firstPlace is where a new agent begins: at what is bound, or with a wildcard at what others are told.
func (a *agent) firstPlace() advertise.Place {
	bound := a.below.Addr().Addr()
	p := advertise.Place{Addr: bound, IsFixed: !a.cfg.AdvertiseIsChosen, V6: bound.Is6(), Device: a.cfg.Device}
	if bound.IsUnspecified() {
		p.Addr = a.advertised().Addr()
	}
	return p
}

// onSight takes what the kernel shows.
func (a *agent) onSight(s advertise.Sight) {
	a.where.sight, a.where.isSeen = s, true
	a.lookAtPlace()
}

// lookAtPlace is called when links or members have changed.
func (a *agent) lookAtPlace() {
	w := &a.where
	if !w.isSeen {
		return
	}
	before := w.view
	w.place, w.view = w.place.Look(w.sight, a.view.places(), a.sharedFor())
	if w.view.IsOn == a.isCut {
		a.onLink(w.view.IsOn)
	}
	if w.view != before {
		a.seat.publish()
	}
}

// sharedFor is for how long somebody has been known where this host is who is alive now; zero: nobody is. One whom the failure
// detector gave up meanwhile has denied it, which an id of our own past cannot.
func (a *agent) sharedFor() (longest time.Duration) {
	w, now := &a.where, a.cfg.Now()
	maps.DeleteFunc(w.sharedSince, func(id wire.ID, _ time.Time) bool {
		m, isKnown := a.view.member(id)
		return !isKnown || m.Addr.Addr() != w.place.Addr
	})
	for _, m := range a.view.others {
		if m.Status != membership.Alive || m.Addr.Addr() != w.place.Addr {
			continue
		}
		if _, isKnown := w.sharedSince[m.ID]; !isKnown {
			w.sharedSince[m.ID] = now
		}
		longest = max(longest, now.Sub(w.sharedSince[m.ID]))
	}
	return longest
}

// onLink: a leader that cannot be heard steps down, and a host that is back
// looks for the others.
func (a *agent) onLink(up bool) {
	cause, text := election.LinkLost, "own link lost"
	if up {
		cause, text = election.LinkBack, "own link came back"
	}
	a.isCut = !up
	a.log.Log(levelOf(up), text, "addr", a.where.place.Addr)
	a.event(control.Event{Type: "link", Cause: string(cause), Text: text})
	a.seat.step(election.LinkChanged{Up: up})
	if up {
		a.members().Nudge()
	}
}

// lookForPlace looks for a better address, which must be there for a second: what is in the middle of being set up has
// addresses that do not stay. It is called once a second. A leader lets go for one.
func (a *agent) lookForPlace() {
	a.lookAtPlace()
	w := &a.where
	w.isSteady = w.view.Better.IsValid() && w.view.Better == w.wanted
	w.wanted = w.view.Better
	if w.isSteady && a.seat.isLeading() && !a.pulse.isStopping {
		a.seat.step(election.LinkChanged{Up: true}) // nobody else was known: it lets go, as one whose link is back
	}
}

// goOn goes to the better address as soon as nothing keeps this host: it may lead again before the next look. The loop calls it
// each time that it turns.
func (a *agent) goOn() {
	w := &a.where
	if w.isSteady && w.view.Better == w.wanted && !a.pulse.isStopping && !a.seat.isLeading() && a.seat.mayBeginAnew() {
		w.isSteady = false // if it fails, the next look says when it is tried again
		a.move(w.wanted)
	}
}

// move begins a new life of the node, at another address: with gossip and sessions of its own, as after a restart. The
// port, the hooks, the jobs and the local API go on.
func (a *agent) move(to netip.Addr) {
	_, _ = rand.Read(a.life[:]) // never fails
	if err := a.seat.beginAnew(binary.BigEndian.Uint32(a.life[:])); err != nil {
		a.warnRarely("the address was not changed", "addr", to, "err", err)
		return
	}
	from := a.where.place.Addr
	a.where.place, a.where.wanted = a.where.place.At(to), netip.Addr{}
	a.cfg.Advertise = netip.AddrPortFrom(to, a.advertised().Port())
	a.tether(election.Tether{})
	a.seal.Renew(a.seat.state.saved.Incarnation, a.life, a.cfg.Advertise)
	a.warm = nil
	a.endGossip()
	_ = a.members().Release() // only what its log could not close
	a.reopenSources()
	self, fresh := &a.view.self, a.seat.member()
	self.Addr, self.Incarnation, self.Nonce = a.cfg.Advertise, fresh.Incarnation, fresh.Nonce
	self.Settled, self.Draining, self.InMaintenance, self.Reason = false, false, false, ""
	lost := a.view.loseAll()
	if err := a.beginGossip(*self, lost); err != nil {
		a.fatal = fmt.Errorf("go on at %v: %w", to, err)
		return
	}
	a.isCut = false
	text := fmt.Sprintf("this host goes on at %v, since %v is no address for it any more", to, from)
	a.log.Info("own address changed", "addr", to, "was", from, "incarnation", self.Incarnation)
	a.event(control.Event{Type: "link", Cause: string(election.LinkBack), Text: text})
	a.seat.resumeMaintenance()
	a.barAnew()
	a.lookAtPlace()
	a.seat.publish()
}

// barAnew tells a new node what the last one was told.
func (a *agent) barAnew() {
	a.seat.step(a.roll.event())
	if a.roll.isBarred {
		a.seat.step(election.Barred{Bar: election.BarListed, On: true})
	}
	if a.checks.isBarred {
		a.seat.step(election.Barred{Bar: election.BarCheck, On: true})
	}
}

// beginGossip makes the membership of a life. lost is where others were before it.
func (a *agent) beginGossip(self membership.Member, lost []netip.AddrPort) error {
	members, err := membership.New(membership.Config{Self: self, Cluster: a.cfg.Cluster, Transport: a.lan, Lost: lost, Hosts: *a.roll.hosts.Load(),
		Seeds: a.cfg.Seeds, Find: a.sources.Find, Resolve: a.cfg.Resolve, DefaultPort: a.lan.Addr().Port(), Profile: a.cfg.Profile,
		Sessions: a.seal, Logger: a.log.Named("membership")})
	if err != nil {
		return fmt.Errorf("start membership: %w", err)
	}
	members.SetLedger(a.seat.ledger())
	a.gossip.Store(members)
	if a.spawn != nil {
		a.lookForOthers()
	}
	return nil
}

// endNetwork closes the LAN, which ends receive. The membership closes it, unless it was released for another that could not
// begin.
func (a *agent) endNetwork() {
	_ = a.members().Shutdown()
	_ = a.lan.Shutdown()
}

// lookForOthers has the present membership look for absent members until it is replaced, or the agent ends.
func (a *agent) lookForOthers() {
	members := a.members()
	ctx, end := context.WithCancel(context.Background())
	a.endGossip = end
	a.spawn(func(life context.Context) {
		defer context.AfterFunc(life, end)()
		_ = members.Rejoin(ctx) // only ever the context's error
	})
}

// members is the membership of the present life.
func (a *agent) members() *membership.Membership { return a.gossip.Load() }

// sharers names those that are reached where this host is.
func (a *agent) sharers() []string {
	var there []membership.Member
	for _, m := range a.view.others {
		if m.Status == membership.Alive && m.Addr.Addr() == a.where.place.Addr {
			there = append(there, m)
		}
	}
	return a.view.labels(there)
}

// noteTrouble says what is wrong with the place, for status and doctor.
func (a *agent) noteTrouble() (trouble, remedy string) {
	if !a.where.isSeen {
		return "", ""
	}
	return placeTrouble(a.where.place, a.where.view, a.sharers())
}
