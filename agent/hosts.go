package agent

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// Who may join (S20). The list goes three ways: to the sessions, which let nobody else in; to the membership, which has its names; and
// to the election, which counts nobody else. One turn of the loop does it all.

// roll is the host list of this agent, and what follows from those of others. But for its atomic fields it is the loop's.
type roll struct {
	hosts atomic.Pointer[identity.Hosts] // never nil
	news  chan struct{}                  // whether others leave this host out has changed, by the sessions' word

	isBarred bool                        // as the node was told
	differ   map[wire.ID]identity.Digest // other lists, as people were told last
}

func newRoll(hosts identity.Hosts) *roll {
	r := &roll{news: make(chan struct{}, 1), differ: map[wire.ID]identity.Digest{}}
	r.hosts.Store(&hosts)
	return r
}

// watch has the loop ask the sessions, on any goroutine.
func (r *roll) watch() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// event is the list for the election.
func (r *roll) event() election.HostsChanged {
	hosts := r.hosts.Load()
	return election.HostsChanged{IDs: hosts.IDs(), Digest: uint64(hosts.Digest())}
}

// checkHosts refuses a list that would leave out this host, or a majority of the roster that it is in.
func checkHosts(hosts identity.Hosts, self wire.ID, r election.Roster) error {
	if hosts.IsNone() {
		return nil
	}
	if !hosts.Has(self) {
		if near, found := hosts.Nearest(self); found {
			return refusal(fmt.Sprintf("write %s = %q", near.Name, self.String()), "%v does not name this host: its id is %s, and %s is nearly that: %s", hosts, self, near.Name, near.ID)
		}
		return refusal(fmt.Sprintf("add a line for it: NAME = %q", self.String()), "%v does not name this host, whose id is %s", hosts, self)
	}
	if r.IsNone() || !r.Has(self) {
		return nil
	}
	var lacks []string
	for _, id := range r.IDs {
		if near, found := hosts.Nearest(id); !hosts.Has(id) && found {
			lacks = append(lacks, fmt.Sprintf("%s (%s is nearly that: %s)", id, near.Name, near.ID))
		} else if !hosts.Has(id) {
			lacks = append(lacks, id.String())
		}
	}
	if need, have := len(r.IDs)/2+1, len(r.IDs)-len(lacks); have < need {
		return refusal("take out one voter at a time, and wait until the leader has forgotten it; a new cluster needs new state directories on all hosts",
			"%v names %d of the %d voters of the roster: expected %d at least; it lacks %s", hosts, have, len(r.IDs), need, strings.Join(lacks, ", "))
	}
	return nil
}

// beginHosts tells a new node, and has the sessions tell of refusals.
func (a *agent) beginHosts() {
	a.seat.step(a.roll.event())
	a.seal.WatchShut(a.roll.watch)
}

// onShut tells the node whether this host may stand, by what others' lists say.
func (a *agent) onShut() {
	isShut := a.seal.IsShut()
	if isShut == a.roll.isBarred {
		return
	}
	a.roll.isBarred = isShut
	text := "a host leaves this one out of its host list: this host does not stand"
	if !isShut {
		text = "no host leaves this one out of its host list any more"
	}
	a.log.Warn(text)
	a.event(control.Event{Type: "hosts", Cause: string(election.NotListed), Text: text})
	a.seat.step(election.Barred{Bar: election.BarListed, On: isShut})
}

// setHosts takes another list up. Unless drops, it changes nothing if a member that is here would be left out.
func (a *agent) setHosts(next identity.Hosts, drops bool) error {
	if err := checkHosts(next, a.view.self.ID, a.seat.state.saved.Roster); err != nil {
		return err
	}
	now := a.roll.hosts.Load()
	if now.Equal(next) {
		return nil
	}
	leader := a.seat.status().Leader
	if leader == a.view.self.ID {
		leader = wire.ID{}
	}
	gone := slices.DeleteFunc(slices.Clone(a.view.others), func(m membership.Member) bool { return m.Status != membership.Alive || next.Admits(m.ID) })
	if len(gone) > 0 && !drops {
		return leavesOut(a.view.labels(gone))
	}
	if leaves := a.seal.SetHosts(next, leader, election.Parting, drops); len(leaves) > 0 && !drops {
		return leavesOut(idsOf(leaves)) // met a moment ago
	}
	a.roll.hosts.Store(&next)
	a.seat.step(a.roll.event())
	a.members().SetHosts(next, leader, election.Parting)
	a.takeName()
	a.hostsTaken(*now, next)
	return nil
}

// leavesOut is the refusal of a list without members that are here.
func leavesOut(names []string) error {
	return &control.APIError{Status: 409, Code: "refused", Message: "hosts would leave out members that are here: " + strings.Join(names, ", "),
		Hint: "nothing was changed; if that is meant: bully-agent reload --drop"}
}

func idsOf(senders []session.Sender) (ids []string) {
	for _, s := range senders {
		ids = append(ids, fmt.Sprintf("%s (%v)", s.ID, s.Addr))
	}
	return ids
}

// takeName has this host be called what its list calls it.
func (a *agent) takeName() {
	if name := a.roll.hosts.Load().Name(a.view.self.ID); name != "" && name != a.view.self.Name {
		a.view.self.Name = name
		a.members().SetName(name)
	}
}

// hostsTaken tells people what the new list changes.
func (a *agent) hostsTaken(was, is identity.Hosts) {
	text := "each host that has the key may join"
	if !is.IsNone() {
		text = fmt.Sprintf("%d hosts may join, list %s", len(is.All()), is.Digest())
	}
	for _, h := range was.All() {
		if !is.Admits(h.ID) {
			text += fmt.Sprintf("; %s is left out", h.Name)
		}
	}
	a.log.Info("host list taken up", "hosts", text)
	a.event(control.Event{Type: "hosts", Text: "host list taken up: " + text})
}

// lookAtLists tells people once of each member that has another list, and of one whose list changes without end once a minute. It is
// called once a second.
func (a *agent) lookAtLists() {
	own := a.roll.hosts.Load().Digest()
	for _, m := range a.view.others {
		if m.Status != membership.Alive || m.List == own {
			delete(a.roll.differ, m.ID)
			continue
		}
		if was, isTold := a.roll.differ[m.ID]; isTold && was == m.List || len(a.roll.differ) >= identity.MaxHosts {
			continue
		}
		if !a.isRare("member has another host list", m.ID) {
			continue
		}
		a.roll.differ[m.ID] = m.List
		a.log.Warn("member has another host list", "member", m.Name, "addr", m.Addr, "ours", own, "theirs", m.List)
		a.event(control.Event{Type: "hosts", Cause: "differ", Member: m.Name, Text: otherList(a.view.label(m.ID), own, m.List)})
	}
}

func otherList(name string, ours, theirs identity.Digest) string {
	return fmt.Sprintf("%s has another host list: %s there, %s here", name, theirs, ours)
}

// otherLists are the living members whose list is another.
func (a *agent) otherLists() (all []membership.Member) {
	own := a.roll.hosts.Load().Digest()
	for _, m := range a.view.others {
		if m.Status == membership.Alive && m.List != own {
			all = append(all, m)
		}
	}
	return all
}

// listNotes say in status whose list is another, and who leaves out whom.
func (a *agent) listNotes() (notes []string) {
	own := a.roll.hosts.Load().Digest()
	for _, m := range a.otherLists() {
		notes = append(notes, otherList(a.view.label(m.ID), own, m.List)+"; make hosts the same on both, and reload")
	}
	if a.roll.isBarred {
		notes = append(notes, "this host does not stand for election: "+a.leftOutBy())
	}
	return notes
}

// leftOutBy says whose lists do not have this host.
func (a *agent) leftOutBy() string {
	var names []string
	for _, r := range a.controlHosts().LeftOutBy {
		names = append(names, r.Name)
	}
	return fmt.Sprintf("%s leaves it out of its hosts (its id is %s)", strings.Join(names, ", "), a.view.self.ID)
}

// isListed reports whether there is a list, and it has the id.
func (a *agent) isListed(text string) bool {
	id, err := wire.ParseID(text)
	return err == nil && a.roll.hosts.Load().Has(id)
}

// leftOutNotes name hosts that have the key and are not listed, in status.
func (a *agent) leftOutNotes() (notes []string) {
	all := a.controlHosts().LeftOut
	for i, o := range all {
		if i == maxStrangerNotes {
			return append(notes, fmt.Sprintf("%d more hosts have the key, and hosts does not name them: see bully-agent doctor", len(all)-i))
		}
		notes = append(notes, o.String())
	}
	return notes
}

// controlHosts is what status tells of the host list. It may be called by any goroutine.
func (a *agent) controlHosts() control.HostList {
	hosts, r := a.roll.hosts.Load(), a.seal.Report()
	out := control.HostList{Digest: hosts.Digest().String(), Listed: len(hosts.All()), LeftOut: []control.LeftOut{}, LeftOutBy: []control.LeftOut{}}
	for _, gone := range r.Out {
		o := control.LeftOut{ID: gone.ID.String(), Addr: gone.Addr.String()}
		if near, found := hosts.Nearest(gone.ID); found {
			o.Nearest = near.Name
		}
		out.LeftOut = append(out.LeftOut, o)
	}
	for _, by := range r.By {
		name := hosts.Name(by.ID)
		if name == "" {
			name = by.ID.Short()
		}
		out.LeftOutBy = append(out.LeftOutBy, control.LeftOut{ID: by.ID.String(), Name: name, Addr: by.Addr.String(), Digest: by.List.String()})
	}
	return out
}
