package membership

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/wire"
)

// listed is a host list with those, each called "our NAME".
func listed(t *testing.T, names ...string) identity.Hosts {
	t.Helper()
	var all []identity.Host
	for _, name := range names {
		all = append(all, identity.Host{Name: "our-" + name, ID: idOf(name)})
	}
	hosts, err := identity.MakeHosts(all)
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}

// A member that the list has lost ends at once, is known no more and is looked for nowhere. It is there again once it is listed and
// shows itself.
func TestS20_WhoIsUnlistedIsNoMember(t *testing.T) {
	s := newStory()
	s.play("join 1")
	s.play("told")
	s.got = nil
	if again := s.lives.relist(listed(t, "alpha"), wire.ID{}, s.now, time.Second); len(again) != 0 {
		t.Errorf("%v are shown anew", again)
	}
	s.play("told")
	alive, lost := s.lives.addresses()
	if len(s.got) != 2 || len(s.lives.known(s.now)) != 0 || len(alive)+len(lost) != 0 || s.lives.hints != 0 || s.lives.countHere() != 0 {
		t.Errorf("told %v; known %v, at %v, lost at %v, %d hints", s.got, s.lives.known(s.now), alive, lost, s.lives.hints)
	}
	if do := s.lives.due(s.now.Add(time.Minute)); len(do.dial)+len(do.show) != 0 || do.news {
		t.Errorf("it is dialled or asked: %+v", do)
	}
	if again := s.lives.relist(listed(t, "alpha", "beta"), wire.ID{}, s.now, time.Second); len(again) != 1 {
		t.Errorf("%v are shown anew", again)
	}
	s.play("show 1")
	s.got = nil
	s.play("told")
	if len(s.got) != 2 || len(s.lives.known(s.now)) != 1 {
		t.Errorf("told %v, known %v", s.got, s.lives.known(s.now))
	}
}

// A leader is a member until its time to hand over has ended.
func TestS20_AnUnlistedLeaderIsAMemberForAMoment(t *testing.T) {
	s := newStory()
	s.play("join 1")
	s.play("told")
	s.got = nil
	s.lives.relist(listed(t, "alpha"), idOf("beta"), s.now, time.Second)
	if do := s.lives.due(s.now.Add(time.Second - 1)); do.news || len(s.lives.known(s.now)) != 1 || !s.lives.deadline(s.now).Equal(s.now.Add(time.Second)) {
		t.Errorf("%+v, known %v, deadline %v", do, s.lives.known(s.now), s.lives.deadline(s.now).Sub(s.now))
	}
	if do := s.lives.due(s.now.Add(time.Second)); !do.news || len(s.lives.known(s.now)) != 0 || !s.lives.deadline(s.now).IsZero() {
		t.Errorf("%+v, known %v", do, s.lives.known(s.now))
	}
}

// Of an unlisted host memberlist hears nothing, and its card is not taken. A listed one has the name of the list.
func TestS20_NamesAreTheLists(t *testing.T) {
	self := lifeOf("alpha")
	self.WireMin, self.WireMax = wire.Major, wire.Major
	a := newAdmission(self, listed(t, "alpha", "beta"))
	shown := func(name string) session.Shown {
		m := lifeOf(name)
		m.WireMin, m.WireMax = wire.Major, wire.Major
		return session.Shown{Sender: session.Sender{Life: session.Life{ID: m.ID, Incarnation: 1}, Addr: m.Addr}, Card: appendCard(nil, m), List: 7}
	}
	if m, r := a.card(shown("beta")); r != nil || m.Name != "our-beta" || m.List != 7 {
		t.Errorf("it is %v of list %v, %v", m, m.List, r)
	}
	if _, r := a.card(shown("gamma")); r == nil || r.cause != "not-listed" {
		t.Errorf("an unlisted card: %v", r)
	}
	none := identity.Hosts{}
	a.hosts.Store(&none)
	if m, r := a.card(shown("gamma")); r != nil || m.Name != "gamma" {
		t.Errorf("without a list it is %v, %v", m, r)
	}
}
