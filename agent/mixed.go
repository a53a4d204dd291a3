package agent

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
)

// Members whose settings differ do not form one cluster (M16): their leases and
// orders do not fit together, and their frames do not count. Whoever comes new
// gives way, so that a slip in one file stops one agent: an agent that is
// settled, which has followed or led since its start, never does. Of two that
// are not settled, the one of the worse rank gives way, and ends.

// ErrSettings is returned when this agent's settings differ from those of
// members that were there before.
var ErrSettings = errors.New("settings that must be the same on all nodes differ")

// noteSettled tells the others once that this agent belongs to the cluster: it
// leads, or has followed for a while without a doubt.
func (a *agent) noteSettled(s election.Status) {
	hasFollowed := !s.Leader.IsZero() && a.cfg.Now().Sub(s.Since) >= 2*s.Suspect // it is heard, and not only heard of
	if a.view.self.Settled || (s.State != election.Lead && !hasFollowed) {
		return
	}
	a.view.self.Settled = true
	a.members().SetSettled()
}

// onOddMember acts on a living member whose settings differ from ours.
func (a *agent) onOddMember(m membership.Member) {
	differ := a.differences(m)
	if !a.view.mustGiveWayTo(m) {
		a.warnRarely("member has other settings; it takes no part here", "member", m.Name, "addr", m.Addr, "differ", differ)
		return
	}
	if a.fatal != nil {
		return
	}
	err := fmt.Errorf("%w: %s does not join the cluster of %s: %s", ErrSettings, a.cfg.Name, m.Name, differ)
	a.event(control.Event{Type: "warning", Cause: "settings", Member: m.Name, Text: err.Error()})
	a.fatal = &Refusal{Err: err, Hint: "make them the same in both configurations, then start this agent again"}
}

// differences says what differs between this agent and m, with both values.
func (a *agent) differences(m membership.Member) string {
	var out []string
	for _, d := range election.Differences(a.view.self.Settings, m.Settings) {
		out = append(out, fmt.Sprintf("%s: %s here, %s at %s", d.Name, d.Here, d.There, m.Name))
	}
	if len(out) == 0 { // another program's hash
		return fmt.Sprintf("hash: %08x here, %08x at %s", a.view.self.ConfigHash, m.ConfigHash, m.Name)
	}
	return strings.Join(out, "; ")
}

// mustGiveWayTo: of this agent and m one must go, and it is this one. Rank is
// the textbook's whatever the algorithms, which may be what differs: both
// sides have to come to one result.
func (v *view) mustGiveWayTo(m membership.Member) bool {
	if v.self.Settled || m.Settled {
		return !v.self.Settled
	}
	return cmp.Or(cmp.Compare(v.self.Priority, m.Priority), v.self.ID.Compare(m.ID)) < 0
}

// endFor has this agent end, since what it says under its id must not be believed any more. If it leads its lose hook ends first. It
// says no goodbye: that would be another's.
func (a *agent) endFor(why error) {
	a.fatal = why
	a.seat.withdraw()
	a.seat.publish()
}

// giveUp ends an agent that must not go on. It says goodbye, so that nobody
// looks for it, unless another has its id, or had it later.
func (a *agent) giveUp() error {
	if !errors.Is(a.fatal, ErrSameID) && !errors.Is(a.fatal, ErrOlder) {
		_ = a.leave()
	}
	return a.fatal
}
