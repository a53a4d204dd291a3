package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/internal/transport"
	"github.com/bully-agent/bully-agent/wire"
)

const encryptionNone = "none: traffic is neither encrypted nor authenticated"

// snapshot is what others may read of the loop's state. It is never changed
// after it was published.
type snapshot struct {
	status   election.Status
	role     string
	leader   wire.ID
	members  []control.Member
	node     control.Node // the leader
	ready    bool
	degraded bool
	lastHook *control.Hook
	notes    []string
	waiting  []control.Waiting
	roster   *control.Roster
	quorum   *control.Quorum
	why      string // there is no leader
}

// publish shows the loop's state to the other goroutines.
func (a *agent) publish() {
	status := a.node.Status()
	s := &snapshot{status: status, role: a.roleWord(status.Role), leader: status.Leader, lastHook: a.lastHook,
		members: a.controlMembers(status.Leader), node: a.view.controlNode(status.Leader), notes: a.notes(status),
		waiting: a.waiting}
	s.ready = !status.Leader.IsZero() && (status.Leader != a.state.ID || a.hookReady)
	s.degraded = a.degraded(status)
	s.roster, s.quorum, s.why = a.controlRoster(status.Roster), a.controlQuorum(status), a.whyNoLeader(status)
	a.shown.Store(s)
	a.tenancy.show(status, a.hookReady)
	a.noteSettled(status)
	a.tellJobs(status)
}

// notes says in plain words what a person should know.
func (a *agent) notes(s election.Status) []string {
	notes := []string{}
	if s.Isolated {
		notes = append(notes, "no other member answers: this host may be cut off")
	}
	if !a.diskAt.IsZero() {
		notes = append(notes, "the state directory takes no writes: this agent cannot lead until it does: "+a.diskWhy)
	}
	notes = append(notes, a.hookNotes(s)...)
	notes = append(notes, a.quorumNotes(s)...)
	notes = append(notes, a.jobNotes()...)
	if held := holdNote(s.Held.Sub(a.cfg.Now())); held != "" {
		notes = append(notes, held)
	}
	notes = append(notes, a.cfg.Notes...)
	if len(a.waiting) > 0 {
		notes = append(notes, "changed in the configuration, and waiting for a restart of this agent: "+strings.Join(namesOfWaiting(a.waiting), ", "))
	}
	for _, odd := range a.view.oddlyConfigured() {
		notes = append(notes, odd.Name+" takes no part here, settings that must be the same on all nodes differ: "+a.differences(odd))
	}
	if alone := a.whyAlone(); alone != "" {
		notes = append(notes, alone)
	}
	return notes
}

// whyAlone says what is known of why nobody else is here, where others should
// be. Behind a firewall that drops everything there is not even an error.
func (a *agent) whyAlone() string {
	j := a.members.JoinState()
	if len(j.Seeds) == 0 || a.view.hasCompany() {
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

// roleWord is what people and hooks are told: an observer that votes is a
// witness, as its configuration says, and a voter that does not stand for a while,
// being cut off or held down, is a follower that knows no leader.
func (a *agent) roleWord(r election.Role) string {
	s := a.node.Status()
	switch {
	case r != election.RoleObserver:
	case a.cfg.Election.Part == election.Witness:
		return membership.Witness.String()
	case a.cfg.Election.Part == election.Voter && !s.Outside && !a.isForgotten(s.Roster):
		return election.RoleFollower.String()
	}
	return r.String()
}

// leadership is the history's entry for the leader of e.
func (a *agent) leadership(e election.Transition) control.Leadership {
	return control.Leadership{Epoch: control.Epoch{Counter: e.Epoch.Counter, Owner: ownerText(e.Epoch)},
		Leader: a.view.controlNode(e.Leader), From: wallClock(), Began: string(e.Cause), Self: e.Leader == a.state.ID}
}

// Status implements control.Backend. It looks at the clock before it says
// "leader", since callers act on the answer (R13).
func (a *agent) Status() control.Status {
	s := a.shown.Load()
	now := a.cfg.Now()
	until := a.lease.Load()
	leads := s.status.State == election.Lead && until > now.UnixNano()
	out := control.Status{Version: a.cfg.Version, Cluster: a.cfg.Cluster, Self: s.members[0], Role: s.role,
		State: s.status.State.String(), Cause: string(s.status.Cause), LeaderIsSelf: leads, Ready: s.ready,
		Epoch: control.Epoch{Counter: s.status.Epoch.Counter, Owner: ownerText(s.status.Epoch)},
		Since: s.status.Since, Uptime: wallClock().Sub(a.started).Seconds(), Mode: a.mode(), Promise: a.promise(),
		Expect: a.cfg.Election.Expect, Roster: s.roster, Quorum: s.quorum, WhyNoLeader: s.why,
		Algorithm: cmp.Or(a.cfg.Election.Algorithm, election.Classic).String(), Preempt: a.cfg.Election.Preempt.String(), Profile: a.cfg.Profile, Isolated: s.status.Isolated,
		HoldDownMS: max(s.status.Held.Sub(now), 0).Milliseconds(),
		LastHook:   s.lastHook, Encryption: encryptionNone, Waiting: s.waiting, Notes: s.notes, Counters: a.counts()}
	a.showGuard(&out, s.degraded)
	if s.leader == a.state.ID && !leads {
		out.Ready = false
	} else if !s.leader.IsZero() {
		out.Leader = &s.node
	}
	if leads {
		remain := time.Duration(until - now.UnixNano()).Milliseconds()
		out.LeaseRemainMS = &remain
	}
	out.Silent = silent(s.members)
	for _, m := range s.members {
		if m.Status != "left" {
			out.Members++
		}
		if m.Status == "alive" {
			out.Alive++
		}
	}
	return out
}

// counts is everything that this agent counts, by name.
func (a *agent) counts() map[string]uint64 {
	out := a.counters.snapshot()
	for cause, n := range a.members.JoinState().Refused {
		out["member_refused_"+strings.ReplaceAll(cause, " ", "_")] = n
	}
	if port, ok := a.lan.(interface{ Stats() transport.Stats }); ok {
		s := port.Stats()
		out["port_frames_in"], out["port_frames_out"] = s.FramesIn, s.FramesOut
		out["port_gossip_in"], out["port_gossip_out"] = s.GossipIn, s.GossipOut
		out["port_gossip_dropped"], out["port_send_errors"] = s.GossipDropped, s.SendErrors
		out["port_streams_refused"], out["port_tethers_held"] = s.StreamsRefused, s.TethersHeld
		out["port_tethers_lost"], out["port_datagrams_refused"] = s.TethersLost, s.DatagramsRefused
	}
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
	slices.SortFunc(members, func(x, y control.Member) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.ID, y.ID)) // the same on every host
	})
	return members
}

// History implements control.Backend.
func (a *agent) History() []control.Leadership { return a.history.all() }

// Events implements control.Backend.
func (a *agent) Events(since uint64) ([]control.Event, <-chan struct{}) { return a.ring.Events(since) }

// Reload implements control.Backend: the configuration is read and checked
// whole before anything of it is taken.
func (a *agent) Reload(ctx context.Context) error {
	if a.cfg.Reload == nil {
		return control.ErrUnsupported
	}
	next, err := a.cfg.Reload()
	if err != nil {
		a.log.Error("configuration not reloaded; nothing was changed", "err", err)
		return &control.APIError{Status: 422, Message: err.Error(), Hint: "nothing was changed", Code: "invalid"}
	}
	if !a.call(ctx.Done(), func() { a.reload(next) }) {
		return ctx.Err()
	}
	return nil
}

// reloads serves the signal; reading the file is not the loop's work.
func (a *agent) reloads(ctx context.Context) {
	for {
		select {
		case <-a.cfg.Reloads:
			_ = a.Reload(ctx) // said in the log
		case <-ctx.Done():
			return
		}
	}
}

func (a *agent) reload(next Reloaded) {
	a.runner.SetConfig(a.hooksConfig(next.Hooks))
	if epoch, ok := a.runner.Keeps(); ok {
		a.log.Warn(keepsNote(epoch))
	}
	a.reloadJobs(next.Jobs, next.Hooks.Grace)
	a.cfg.Seeds = next.Seeds
	a.members.SetSeeds(next.Seeds)
	a.log.SetLevel(next.LogLevel)
	if next.Priority != a.view.self.Priority {
		a.view.self.Priority = next.Priority
		a.command(election.Command{Verb: election.Reprioritise, Priority: next.Priority}, func(error) {})
		a.members.SetSelf(next.Priority, a.view.self.Role, false, false)
	}
	a.waiting, a.cfg.Notes = next.Waiting, next.Notes
	if len(a.waiting) > 0 {
		a.log.Warn("some changed settings need a restart", "settings", strings.Join(namesOfWaiting(a.waiting), ", "))
	}
	a.log.Info("configuration reloaded")
	a.publish()
}

func namesOfWaiting(waiting []control.Waiting) []string {
	names := make([]string, len(waiting))
	for i, w := range waiting {
		names[i] = w.Setting
	}
	return names
}

// dump puts the whole state into the log.
func (a *agent) dump() {
	a.log.Info("state", "status", a.node.Status())
	for _, m := range a.view.all() {
		a.log.Info("state: member", "member", m.Name, "addr", m.Addr, "status", m.Status, "priority", m.Priority,
			"incarnation", m.Incarnation, "id", m.ID, "rtt", m.RTT)
	}
	a.jobDump()
	counts := a.counts()
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		a.log.Info("state: counter", "name", name, "count", counts[name])
	}
}
