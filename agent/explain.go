package agent

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/wire"
)

// explain says why a member leads or not, in the words of what decides it: the node's
// bars, its outlook, and what it knows of the other. Nothing is decided here. fromHost is
// what the host says of the bars that it sets, lacks what it says of resources that it is to lead without.
func (s *seat) explain(who string, fromHost map[election.Bar]string, lacks []string) (control.Explanation, error) {
	id := s.state.ID
	if who != "" {
		var err error
		if id, err = s.find(order{verb: election.Forget, who: who}); err != nil {
			return control.Explanation{}, s.unexplained(who, err)
		}
	}
	status, out := s.shownStatus(), s.node.Outlook()
	e := control.Explanation{Member: s.around.seen().controlNode(id), Self: id == s.state.ID, Leads: status.Leader == id,
		TakesBack: s.takesBack(status, out)}
	if e.Self {
		e.Leads = status.State == election.Lead
		e.Reasons, e.Then = s.reasons(status, out, fromHost), s.then(status, out)
		if e.Leads {
			e.Reasons = append(e.Reasons, s.lacking(status, lacks)...)
		}
	} else {
		e.Reasons, e.Then = s.reasonsOf(id, status), s.thenOf(id, status)
	}
	e.Headline = s.headline(id, e.Leads, status)
	for _, r := range e.Reasons { // once is enough
		e.Headline = strings.TrimSuffix(e.Headline, ": "+r.Text)
	}
	slices.SortStableFunc(e.Reasons, func(a, b control.Reason) int { return rankOf(a) - rankOf(b) })
	return e, nil
}

// rankOf puts what holds first.
func rankOf(r control.Reason) int {
	if r.OK {
		return 0
	}
	return 1
}

// unexplained refuses a member that is not known, or not by that name alone.
func (s *seat) unexplained(who string, why error) error {
	code, hint := "unknown_member", s.whoIsThere()
	if errors.Is(why, errAmbiguous) {
		code, hint = "ambiguous", giveID
	}
	return &control.APIError{Status: http.StatusConflict, Code: code, Message: fmt.Sprintf("cannot explain %s: %v", who, why), Hint: hint}
}

func (s *seat) headline(id wire.ID, leads bool, status election.Status) string {
	name, leader := s.labelOf(id), s.labelOf(status.Leader)
	switch {
	case leads:
		return fmt.Sprintf("%s leads: epoch %d%s", name, status.Epoch.Counter, s.since(status.Epoch))
	case id == s.state.ID && status.State == election.Stopping:
		return fmt.Sprintf("%s leads no more: its leadership of epoch %d ends", name, status.Reign.Counter)
	case status.Leader.IsZero():
		return fmt.Sprintf("%s does not lead, and no leader is known: %s", name, s.tally.whyNoLeader(status))
	}
	return fmt.Sprintf("%s does not lead: %s does, epoch %d%s", name, leader, status.Epoch.Counter, s.since(status.Epoch))
}

// since is for how long the epoch has been led, as far as this host knows.
func (s *seat) since(e wire.Epoch) string {
	for _, past := range slices.Backward(s.past()) {
		if past.Epoch.Counter == e.Counter && past.Epoch.Owner == e.Owner.String() {
			return ", for " + inWords(wallClock().Sub(past.From))
		}
	}
	return ""
}

// inWords is a time span in its largest unit, as the commands show it.
func inWords(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + "s"
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

// barText says of a bar what is well, where that is worth a word, and what is not.
type barText struct {
	ok func(s *seat, status election.Status) string // nil: nothing is said of it
	no func(s *seat, status election.Status) string
}

func always(text string) func(*seat, election.Status) string {
	return func(*seat, election.Status) string { return text }
}

// barTexts has every bar.
var barTexts = map[election.Bar]barText{
	election.BarPart:   {ok: always("voter"), no: (*seat).partNote},
	election.BarRoster: {ok: (*seat).rosterNote, no: func(s *seat, status election.Status) string { return s.tally.whyNoVoter(status) }},
	election.BarLeave:  {no: always("this agent was asked to stop")},
	election.BarDisk:   {ok: always("disk writes"), no: func(s *seat, _ election.Status) string { return s.diskNote() }},
	election.BarLink:   {ok: always("link up"), no: always(whyUnlinked)},
	election.BarHold:   {no: (*seat).heldNote},

	// Which check and why the host says (barNotes).
	election.BarCheck:       {no: always("a check of this host fails, or has not passed yet")},
	election.BarListed:      {no: always("the host list of another host does not name this one")}, // whose, status says
	election.BarMaintenance: {no: func(s *seat, status election.Status) string { return strings.Join(s.maintenanceNotes(status), "; ") }},
}

func (s *seat) partNote(election.Status) string {
	if s.election.Part == election.Witness {
		return "this host is a witness: it votes and never leads"
	}
	return "this host is an observer: it follows, and neither votes nor leads"
}

func (s *seat) rosterNote(status election.Status) string {
	if !status.Roster.Formed {
		return ""
	}
	return fmt.Sprintf("roster agreed (%d of %d)", s.tally.votersHere(status), len(status.Roster.IDs))
}

func (s *seat) heldNote(status election.Status) string {
	return strings.Join(s.holdNotes(status.Held.Sub(s.around.now())), "; ")
}

// reasons are this host's: its bars, and if it stands and nobody leads, what its claim
// waits for.
func (s *seat) reasons(status election.Status, out election.Outlook, fromHost map[election.Bar]string) (all []control.Reason) {
	for _, bar := range election.AllBars() {
		say, ok := barTexts[bar].ok, !status.Bars.Has(bar)
		if !ok {
			say = barTexts[bar].no
		}
		if say == nil {
			continue
		}
		text := say(s, status)
		if !ok {
			text = cmp.Or(fromHost[bar], text)
		}
		if text != "" {
			all = append(all, control.Reason{About: bar.String(), OK: ok, Text: text})
		}
	}
	if why, ok := s.whyHeld(status); ok {
		all = append(all, control.Reason{About: failedOf(s.heldFor), Text: why})
	}
	switch {
	case status.State == election.Lead:
		return append(all, control.Reason{About: "lease", OK: true, Text: s.leaseNote(status)})
	case status.Bars != 0 || out.Hurdle == election.NoHurdle:
		return all
	}
	if text := s.hurdleNote(status, out); text != "" {
		all = append(all, control.Reason{About: out.Hurdle.String(), Text: text})
	}
	return all
}

// lacking says what a leader does without, and why it leads all the same.
func (s *seat) lacking(status election.Status, stays []string) (all []control.Reason) {
	if s.degraded(status) {
		all = append(all, control.Reason{About: failedOf(s.redo.last), Text: s.degradedNote() + "; " + s.redo.when(s.around.now())})
	}
	for _, text := range stays {
		all = append(all, control.Reason{About: "resource", Text: text})
	}
	return all
}

// when says when the next attempt is.
func (d *redo) when(now time.Time) string {
	if d.at.IsZero() {
		return "it is being tried again"
	}
	return "it is tried again in " + inWords(d.at.Sub(now))
}

// leaseNote says what a leader's right to act rests on.
func (s *seat) leaseNote(status election.Status) string {
	text := "lease " + inWords(status.Lease.Sub(s.around.now()))
	if status.NeedAcks > 0 {
		text += fmt.Sprintf(", %d acknowledge and %d must", status.Acks, status.NeedAcks)
	}
	return text
}

// hurdleNote says what a claim of this host waits for; nothing where it only has not been
// made yet.
func (s *seat) hurdleNote(status election.Status, out election.Outlook) string {
	left := inWords(out.Until.Sub(s.around.now()))
	switch out.Hurdle {
	case election.HurdleLease:
		if status.Cause == election.Promised {
			return whyPromised
		}
		return "the leader that was lost may act for " + left + " still"
	case election.HurdleMembers:
		return fmt.Sprintf("%s: %d, this host included, and min_members = %d", whyTooFew, out.Present, s.election.MinMembers)
	case election.HurdleRoster:
		return s.tally.whyNoQuorum(status)
	case election.HurdleMute:
		return "this voter was restarted and is silent for " + left + ": its last life may have promised its vote"
	case election.HurdlePromise:
		return "this voter has promised its vote to another for " + left + " still"
	case election.HurdleVoters:
		if out.Isolated {
			return s.tally.minority(status)
		}
	case election.HurdleSilence:
		if out.Isolated {
			return whyIsolated
		}
	}
	return ""
}

// unfitNotes say why another member is left out.
var unfitNotes = map[election.Unfit]string{
	election.UnfitLeft:     "it has left",
	election.UnfitPart:     "it cannot lead: its role is %s",
	election.UnfitListed:   "hosts does not name it",
	election.UnfitRoster:   "it is not in the roster: it was forgotten, or never taken in",
	election.UnfitSilent:   "it is not heard",
	election.UnfitLost:     "it led, fell silent and was given up",
	election.UnfitDraining: "it says that it cannot lead now",
}

// maintained says why of a host that somebody works on: gossip has it, and so this host knows.
func maintained(reason string) string {
	if reason == "" {
		return "it is in maintenance"
	}
	return "it is in maintenance (" + reason + ")"
}

// gaveUp says when the node gave the member up; zero: it did not, or has heard it since.
func (s *seat) gaveUp(id wire.ID) time.Time {
	c, _ := s.node.Candidate(id)
	return c.GivenUp
}

// reasonsOf are another member's, as this node knows it.
func (s *seat) reasonsOf(id wire.ID, status election.Status) []control.Reason {
	m, _ := s.around.seen().member(id)
	c, known := s.node.Candidate(id)
	switch {
	case !known && m.ConfigHash != 0 && m.ConfigHash != s.around.seen().self.ConfigHash:
		return []control.Reason{{About: "settings", Text: "its settings differ from this host's: it takes no part here"}}
	case !known:
		return []control.Reason{{About: election.UnfitSilent.String(), Text: "this host has not met it since its start"}}
	case c.Unfit == election.UnfitPart:
		return []control.Reason{{About: c.Unfit.String(), Text: fmt.Sprintf(unfitNotes[c.Unfit], m.Role)}}
	case c.Unfit == election.UnfitDraining && m.InMaintenance:
		return []control.Reason{{About: c.Unfit.String(), Text: unfitNotes[c.Unfit] + ": " + maintained(m.Reason)}}
	case c.Unfit != election.Fit:
		return []control.Reason{{About: c.Unfit.String(), Text: unfitNotes[c.Unfit]}}
	}
	return []control.Reason{{About: "fit", OK: true, Text: "voter, heard, says nothing against it"}}
}
