package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// Cluster is a live cluster, as one of its hosts knows it.
type Cluster struct {
	// Settings are those that all share. Of a host's own they are Host's.
	Settings election.Config
	Counter  uint64        // of the epoch in force
	Roster   []wire.ID     // quorum mode: who votes; none: no roster holds yet
	Save     time.Duration // what a save takes on each host, in the mean
	LoseHook time.Duration // what a lose hook takes, and up to as much again
	Hosts    []Host
}

// Host is one member.
type Host struct {
	ID       wire.ID
	Priority uint16
	Part     election.Part
	Here     bool          // it is there and takes part
	Leads    bool          // it leads now
	IsBarred bool          // something keeps it from standing, and will go on doing so
	Far      time.Duration // its share of the way to another: half of its part of a round trip
}

// Blow is what happens to a host in a WhatIf.
type Blow uint8

// The blows.
const (
	AgentKilled  Blow = iota + 1 // its process ends; its kernel and its keeper go on
	HostDies                     // nothing comes from it any more
	HostCut                      // it goes on, and reaches nobody; its link stays up
	AgentStops                   // cleanly
	AgentFreezes                 // its process; its kernel and its keeper go on
)

// Outcome is what came of one play.
type Outcome struct {
	Leader    int           // index of the host that leads in the end, among those not hit; -1: nobody
	Took      time.Duration // from the blow until it led; zero: it led before
	HitLeads  bool          // the host that was hit leads in the end, on its side of a cut
	Voters    int           // quorum mode: how many are left on the other side
	Need      int           // of them
	NoneLed   bool          // nobody led before the blow either
	Violation *Violation    // the simulator found a fault of its own or the election's; nil: none
}

// Times of a play, simulated.
const (
	whatIfStart = 20 * time.Second       // for what leads now to lead here
	whatIfSoon  = time.Second            // after the blow, beside some leases: whoever is to lead leads
	whatIfAfter = 9 * time.Second        // memberlist has given the host up
	whatIfHeld  = 24 * time.Hour         // who is barred is held down
	whatIfSpawn = 5 * time.Millisecond   // what the keeper may take to start a hook and to hear of its end; arbitrary
	whatIfQuick = 100 * time.Millisecond // settle before the play: nobody waits for slow starters here
)

// WhatIf plays what happens to c when a host is hit, once. Chance is the seed's: the
// moment between two heartbeats, and what the network and the disks take.
func WhatIf(c *Cluster, hit int, blow Blow, seed uint64) (o Outcome) {
	w := newWhatIf(c, seed)
	defer func() {
		if p := recover(); p != nil {
			w.failure = &Violation{At: time.Duration(w.now), Text: fmt.Sprintf("panic: %v", p)}
		}
		o.Violation = w.failure
	}()
	w.populate()
	w.castLive(c)
	w.record = newRecord(w.net.size)
	o.NoneLed = !w.beginLive(c)
	w.runUntil(w.now+int64(2*w.base.Heartbeat+w.upTo(2*w.base.Heartbeat)), nil)
	m := w.machines[hit]
	was := w.leaderBeside(m)
	o.countVoters(w, c, hit)
	w.record.changes = nil
	began := w.now
	w.strike(m, blow)
	w.runUntil(began+int64(whatIfSoon+w.base.PreemptDelay+3*w.longestLease()), nil)
	needsDetector := w.leaderBeside(m) == nil || w.base.MinMembers > 1 || blow == HostCut && w.mode == Available
	if needsDetector {
		w.runUntil(began+int64(whatIfAfter+3*w.longestLease()), nil)
	}
	o.Leader, o.HitLeads = -1, w.acts(m)
	if now := w.leaderBeside(m); now != nil {
		o.Leader = now.number - 1
		o.Took = w.ledAfter(now, was, began)
	}
	return o
}

func newWhatIf(c *Cluster, seed uint64) *World {
	w := &World{rng: rand.New(rand.NewPCG(seed, 0x1f))}
	w.keepers.rng, w.unusual.rng = rand.New(rand.NewPCG(seed, 0x2f)), rand.New(rand.NewPCG(seed, 0x3f))
	s := &w.scenario
	s.seed, s.size, s.beyond, s.mixed, s.base, s.mode = seed, len(c.Hosts), noFault, noFault, c.Settings, Available
	if c.Settings.Expect > 0 {
		s.mode = Quorum
	}
	s.base.Settle = whatIfQuick
	s.weather = weather{delay: 20 * time.Microsecond, jitter: time.Millisecond}
	hook := c.LoseHook
	s.hookTimes = hookTimes{become: time.Millisecond, least: hook, lose: 2*hook + whatIfSpawn, timeout: time.Hour}
	s.deadAfter, s.aliveAfter = 6*time.Second, 10*time.Millisecond
	return w
}

// castLive makes the machines those of the cluster.
func (w *World) castLive(c *Cluster) {
	for i, h := range c.Hosts {
		m := w.machines[i]
		m.id, m.far, m.disk.slow = h.ID, h.Far, 2*c.Save
		m.cfg = w.base
		m.cfg.Priority, m.cfg.Part = h.Priority, h.Part
		if !h.Leads { // who leads though it is barred has nobody to hand over to
			m.cfg.HoldDown = whatIfHeld
		}
		state := election.Saved{MaxCounter: c.Counter}
		if len(c.Roster) > 0 {
			state.Roster = election.Roster{Version: 1, IDs: slices.Clone(c.Roster), Formed: true}
			slices.SortFunc(state.Roster.IDs, wire.ID.Compare)
		}
		m.disk.state, m.disk.synced, m.disk.older, m.disk.backup = state, state, state, state
	}
}

// beginLive starts who is here, and has who leads now lead here: the others stand once
// they follow it. It reports whether that came about.
func (w *World) beginLive(c *Cluster) bool {
	isLed := slices.ContainsFunc(c.Hosts, func(h Host) bool { return h.Leads && h.Here })
	for i, h := range c.Hosts {
		if !isLed && !h.IsBarred {
			w.machines[i].cfg.HoldDown = 0
		}
		if h.Here {
			w.boot(w.machines[i])
		}
	}
	begins := w.agreeBy(int64(whatIfStart), 20*time.Millisecond)
	for i, h := range c.Hosts {
		if m := w.machines[i]; isLed && h.Here && !h.Leads && !h.IsBarred && h.Part == election.Voter {
			w.command(m, election.Command{Verb: election.Stand, Token: 7})
		}
	}
	return begins
}

// strike hits a host.
func (w *World) strike(m *machine, blow Blow) {
	switch blow {
	case AgentKilled:
		w.kill(m, Crash)
	case HostDies:
		w.kill(m, PowerLoss)
	case HostCut:
		for _, other := range w.machines {
			if other != m {
				w.setCut(m, other, true)
				w.setCut(other, m, true)
			}
		}
	case AgentStops:
		if m.runs() {
			m.leaving = true
			w.command(m, election.Command{Verb: election.Leave, Token: leaveToken})
		}
	case AgentFreezes:
		w.freeze(m, Freeze, whatIfHeld)
	default:
		panic("BUG: unknown blow")
	}
}

// leaderBeside is who leads now, except for m.
func (w *World) leaderBeside(m *machine) *machine {
	for _, other := range w.machines {
		if other != m && w.acts(other) {
			return other
		}
	}
	return nil
}

// ledAfter is when a leader came to lead, after the blow; zero: it led before, and all the
// time.
func (w *World) ledAfter(leader, was *machine, began int64) time.Duration {
	for _, c := range slices.Backward(w.record.changes) {
		if c.who == leader.number {
			return time.Duration(c.at - began)
		}
	}
	if leader != was {
		panic("BUG: somebody leads who never began to")
	}
	return 0
}

// countVoters counts who is left of a quorum.
func (o *Outcome) countVoters(w *World, c *Cluster, hit int) {
	if w.mode != Quorum || len(c.Roster) == 0 {
		return
	}
	o.Need = quorum.Size(len(c.Roster))
	for i, m := range w.machines {
		if i != hit && m.runs() && slices.Contains(c.Roster, m.id) {
			o.Voters++
		}
	}
}
