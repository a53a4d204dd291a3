package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
)

// A member that gossip hears and whose agent decides nothing, since it waits for its disk for example, would look alive to
// everybody. The leader can tell: each of its heartbeats is to be acknowledged. For nobody else it is odd to hear nothing.

// muteAfter is how long a leader hears no frame of a member before it says so: more than a slow disk takes, arbitrary beyond
// that. Longer leases make it longer, since heartbeats are rarer then.
const muteAfter = 5 * time.Second

// lookForMute finds the members that have owed a frame for the time between two looks. One that was cut off or paused answers pings
// first: it has that time for a frame. It is called once a second, and twice at once after a turn of the loop that was long.
func (a *agent) lookForMute() {
	was, now := a.mute, a.cfg.Now()
	a.mute = nil
	for _, m := range a.view.others {
		since, owes := a.hearing.owes(m.ID, a.owesFrame(m), now)
		is := owes && now.Sub(since) >= lookInterval
		if is {
			a.mute = append(a.mute, m.ID)
		}
		if is != slices.Contains(was, m.ID) {
			a.tellMute(m, is)
		}
	}
}

// owesFrame: this host has led for so long, and the member has been alive, that an acknowledgement must have come. The member answered
// pings meanwhile: one that is cut off or paused answers neither.
func (a *agent) owesFrame(m membership.Member) bool {
	status, heard := a.seat.status(), a.hearing.about(m.ID)
	if status.State != election.Lead || m.Status != membership.Alive || m.ConfigHash != a.view.self.ConfigHash || a.isSilent(m) {
		return false
	}
	ago, ever := a.heardAgo(m.ID)
	answer, frame := a.cfg.Now().Add(-ago), latest(status.Since, heard.since, heard.at)
	return ever && answer.Sub(frame) > max(muteAfter, 3*a.cfg.Election.Lease)
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

func (a *agent) tellMute(m membership.Member, is bool) {
	text := fmt.Sprintf("%s answers the election again", a.view.label(m.ID))
	if is {
		text = muteNote(a.view.label(m.ID))
		a.log.Warn("member does not answer the election", "member", m.Name, "addr", m.Addr)
	} else if m.Status == membership.Alive && a.seat.status().State == election.Lead {
		a.log.Info("member answers the election again", "member", m.Name, "addr", m.Addr)
	} else {
		return // another line says what became of it, or of this leadership
	}
	a.event(control.Event{Type: "member", Member: m.Name, Cause: "mute", Text: text})
}

func muteNote(name string) string {
	return name + " does not answer the election, though it answers pings: see status there, and its disk"
}

// muteNotes are for status.
func (a *agent) muteNotes() (notes []string) {
	for _, id := range a.mute {
		notes = append(notes, muteNote(a.view.label(id)))
	}
	return notes
}
