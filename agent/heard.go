package agent

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// hearing is when an election frame of each other member last reached this agent, which is more than that something came in its
// session. It is for people: a silent member may be there for long, above all on a host that is cut off and hears nobody; the
// election judges by itself.
//
// The loop writes it; any goroutine may read it.
type hearing struct {
	mu sync.Mutex
	of map[wire.ID]heard
}

type heard struct {
	since time.Time // the member is believed alive
	at    time.Time // of its last frame; zero: none
	owed  time.Time // the member owes a frame since then; zero: it owes none
}

// began is told that a member, or a new life of it, is believed alive. members
// are all that are known: what is kept about others goes.
func (h *hearing) began(id wire.ID, now time.Time, members []membership.Member) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := map[wire.ID]heard{id: {since: now}}
	for _, m := range members {
		if was, known := h.of[m.ID]; known && m.ID != id {
			kept[m.ID] = was
		}
	}
	h.of = kept
}

// note is told of a frame. Those of nobody that is known count for nothing.
func (h *hearing) note(id wire.ID, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if was, known := h.of[id]; known {
		h.of[id] = heard{since: was.since, at: now}
	}
}

// owes is told whether a member owes a frame, and gives since when it has.
func (h *hearing) owes(id wire.ID, is bool, now time.Time) (since time.Time, owes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was, known := h.of[id]
	if !known {
		return now, false
	}
	switch {
	case !is:
		was.owed = time.Time{}
	case was.owed.IsZero():
		was.owed = now
	}
	h.of[id] = was
	return was.owed, is
}

func (h *hearing) about(id wire.ID) heard {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[id]
}

// heardAgo gives how long ago something of the member reached this agent.
func (a *agent) heardAgo(id wire.ID) (ago time.Duration, ever bool) {
	if at := a.hearing.about(id).at; !at.IsZero() {
		ago, ever = a.cfg.Now().Sub(at), true
	}
	if inSession, ok := a.members().Heard(id); ok && (!ever || inSession < ago) {
		ago, ever = inSession, true
	}
	return max(ago, 0), ever
}

// isSilent: the member is believed alive, and nothing of it came for longer than
// two rounds of memberlist's pings take, to which a member that lives answers.
func (a *agent) isSilent(m membership.Member) bool {
	if m.ID == a.view.self.ID || m.Status != membership.Alive {
		return false
	}
	ago, ever := a.heardAgo(m.ID)
	if known := a.cfg.Now().Sub(a.hearing.about(m.ID).since); !ever || known < ago {
		ago = known // it joined meanwhile
	}
	return ago > a.members().TwoRounds()
}

// knowMembers keeps places at the port for the members that are alive and were heard: it
// is only said of the others that they are there.
func (a *agent) knowMembers() {
	var addrs []netip.Addr
	for _, m := range a.view.others {
		if _, ever := a.heardAgo(m.ID); ever && m.Status == membership.Alive {
			addrs = append(addrs, m.Addr.Addr())
		}
	}
	a.lan.Know(addrs)
}

// suspect is a member that gossip believes alive and that this agent has not heard for a while.
const suspect = "suspect"

// presence is a member's status as lists show it and as those who count take it. Gossip notices the end of a leader
// seconds after this node has given that up, and knows of no suspicion.
func (a *agent) presence(m membership.Member) string {
	switch {
	case m.Status != membership.Alive:
	case a.isGivenUp(m.ID):
		return membership.Dead.String()
	case a.isSilent(m):
		return suspect
	}
	return m.Status.String()
}

// isGivenUp: the node gave it up, and gossip has had no answer from it since. One that is back before gossip has noticed is met by
// gossip alone: followers send each other no frames.
func (a *agent) isGivenUp(id wire.ID) bool {
	at := a.seat.gaveUp(id)
	ago, ever := a.heardAgo(id)
	return !at.IsZero() && !(ever && a.cfg.Now().Add(-ago).After(at))
}

// isHere: the member is alive as lists show it.
func (a *agent) isHere(id wire.ID) bool {
	m, known := a.view.member(id)
	return known && a.presence(m) == membership.Alive.String()
}

// controlMembers shows all members, this agent first.
func (a *agent) controlMembers(s election.Status) []control.Member {
	out := a.view.controlMembers(s.Leader)
	for i, m := range a.view.all() {
		out[i].Status = a.presence(m)
		out[i].Mute = slices.Contains(a.mute, m.ID)
		out[i].Relayed = m.Status == membership.Dead && slices.Contains(a.relayed, m.ID)
		out[i].Notes = a.view.oddities(m, s.Far)
	}
	return append(out, a.toldMembers()...)
}

// silent names those that are suspect.
func silent(members []control.Member) []string {
	var names []string
	label := control.Labels(members)
	for _, m := range members {
		if m.Status == suspect {
			names = append(names, label(m.Name, m.Addr))
		}
	}
	slices.Sort(names)
	return names
}
