package agent

import (
	"slices"

	"github.com/bully-agent/bully-agent/internal/control"
)

// A member that other hosts reach and this one does not is dead here and alive there: a filter, a cable or a route between the two.
// Gossip alone tells of it, and says so again and again; people are told once.

// lookForRelayed finds such members. It is called once a second.
func (a *agent) lookForRelayed() {
	was := a.relayed
	a.relayed = nil
	for _, m := range a.members().Known() {
		if !m.Relayed {
			continue
		}
		a.relayed = append(a.relayed, m.ID)
		if !slices.Contains(was, m.ID) {
			a.log.Warn("member is reached by other hosts alone", "member", m.Name, "addr", m.Addr)
			a.event(control.Event{Type: "member", Member: m.Name, Cause: "relayed", Text: relayedNote(a.view.label(m.ID))})
		}
	}
}

func relayedNote(name string) string {
	return name + " is reached by other hosts and not by this one: look for a filter, a cable or a route between the two"
}

// relayedNotes are for status.
func (a *agent) relayedNotes() (notes []string) {
	for _, id := range a.relayed {
		notes = append(notes, relayedNote(a.view.label(id)))
	}
	return notes
}
