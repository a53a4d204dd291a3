package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/wire"
)

// snapshot is what others may read of the loop's state. It is never changed
// after it was published.
type snapshot struct {
	*standing // of the seat
	members   []control.Member
	checks    []control.Check
	resources []control.Resource
	notes     []string
	waiting   []control.Waiting
	isCut     bool       // this host is on no network
	addr      netip.Addr // at which the others reach it
	trouble   string     // with that; empty: none
	remedy    string
	at        time.Time // by the agent's clock
}

// show publishes what the seat says of itself, and with it what the host knows: here, and
// to the other hosts that this one has settled.
func (a *agent) show(st *standing) {
	a.noteBars(st)
	if was := a.view.roster.IDs; !slices.Equal(was, st.status.Roster.IDs) {
		a.view.roster = st.status.Roster
		a.seal.SetRoster(slices.Clone(st.status.Roster.IDs))
		a.keepWarm()
	}
	a.view.roster = st.status.Roster
	trouble, remedy := a.noteTrouble()
	a.shown.Store(&snapshot{standing: st, members: a.controlMembers(st.status), notes: slices.Concat(st.notes, a.notes(), a.farNotes(st.status)),
		waiting: a.waiting, isCut: a.isCut, addr: a.view.self.Addr.Addr(), trouble: trouble, remedy: remedy, at: a.cfg.Now(), checks: a.controlChecks(), resources: a.controlResources()})
	a.noteSettled(st.status)
	if a.feed != nil {
		a.feed.Changed()
	}
}

// notes says in plain words what a person should know of this host.
func (a *agent) notes() []string {
	notes := slices.Clone(a.cfg.Notes)
	if len(a.waiting) > 0 {
		notes = append(notes, "changed in the configuration, and waiting for a restart of this agent: "+strings.Join(namesOfWaiting(a.waiting), ", "))
	}
	if errors.Is(a.fatal, ErrOlder) {
		notes = append(notes, a.fatal.Error())
	}
	notes = append(notes, a.refusedNotes()...)
	notes = append(notes, a.listNotes()...)
	notes = append(notes, a.checkNotes()...)
	notes = append(notes, a.muteNotes()...)
	notes = append(notes, a.relayedNotes()...)
	for _, odd := range a.view.oddlyConfigured() {
		notes = append(notes, a.view.label(odd.ID)+" takes no part here, settings that must be the same on all nodes differ: "+a.differences(odd))
	}
	if alone := a.whyAlone(); alone != "" {
		notes = append(notes, alone)
	}
	return notes
}

const overstays = "a command of exec or hold has not ended here with its lease: it, or its holder, hangs; exec and hold name the process"

// holderNotes is called by any goroutine.
func (a *agent) holderNotes() []string {
	if a.seat.holders.overstay(a.cfg.Now()) {
		return []string{overstays}
	}
	return nil
}

// lookAtHolders tells those who do not ask, too.
func (a *agent) lookAtHolders() {
	if len(a.holderNotes()) > 0 && a.isRare(overstays) {
		a.log.Error(overstays)
		a.event(control.Event{Type: "warning", Cause: "not-ended", Text: overstays})
	}
}

// whyAlone says what is known of why nobody else is here, where others should
// be. Behind a firewall that drops everything there is not even an error.
func (a *agent) whyAlone() string {
	j := a.members().JoinState()
	if len(j.Seeds) == 0 || a.view.hasCompany() || a.isCut { // of a cut placeTrouble knows more
		return ""
	}
	if len(a.view.others) > 0 {
		if j.LastError == "" {
			return ""
		}
		return "no other member is here: " + j.LastError
	}
	why := fmt.Sprintf("no other member was ever heard: see that the names in join (%s) are right, and that UDP and TCP port %d "+
		"are open on all hosts", strings.Join(j.Seeds[:min(len(j.Seeds), 5)], ", "), a.view.self.Addr.Port())
	if j.LastError != "" {
		why += "; last error: " + j.LastError
	}
	return why
}

// Status implements control.Backend.
func (a *agent) Status() control.Status {
	s := a.shown.Load()
	out := control.Status{Version: a.cfg.Version, Cluster: a.cfg.Cluster, Self: s.members[0], Uptime: wallClock().Sub(a.started).Seconds(),
		Profile: a.cfg.Profile, Encryption: a.encryption(s.members), Hosts: a.controlHosts(), Waiting: s.waiting, Notes: slices.Concat(s.notes, a.holderNotes(), seedNotes(a.members().JoinState()), a.strangerNotes(), a.leftOutNotes()), Counters: a.counts(),
		Checks: s.checks, Resources: s.resources}
	if s.trouble != "" {
		out.Notes = append([]string{s.trouble + ": " + s.remedy}, out.Notes...)
	}
	a.seat.report(&out, s.standing)
	a.showKeeper(&out)
	out.Reader = a.reader()
	if a.cfg.Scheduling != nil {
		out.Scheduling = a.cfg.Scheduling()
	}
	out.Silent = silent(s.members)
	out.Alive, out.Members = countMembers(s.members)
	a.reportStandstill(&out)
	return out
}

// counts is everything that this agent counts, by name.
func (a *agent) counts() map[string]uint64 {
	out := a.counters.snapshot()
	joined := a.members().JoinState()
	for cause, n := range joined.Refused {
		out["member_refused_"+strings.ReplaceAll(cause, " ", "_")] = n
	}
	for cause, n := range joined.Kept {
		out["gossip_refused_"+strings.ReplaceAll(cause, "-", "_")] = n
	}
	s := a.lan.Stats()
	out["port_datagrams_in"], out["port_datagrams_out"], out["port_send_errors"] = s.DatagramsIn, s.DatagramsOut, s.SendErrors
	out["port_streams_refused"], out["port_tethers_held"] = s.StreamsRefused, s.TethersHeld
	out["port_tethers_lost"], out["port_datagrams_refused"] = s.TethersLost, s.DatagramsRefused
	a.countSeal(out)
	return out
}

// Members implements control.Backend.
func (a *agent) Members() []control.Member {
	members := slices.Clone(a.shown.Load().members)
	for i := range members {
		id, err := wire.ParseID(members[i].ID)
		if ago, ever := a.heardAgo(id); err == nil && ever {
			heard := ago.Milliseconds()
			members[i].HeardMS = &heard
		}
	}
	a.noteLacking(members)
	slices.SortFunc(members, func(x, y control.Member) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.ID, y.ID)) // the same on every host
	})
	return members
}

// History implements control.Backend.
func (a *agent) History() []control.Leadership { return a.seat.past() }

// Explain implements control.Backend.
func (a *agent) Explain(ctx context.Context, member string) (control.Explanation, error) {
	return ask(ctx, a, func() (control.Explanation, error) { return a.seat.explain(member, a.barNotes(), a.staysWithout()) })
}

// Events implements control.Backend.
func (a *agent) Events(since uint64) ([]control.Event, <-chan struct{}) { return a.ring.Events(since) }

// Lease implements control.Backend.
func (a *agent) Lease() (control.Lease, <-chan struct{}) { return a.seat.Lease() }

// Enter implements control.Backend.
func (a *agent) Enter(grace time.Duration) (lease func() (control.Lease, <-chan struct{}), leave func(hasEnded bool)) {
	return a.seat.Enter(grace)
}
