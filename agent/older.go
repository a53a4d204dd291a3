package agent

import (
	"errors"

	"github.com/bully-agent/bully-agent/internal/control"
)

// ErrOlder is returned when this host had a later life than its state directory knows of: it is an older copy, as a restored
// backup is, and has forgotten what this host promised since.
var ErrOlder = errors.New("the state directory is an older copy")

// olderState refuses the state of a life, where a later one was.
func olderState(life, later uint32) error {
	return refusal("bully-agent id new makes this host a new one; then, in quorum mode, bully-agent forget the former id on the host that leads",
		"%w: it is of life %d of this host, which has had life %d", ErrOlder, life, later)
}

// onOlder is told by the port, on any goroutine: from now on nothing goes through that (S19).
func (a *agent) onOlder(later uint32) { a.later <- later }

// endOlder ends this agent: whom it has promised what it does not know. If it leads its lose hook ends first.
func (a *agent) endOlder(later uint32) {
	why := olderState(a.view.self.Incarnation, later)
	a.log.Error(why.Error())
	a.event(control.Event{Type: "warning", Cause: causeSameID, Text: why.Error()})
	a.endFor(why)
}
